package system

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/test/cluster"
)

// placement adds a router of the same pool whose scorers are elsewhere than the
// cluster's own router has them.
func placement(t *testing.T, c *cluster.Cluster, name, binary string, args ...string) {
	t.Helper()
	free := func() string { return fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t)) }
	for _, s := range patient {
		args = append(args, "--set", s)
	}
	args = append(args, "--set", "nats.url="+c.NATS.URL, "--set", "admin.address="+free(), "--set", "listen.http.address="+free(),
		"--set", "listen.grpc.address="+free(), "--set", "listen.extProc.address=", "--set", "listen.extProc.healthAddress=")
	p := cluster.NewProcess(t, name, cluster.Binary(t, binary), 3, args...)
	p.Start(t)
	c.Routers = append(c.Routers, p)
	c.AwaitReady(t, len(c.Routers)-1)
}

// opinions is what a dry run says of every endpoint, and whom it would pick if that is
// no matter of luck.
type opinions struct {
	Scorers    []string
	Candidates map[string][]string
	Pick       string
}

func weigh(t *testing.T, c *cluster.Cluster, router int, body []byte) opinions {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := c.Router(t, router).Explain(ctx, &routerv1.ExplainRequest{Request: &routerv1.RequestDescription{Path: "/v1/chat/completions", Body: body}})
	if err != nil {
		t.Fatal(err)
	}
	p := m.GetDecision().GetProfiles()[0]
	o := opinions{Candidates: make(map[string][]string)}
	for _, s := range p.GetScorers() {
		o.Scorers = append(o.Scorers, fmt.Sprint(s.GetPlugin(), " ", s.GetVerdict()))
	}
	best, ties := -1.0, 0
	for _, e := range p.GetCandidates() {
		id := e.GetEndpoint().GetEndpointId()
		for _, s := range e.GetScores() {
			o.Candidates[id] = append(o.Candidates[id], fmt.Sprintf("%.5f %t %d", s.GetRaw(), s.GetAbstained(), s.GetMatchedBlockCount()))
		}
		switch {
		case e.GetTotal() > best:
			best, ties, o.Pick = e.GetTotal(), 1, id
		case e.GetTotal() == best:
			ties++
		}
	}
	if ties > 1 {
		o.Pick = "a tie"
	} else if got := p.GetPicked()[0].GetEndpointId(); got != o.Pick {
		t.Errorf("router %d: the best is %s, the pick %s", router+1, o.Pick, got)
	}
	return o
}

// A router that asks services over streams, one that calls them one by one, and one
// that has the scorers within come to the same picks: of endpoints that work, over
// prompts that one of the three has sent.
func TestEveryPlacementPicksTheSame(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Servers: 6, RouterSets: patient})
	var targets []string
	for name, p := range c.Scorers {
		targets = append(targets, fmt.Sprintf("{name: %s, target: %q, transport: unary}", name, p.Addr("grpc")))
	}
	placement(t, c, "router-unary", "router", "--set", "scorers=["+strings.Join(targets, ", ")+"]")
	placement(t, c, "router-embedded", "pointsman", "serve")

	chat := func(conversation, tokens int) []byte {
		return fmt.Appendf(nil, `{"model":"sim-model","max_tokens":%d,"messages":[{"role":"system","content":%q},{"role":"user","content":"Go on."}]}`,
			tokens, strings.Repeat(fmt.Sprintf("This is conversation %d. ", conversation), 40+7*conversation))
	}
	// Work that lasts, sent by one and then another, so that loads and prefixes differ.
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	for i := range 9 {
		working.Go(func() {
			_, _ = cluster.Post(ctx, http.DefaultClient, c.URL(i%3)+"/v1/chat/completions", chat(i%5, 5_000))
		})
	}
	t.Cleanup(func() {
		cancel()
		working.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	for router := range 3 {
		kittest.Eventually(t, "the work to be under way everywhere", func() bool {
			sum := uint32(0)
			list, err := c.Router(t, router).ListEndpoints(t.Context(), &routerv1.ListEndpointsRequest{})
			for _, e := range list.GetEndpoints() {
				sum += e.GetInFlightRequestCount()
			}
			return err == nil && sum == 9
		})
	}
	picked := make(map[string]bool)
	for conversation := range 8 { // three of them were never heard of
		var first opinions
		diff := ""
		kittest.Eventually(t, "the three to agree", func() bool { // figures change under way
			first = weigh(t, c, 0, chat(conversation, 10))
			diff = cmp.Diff(first, weigh(t, c, 1, chat(conversation, 10)))
			if diff == "" {
				diff = cmp.Diff(first, weigh(t, c, 2, chat(conversation, 10)))
			}
			return diff == ""
		})
		picked[first.Pick] = true
		for _, s := range first.Scorers {
			if !strings.Contains(s, "SCORED") && conversation < 5 {
				t.Errorf("conversation %d: %s", conversation, s)
			}
		}
	}
	if len(picked) < 3 {
		t.Errorf("only %v were picked: the test shows little", picked)
	}
	if n := c.Metric(t, 2, "pointsman_scorer_queue_calls_total", ""); n == 0 {
		t.Error("the scorer within was never asked")
	}
}
