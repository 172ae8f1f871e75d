package outcome

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// alone returns a ledger whose bus is not there, which changes nothing here.
func alone(t *testing.T) (*node, *Ledger) {
	t.Helper()
	n := &node{roster: roster.New(roster.Config{}), tel: telemetry.Discard()}
	cfg := bus.DefaultConfig()
	cfg.URL = "nats://127.0.0.1:1"
	var err error
	if n.bus, err = bus.New(cfg, "test", bus.NewPublisherID("router"), n.tel); err != nil {
		t.Fatal(err)
	}
	l, err := New(n.roster, n.bus, nil, n.tel)
	if err != nil {
		t.Fatal(err)
	}
	n.roster.SetTable(testTable(t))
	return n, l
}

// F42: what two profiles chose is told of both endpoints, so that both are known to
// hold the prompt.
func TestF42BothProfilesPicksArePlaced(t *testing.T) {
	url := kittest.NATS(t)
	n, l := newRouter(t, url)
	got := make(chan string, 16)
	newNode(t, url, "prefix-indexer", func(n *node) []run.Part {
		bus.Subscribe(n.bus, bus.Prefix, func() *statev1.PrefixBatch { return &statev1.PrefixBatch{} }, func(m *statev1.PrefixBatch, _ bus.Meta) {
			for _, p := range m.GetPlacements() {
				got <- fmt.Sprint(p.GetEndpointId(), p.GetHashes())
			}
		})
		return nil
	})
	c := &route.Cycle{Request: &route.Request{Prompt: prompt{}}, Snapshot: n.roster.Snapshot()}
	for pos, name := range []string{"primary", "prefill"} {
		res := &route.ProfileResult{Profile: &route.Profile{Name: name, Scorers: []route.Scorer{{Asked: asker{4, 2}}}}}
		l.Reserve(c, &c.Snapshot.Table.Endpoints[pos], res).Finish(true, route.NoUsage())
	}
	hashes := fmt.Sprint(prompt{}.Blocks(4, 2))
	told := []string{<-got, <-got}
	slices.Sort(told)
	if diff := cmp.Diff([]string{"a" + hashes, "b" + hashes}, told); diff != "" {
		t.Error(diff)
	}
}

// B151: 30 % of requests fail before or after their first token, and whoever gives up
// says so from several places. Every pick ends exactly once: afterwards nothing is in
// flight, and retries leave nothing behind where they failed.
func TestB151EveryExitReleasesOnce(t *testing.T) {
	n, l := alone(t)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(151, uint64(worker)))
			for range 250 {
				r := reserve(n, l, rnd.IntN(2))
				fails := rnd.IntN(10)
				if fails == 0 || fails == 1 { // before the first token: it is tried elsewhere
					r.Move(&n.roster.Snapshot().Table.Endpoints[rnd.IntN(2)])
				}
				r.FirstToken()
				var exits sync.WaitGroup
				for range 3 { // the relay, the client that leaves, the clean-up at the end
					exits.Go(func() { r.Finish(fails > 2, route.NoUsage()) })
				}
				exits.Wait()
				r.Move(&n.roster.Snapshot().Table.Endpoints[0]) // a retry that comes too late
			}
		})
	}
	held := reserve(n, l, 1) // one that is under way all the time
	wg.Wait()
	if got := inFlight(n); !slices.Equal(got, []int64{0, 1}) {
		t.Errorf("in flight %v, want the one that is under way", got)
	}
	if v := n.tel.Value("pointsman_router_reservations"); v != 1 {
		t.Errorf("%v reservations counted, want 1", v)
	}
	if a := l.openPicks(&statev1.GetPicksRequest{}); len(a.GetPicks()) != 1 {
		t.Errorf("%d picks open, want 1", len(a.GetPicks()))
	}
	held.Finish(true, route.NoUsage())
	if got := inFlight(n); !slices.Equal(got, []int64{0, 0}) {
		t.Errorf("in flight %v at the end", got)
	}
}

// B153: requests that all have one id, at once. Each has a pick of its own.
func TestB153RequestsWithOneIDHavePicksOfTheirOwn(t *testing.T) {
	n, l := alone(t)
	const requests = 400
	all := make([]route.Reservation, requests)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			all[i] = reserve(n, l, i%2) // all for request "r"
			all[i].FirstToken()
		})
	}
	wg.Wait()
	names := make(map[string]bool)
	for _, r := range all {
		names[r.PickID()] = true
	}
	if got := inFlight(n); len(names) != requests || !slices.Equal(got, []int64{requests / 2, requests / 2}) {
		t.Errorf("%d names, in flight %v; want %d and half of it on each", len(names), got, requests)
	}
	for _, r := range all[:requests/2] {
		wg.Go(func() { r.Finish(true, route.NoUsage()) })
	}
	wg.Wait()
	if got := inFlight(n); !slices.Equal(got, []int64{requests / 4, requests / 4}) {
		t.Errorf("in flight %v after half of them have ended", got)
	}
}
