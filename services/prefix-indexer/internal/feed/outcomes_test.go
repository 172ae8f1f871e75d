package feed

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/audit"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

// engines is a router and the engines that it sends requests to, one after the other.
type engines struct {
	t        *testing.T
	place    func(...*statev1.PrefixPlacement)
	outcomes *bus.Publisher[*statev1.OutcomeBatch]
	picks    uint64
	watch    []*indexer
}

func newEngines(t *testing.T, url string, watch ...*indexer) *engines {
	t.Helper()
	e := &engines{t: t, place: router(t, url, "router-1"), watch: watch}
	b := newBus(t, url, "router-1", telemetry.Discard())
	e.outcomes = bus.NewPublisher(b, bus.Outcome, func(m *statev1.OutcomeBatch, s *statev1.Stamp) { m.Stamp = s })
	background(t, b.Part())
	return e
}

// awaited returns how many picks have not ended.
func (i *indexer) awaited() int {
	p := &i.feed.outcomes.picks
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// request sends a prompt of 100 blocks, 1600 tokens, to an endpoint; cached is what the
// engine reports, below 0: nothing. It returns when all indexers have heard of the end.
func (e *engines) request(endpoint string, hashes []uint64, completed bool, cached int) {
	e.t.Helper()
	e.picks++
	p := placement(endpoint, hashes)
	p.PickId = e.picks
	e.place(p)
	for _, x := range e.watch {
		kittest.Eventually(e.t, "the prompt is learned", func() bool { return x.awaited() == 1 })
	}
	f := &statev1.Finished{Completed: completed, PromptTokenCount: proto.Uint32(1500)}
	if cached >= 0 {
		f.CachedPromptTokenCount = proto.Uint32(uint32(cached))
	}
	if err := e.outcomes.Publish(&statev1.OutcomeBatch{Events: []*statev1.OutcomeEvent{
		{PickId: e.picks, Event: &statev1.OutcomeEvent_Picked{Picked: &statev1.Picked{EndpointId: endpoint, PromptTokenCount: 1600}}},
		{PickId: e.picks, Event: &statev1.OutcomeEvent_FirstToken{FirstToken: &statev1.FirstToken{}}},
		{PickId: e.picks, Event: &statev1.OutcomeEvent_Finished{Finished: f}},
	}}); err != nil {
		e.t.Fatal(err)
	}
	for _, x := range e.watch {
		kittest.Eventually(e.t, "the end is heard of", func() bool {
			return x.awaited() == 0
		})
	}
}

// B142: an engine loses its cache and goes on. All indexers find out by what it reports,
// and forget what it was sent before; engines that report nothing change nothing.
func TestB142AnEngineThatLostItsCacheIsForgotten(t *testing.T) {
	url := kittest.NATS(t)
	x, y := start(t, url, "indexer-1", nil), start(t, url, "indexer-2", nil)
	for _, i := range []*indexer{x, y} {
		i.index.SetEndpoints(ids)
		kittest.Eventually(t, "ready", i.ready)
	}
	e := newEngines(t, url, x, y)
	prompt := func(i uint64) []uint64 { return chain(i, 0, 100) }
	for i := range uint64(8) {
		for _, id := range ids {
			e.request(id, prompt(i), true, -1)
		}
	}
	e.request("a", prompt(0), true, 1400)
	e.request("b", prompt(0), true, 1400)
	for i := range uint64(3) { // a's cache is reset; b's goes on; c does not report
		e.request("a", prompt(5+i), true, 0)
		e.request("b", prompt(5+i), true, 1300+100*int(i%2))
		e.request("c", prompt(5+i), true, -1)
	}
	for _, i := range []*indexer{x, y} {
		kittest.Eventually(t, "the last is compared", func() bool { return i.tel.Value("pointsman_prefix_indexer_compared_picks_total") == 8 })
		for p, want := range [][]uint32{
			0: {100, 100, 100}, // last sent to a before the reset, but after what is known to be gone
			1: {0, 100, 100}, 2: {0, 100, 100}, 3: {0, 100, 100}, 4: {0, 100, 100},
			5: {100, 100, 100}, 6: {100, 100, 100}, 7: {100, 100, 100}, // sent since
		} {
			if diff := cmp.Diff(want, i.matched(prompt(uint64(p)))); diff != "" {
				t.Errorf("prompt %d (-want +got):\n%s", p, diff)
			}
		}
		for name, want := range map[string]float64{
			"contradicts": 3, "agrees": 5, "unclear": 0,
		} {
			if got := i.tel.Value("pointsman_prefix_indexer_compared_picks_total", "result", name); got != want {
				t.Errorf("%v comparisons say %s, want %v", got, name, want)
			}
		}
		if got := i.tel.Value("pointsman_prefix_indexer_lost_caches_total"); got != 1 {
			t.Errorf("%v lost caches, want 1", got)
		}
		if got := i.index.Stats().Evicted.Contradicted; got != 400 {
			t.Errorf("%d blocks forgotten, want 400", got)
		}
	}
}

// What was not answered in full, and whoever reports nothing, is not compared.
func TestWhatIsNotCompared(t *testing.T) {
	url := kittest.NATS(t)
	x := start(t, url, "indexer-1", nil)
	x.index.SetEndpoints(ids)
	kittest.Eventually(t, "ready", x.ready)
	e := newEngines(t, url, x)
	e.request("a", chain(1, 0, 100), true, 1000)
	compared := func() float64 { return x.tel.Value("pointsman_prefix_indexer_compared_picks_total") }
	kittest.Eventually(t, "the first is compared", func() bool { return compared() == 1 })
	for range 5 {
		e.request("a", chain(1, 0, 100), false, 0)
		e.request("a", chain(1, 0, 100), true, -1)
	}
	e.request("a", chain(1, 0, 100), true, 1400)
	kittest.Eventually(t, "the last is compared", func() bool { return compared() >= 2 })
	if got := compared(); got != 2 {
		t.Errorf("%v comparisons, want 2", got)
	}
	if m := x.matched(chain(1, 0, 100)); m[0] != 100 {
		t.Errorf("matches %d", m[0])
	}
}

// The end of a short request may be heard of before its prompt, which comes on another
// subject: it is compared all the same, and said to be served, once.
func TestAnEndThatComesBeforeItsPrompt(t *testing.T) {
	url := kittest.NATS(t)
	x := start(t, url, "indexer-1", nil)
	x.index.SetEndpoints(ids)
	kittest.Eventually(t, "ready", x.ready)
	e := newEngines(t, url, x)
	compared := func() float64 { return x.tel.Value("pointsman_prefix_indexer_compared_picks_total") }
	end := func(pick uint64, completed bool) {
		f := &statev1.Finished{Completed: completed, PromptTokenCount: proto.Uint32(1500), CachedPromptTokenCount: proto.Uint32(0)}
		if err := e.outcomes.Publish(&statev1.OutcomeBatch{Events: []*statev1.OutcomeEvent{
			{PickId: pick, Event: &statev1.OutcomeEvent_Picked{Picked: &statev1.Picked{EndpointId: "a", PromptTokenCount: 1600}}},
			{PickId: pick, Event: &statev1.OutcomeEvent_Finished{Finished: f}},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	place := func(pick uint64) {
		p := placement("a", chain(1, 0, 100))
		p.PickId = pick
		e.place(p)
	}
	end(1, true)
	end(2, false)
	end(3, true)
	kittest.Eventually(t, "the ends are heard of", func() bool { return x.awaited() == 3 })
	place(1)
	place(3)
	place(2)
	kittest.Eventually(t, "two are compared, and nothing is waited for", func() bool { return compared() == 2 && x.awaited() == 0 })
}

// B143: engines find far more in their caches than the index believes.
func TestB143EnginesFindMoreThanIsBelieved(t *testing.T) {
	url := kittest.NATS(t)
	x := start(t, url, "indexer-1", nil)
	x.index.SetEndpoints(ids)
	kittest.Eventually(t, "ready", x.ready)
	for i := range uint64(600) {
		x.feed.outcomes.finish(&pick{estimated: 1600, claims: []audit.Claim{x.feed.outcomes.judge.Begin(key, "a", index.Placed{Mark: index.Mark(i + 1)}, time.Now())}}, usage{prompt: 1500, cached: 1200}, time.Now())
	}
	if got := x.tel.Value("pointsman_prefix_indexer_underestimated"); got != 1 {
		t.Errorf("underestimated is %v, want 1", got)
	}
	for of, want := range map[string]float64{"prompt": 600 * 1500, "cached": 600 * 1200, "believed": 0} {
		if got := x.tel.Value("pointsman_prefix_indexer_reported_tokens_total", "of", of); got != want {
			t.Errorf("%v tokens %s, want %v", got, of, want)
		}
	}
}

// Picks whose end never comes do not pile up.
func TestPicksAreBounded(t *testing.T) {
	p := picks{open: make(map[pickID]*pick)}
	now := time.Now()
	for i := range uint64(mostPicks + 10) {
		if got := p.estimate(pickID{"router-1", i}, now, 6); got != (i < mostPicks) {
			t.Fatalf("pick %d is followed: %t", i, got)
		}
	}
	p.estimate(pickID{"router-1", 5}, now, 7)
	if len(p.open) != mostPicks || p.open[pickID{"router-1", 5}].estimated != 7 {
		t.Errorf("%d picks", len(p.open))
	}
	p.leave("router-2")
	p.sweep(now.Add(pickLife))
	if len(p.open) != mostPicks {
		t.Errorf("%d picks after those of another router went", len(p.open))
	}
	p.sweep(now.Add(pickLife + time.Second))
	if len(p.open) != 0 {
		t.Errorf("%d picks after their time", len(p.open))
	}
	for i := range uint64(3 * mostEnded) {
		p.end(pickID{"router-1", i}, now, &usage{})
	}
	if len(p.open) != mostEnded {
		t.Errorf("%d ended picks without a prompt", len(p.open))
	}
	p.estimate(pickID{"router-1", 1}, now, 1)
	p.leave("router-1")
	if len(p.open) != 0 {
		t.Errorf("%d picks of a router that left", len(p.open))
	}
}

// Chains that are kept for their ends do not pile up, and claims go on without.
func TestChainsAreBounded(t *testing.T) {
	p := picks{open: make(map[pickID]*pick)}
	now := time.Now()
	long := make([]uint64, mostHashes/4)
	for i := range uint64(6) {
		followed, kept := p.claim(pickID{"router-1", i}, now, audit.Claim{Endpoint: "a"}, long)
		if !followed || kept != (i < 4) {
			t.Errorf("claim %d: followed %t, kept %t", i, followed, kept)
		}
	}
	if o := p.end(pickID{"router-1", 5}, now, &usage{}); len(o.claims) != 1 || o.chains[0] != nil {
		t.Errorf("the end of one without its chain: %+v", o)
	}
	p.end(pickID{"router-1", 0}, now, nil)
	if _, kept := p.claim(pickID{"router-1", 7}, now, audit.Claim{}, long); !kept {
		t.Error("there is room again, and it is not used")
	}
	p.leave("router-1")
	if p.hashes != 0 {
		t.Errorf("%d hashes of nobody", p.hashes)
	}
}

// What served a prompt is told once it has, and only then.
func TestWhoServedIsTold(t *testing.T) {
	url := kittest.NATS(t)
	type told struct {
		Endpoint string
		Blocks   int
	}
	got := make(chan told, 10)
	x := start(t, url, "indexer-1", nil, func(f *Feed) {
		f.OnServed(func(k index.Key, endpoint string, chain []uint64) {
			if k != key {
				t.Errorf("key %v", k)
			}
			got <- told{endpoint, len(chain)}
		})
	})
	x.index.SetEndpoints(ids)
	kittest.Eventually(t, "ready", x.ready)
	e := newEngines(t, url, x)
	e.request("a", chain(1, 0, 5), false, 0) // failed, and tried again elsewhere
	e.request("b", chain(1, 0, 5), true, -1)
	e.request("c", chain(2, 0, 7), true, 0)
	for _, want := range []told{{"b", 5}, {"c", 7}} {
		if diff := cmp.Diff(want, <-got); diff != "" {
			t.Error(diff)
		}
	}
	if len(got) != 0 {
		t.Errorf("told of %v too", <-got)
	}
}
