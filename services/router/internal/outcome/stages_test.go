package outcome

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// worker picks endpoint pos for a part of the work on a prompt of 400 tokens.
func worker(n *node, l *Ledger, pos int, w route.Work, p *route.Profile, prompt route.Prompt) route.Reservation {
	c := &route.Cycle{Request: &route.Request{ID: "r", PromptTokens: 400, Prompt: prompt}, Snapshot: n.roster.Snapshot()}
	return l.Reserve(c, &c.Snapshot.Table.Endpoints[pos], &route.ProfileResult{Profile: p, Work: w})
}

// A prompt's tokens count where they are prefilled, and at one endpoint only.
func TestTokensCountWhereTheyArePrefilled(t *testing.T) {
	n, l := newRouter(t, kittest.NATS(t))
	check := func(when string, want ...int64) {
		t.Helper()
		s := n.roster.Snapshot()
		got := []int64{s.InFlight(0), s.InFlightTokens(0), s.InFlight(1), s.InFlightTokens(1)}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", when, d)
		}
	}
	p := &route.Profile{}
	decode, prefill := worker(n, l, 0, route.WorkDecode, p, nil), worker(n, l, 1, route.WorkPrefill, p, nil)
	check("both", 1, 0, 1, 400)
	decode.Move(&n.roster.Snapshot().Table.Endpoints[1])
	check("decode moved", 0, 0, 2, 400)
	decode.Move(&n.roster.Snapshot().Table.Endpoints[0])
	prefill.Finish(false, route.NoUsage())
	decode.(route.LocalPrefiller).PrefillHere()
	check("prefill failed", 1, 400, 0, 0)
	decode.(route.LocalPrefiller).PrefillHere()
	check("said twice", 1, 400, 0, 0)
	decode.Move(&n.roster.Snapshot().Table.Endpoints[1])
	check("moved again", 0, 0, 1, 400)
	decode.Finish(true, route.NoUsage())
	decode.(route.LocalPrefiller).PrefillHere()
	check("ended", 0, 0, 0, 0)

	encode := worker(n, l, 1, route.WorkEncode, p, nil)
	encode.(route.LocalPrefiller).PrefillHere()
	check("encode", 0, 0, 1, 0)
	encode.Finish(true, route.NoUsage())
	all := worker(n, l, 0, route.WorkAll, p, nil)
	all.(route.LocalPrefiller).PrefillHere()
	check("no stages", 1, 400, 0, 0)
	all.Finish(true, route.NoUsage())
	check("at the end", 0, 0, 0, 0)
}

// The endpoint that prefills holds the prompt too, also if its own profile has no scorer
// that would ask; one that encodes media does not.
func TestWhoLearnsOfAPrompt(t *testing.T) {
	url := kittest.NATS(t)
	n, l := newRouter(t, url)
	placed := make(chan *statev1.PrefixPlacement, 8)
	newNode(t, url, "indexer", func(n *node) []run.Part {
		bus.Subscribe(n.bus, bus.Prefix, func() *statev1.PrefixBatch { return &statev1.PrefixBatch{} }, func(m *statev1.PrefixBatch, _ bus.Meta) {
			for _, p := range m.GetPlacements() {
				placed <- p
			}
		})
		return nil
	})
	asks := []route.Scorer{{Asked: asker{64, 256}}}
	profiles := []*route.Profile{{Scorers: asks}, {Learners: asks}, {Scorers: asks, Learners: asks}}
	worker(n, l, 1, route.WorkEncode, profiles[0], prompt{}).Finish(true, route.NoUsage())
	var want, got []string
	for _, p := range profiles {
		r := worker(n, l, 0, route.WorkPrefill, p, prompt{})
		want = append(want, "a")
		r.Finish(true, route.NoUsage())
	}
	for range want {
		got = append(got, (<-placed).GetEndpointId())
	}
	if d := cmp.Diff(want, got); d != "" || len(placed) > 0 {
		t.Errorf("%s; %d more", d, len(placed))
	}
}

// What was transferred to the endpoint that decodes is in its cache when it begins, which
// says nothing of what was there before.
func TestCachedTokensOfWhoDecodesOnly(t *testing.T) {
	n, l := newRouter(t, kittest.NATS(t))
	told := &told{}
	l.reporter = told
	for _, w := range []route.Work{route.WorkAll, route.WorkDecode, route.WorkPrefill} {
		worker(n, l, 0, w, &route.Profile{}, nil).Finish(true, route.Usage{PromptTokens: 400, CachedPromptTokens: 384, OutputTokens: 1})
	}
	if d := cmp.Diff([]int64{384, -1, 384}, told.cached); d != "" {
		t.Error(d)
	}
}

// told is a Reporters, and its Reporter, that keeps the cached tokens.
type told struct {
	Reporter
	cached []int64
}

func (t *told) Picked(*route.Cycle, *roster.Endpoint, *route.ProfileResult) Reporter { return t }

func (t *told) Finished(_ time.Duration, _ bool, u route.Usage) {
	t.cached = append(t.cached, u.CachedPromptTokens)
}
