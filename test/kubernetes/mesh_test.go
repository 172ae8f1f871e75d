package kubernetes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// mesh is a pool with engines that answer, and all services as processes: what its
// routers know they know from the API server.
type mesh struct {
	*world
	port       int
	collectors []*cluster.Process
	queues     []*cluster.Process // replicas of scorer-queue, whose addresses stay listed
	routers    []*cluster.Process
	client     *http.Client
}

// newMesh starts two collectors, two replicas of scorer-queue, one prefix-indexer and
// some routers, with the flags that endpoint pickers have, on a pool without pods.
func newMesh(t *testing.T, routers int) *mesh {
	t.Helper()
	m := &mesh{world: newWorld(t), port: kittest.FreePort(t), client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
	t.Cleanup(m.client.CloseIdleConnections)
	m.pool(t, "m", m.port)
	flags := []string{"--poolName=m", "--poolNamespace=" + m.ns}
	for range 2 {
		m.collectors = append(m.collectors, m.collector(t, flags...))
	}
	process := func(service string, listeners int, more ...string) *cluster.Process {
		p := cluster.NewProcess(t, service, cluster.Binary(t, service), listeners, append([]string{"--set=nats.url=" + m.nats, "--set=admin.address=127.0.0.1:0"}, more...)...)
		p.Start(t)
		return p
	}
	grpc := func() string { return fmt.Sprintf("--set=listen.grpc.address=127.0.0.1:%d", kittest.FreePort(t)) }
	for range 2 {
		m.queues = append(m.queues, process("scorer-queue", 2, "--pool="+m.ns+"/m", grpc()))
	}
	prefixes := process("prefix-indexer", 2, "--pool="+m.ns+"/m", grpc())
	for range routers {
		// Health, admin and gRPC are there before there is an endpoint; the rest are not.
		m.routers = append(m.routers, process("router", 3, append(flags, "--haEnableLeaderElection=true", "--secureServing=false", "--configText="+meshConfig,
			// The machine is shared: who is only slow must not seem to fail.
			"--set=scoring.timeout=5s", "--set=listen.http.address=127.0.0.1:0", "--set=listen.grpc.address=127.0.0.1:0", "--set=listen.extProc.address=127.0.0.1:0", "--set=listen.extProc.healthAddress=127.0.0.1:0",
			fmt.Sprintf(`--set=scorers=[{name: scorer-queue, target: "%s,%s"}, {name: prefix-indexer, target: %q}]`, m.queues[0].Addr("grpc"), m.queues[1].Addr("grpc"), prefixes.Addr("grpc")))...))
	}
	return m
}

const meshConfig = `{apiVersion: inference.networking.x-k8s.io/v1alpha1, kind: EndpointPickerConfig,
  plugins: [{type: queue-scorer}, {type: prefix-cache-scorer}],
  schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer, weight: 1}, {pluginRef: prefix-cache-scorer, weight: 3}]}]}`

// engine starts a model server at the address of pod number i.
func (m *mesh) engine(t testing.TB, i int) {
	t.Helper()
	cfg := modelserver.DefaultConfig()
	cfg.Address, cfg.TimeScale = m.at(i), 50
	s, err := modelserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Kill() })
}

func (m *mesh) ip(i int) string { return fmt.Sprintf("127.0.8.%d", 1+i) }
func (m *mesh) at(i int) string { return fmt.Sprintf("%s:%d", m.ip(i), m.port) }

// know waits until every router knows exactly so many endpoints.
func (m *mesh) know(t testing.TB, n int) {
	t.Helper()
	kittest.Eventually(t, fmt.Sprintf("every router knows %d endpoints", n), func() bool {
		return !slices.ContainsFunc(m.routers, func(r *cluster.Process) bool { return r.Metric(t, "pointsman_roster_endpoints", "") != float64(n) })
	})
}

// scored waits until a router has been given scores by a scorer.
func (m *mesh) scored(t testing.TB, router int, scorer string) {
	t.Helper()
	kittest.Eventually(t, scorer+" is asked", func() bool {
		m.ask(t, router, strings.Repeat("Are you there? ", 20)) // longer than a block of a prefix
		scored, _ := m.verdicts(t, router, scorer)
		return scored > 0
	})
}

// verdicts counts the calls of a scorer that were answered with scores, and all others.
func (m *mesh) verdicts(t testing.TB, router int, scorer string) (scored, other float64) {
	t.Helper()
	_, text := page(t, "http://"+m.routers[router].Addr("admin")+"/metrics")
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "pointsman_router_scorer_calls_total{") || !strings.Contains(line, `scorer="`+scorer+`"`) {
			continue
		}
		n := 0.0
		if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &n); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `verdict="scored"`) {
			scored += n
		} else {
			other += n
		}
	}
	return scored, other
}

// reply is what a router's HTTP front has answered.
type reply struct {
	status   int
	endpoint string
	header   http.Header
	text     string
}

// ask sends one prompt to a router's HTTP front.
func (m *mesh) ask(t testing.TB, router int, prompt string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.routers[router].Addr("http")+"/v1/chat/completions",
		strings.NewReader(fmt.Sprintf(`{"model":"sim-model","max_tokens":2,"messages":[{"role":"user","content":%q}]}`, prompt)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := m.client.Do(req)
	if err != nil {
		t.Error(err)
		return reply{}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return reply{resp.StatusCode, resp.Header.Get("x-pointsman-endpoint"), resp.Header, string(text)}
}
