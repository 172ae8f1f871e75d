package outcome

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is one process: a bus, a roster that follows it, and what the test adds.
type node struct {
	bus    *bus.Bus
	roster *roster.Roster
	tel    *telemetry.Telemetry
	stop   func()
}

// newNode starts a process; parts are made before the bus runs.
func newNode(t *testing.T, url, service string, parts func(n *node) []run.Part) *node {
	t.Helper()
	n := &node{roster: roster.New(roster.Config{}), tel: telemetry.Discard()}
	cfg := bus.DefaultConfig()
	cfg.URL = url
	var err error
	if n.bus, err = bus.New(cfg, "test", bus.NewPublisherID(service), n.tel); err != nil {
		t.Fatal(err)
	}
	f, err := follower.New(n.roster, n.bus, n.tel)
	if err != nil {
		t.Fatal(err)
	}
	g := run.NewGroup(n.tel.Log)
	more := parts(n)
	g.Add("bus", n.bus.Part())
	g.Add("follower", f.Part())
	for _, p := range more {
		g.Add("part", p)
	}
	up := make(chan struct{})
	g.OnReady = func() { close(up) }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	<-up
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", service, err)
		}
	})
	t.Cleanup(n.stop)
	n.roster.SetTable(testTable(t))
	return n
}

func testTable(t *testing.T) *roster.Table {
	t.Helper()
	tb, err := roster.NewTable([]roster.Endpoint{{ID: "a", Host: "127.0.0.1", Port: 1}, {ID: "b", Host: "127.0.0.1", Port: 2}})
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

func newRouter(t *testing.T, url string, hooks ...func(*Ledger)) (*node, *Ledger) {
	t.Helper()
	var l *Ledger
	n := newNode(t, url, "router", func(n *node) []run.Part {
		var err error
		if l, err = New(n.roster, n.bus, nil, n.tel); err != nil {
			t.Fatal(err)
		}
		for _, h := range hooks {
			h(l)
		}
		return []run.Part{l.Part()}
	})
	return n, l
}

func watcher(t *testing.T, url string) *node {
	t.Helper()
	return newNode(t, url, "scorer", func(*node) []run.Part { return nil })
}

// reserve picks endpoint pos for a prompt of 400 tokens.
func reserve(n *node, l *Ledger, pos int) route.Reservation {
	c := &route.Cycle{Request: &route.Request{ID: "r", PromptTokens: 400}, Snapshot: n.roster.Snapshot()}
	return l.Reserve(c, &c.Snapshot.Table.Endpoints[pos], nil)
}

func inFlight(n *node) []int64 {
	s := n.roster.Snapshot()
	return []int64{s.InFlight(0), s.InFlight(1)}
}

func eventually(t *testing.T, n *node, what string, want ...int64) {
	t.Helper()
	kittest.Eventually(t, what, func() bool { return slices.Equal(inFlight(n), want) })
}

func TestAPickCountsHereAtOnceAndElsewhereSoon(t *testing.T) {
	url := kittest.NATS(t)
	n, l := newRouter(t, url)
	w := watcher(t, url)
	first := reserve(n, l, 0)
	if got := inFlight(n); got[0] != 1 {
		t.Fatalf("in flight here %v after a pick", got)
	}
	eventually(t, w, "the pick to be heard of", 1, 0)
	if _, tokens := w.roster.Snapshot().Credit(0); tokens != 400 {
		t.Errorf("credited tokens elsewhere %d, want the 400 uncached ones", tokens)
	}
	kittest.Eventually(t, "the batch to be noted as applied", func() bool { return w.roster.AppliedSequence(n.bus.PublisherID()) > 0 })
	first.Finish(true, route.NoUsage())
	first.Finish(true, route.NoUsage())
	if got := inFlight(n); got[0] != 0 {
		t.Fatalf("in flight here %v after two releases of one pick", got)
	}
	eventually(t, w, "the release to be heard of", 0, 0)
}

func TestMoveEndsOnePickAndBeginsAnother(t *testing.T) {
	url := kittest.NATS(t)
	n, l := newRouter(t, url)
	w := watcher(t, url)
	r := reserve(n, l, 0)
	name := r.PickID()
	r.FirstToken()
	r.Move(&n.roster.Snapshot().Table.Endpoints[1])
	if got := inFlight(n); !slices.Equal(got, []int64{0, 1}) {
		t.Errorf("in flight here %v after a move", got)
	}
	if r.PickID() != name || !strings.HasPrefix(name, n.bus.PublisherID()) {
		t.Errorf("the reservation's name went from %q to %q", name, r.PickID())
	}
	eventually(t, w, "the move to be heard of", 0, 1)
	r.Finish(true, route.NoUsage())
	r.Move(&n.roster.Snapshot().Table.Endpoints[0])
	eventually(t, w, "the release, and no move after it", 0, 0)
}

func TestALateJoinerLearnsOfOpenPicks(t *testing.T) {
	url := kittest.NATS(t)
	n, l := newRouter(t, url)
	r := reserve(n, l, 1)
	kittest.Eventually(t, "the pick to be published", func() bool { return l.batches.(interface{ Sequence() uint64 }).Sequence() > 0 })
	w := watcher(t, url)
	eventually(t, w, "a process that started after the pick to know it", 0, 1)
	r.Finish(false, route.NoUsage())
	eventually(t, w, "the release", 0, 0)
}

func TestALostBatchIsMadeGood(t *testing.T) {
	url := kittest.NATS(t)
	var armed atomic.Bool
	lost := make(chan struct{})
	n, l := newRouter(t, url, func(l *Ledger) { l.batches = losing{l.batches, &armed, lost} })
	w := watcher(t, url)
	reserve(n, l, 0).Finish(true, route.NoUsage())
	kittest.Eventually(t, "the router to be known", func() bool { return w.roster.AppliedSequence(n.bus.PublisherID()) > 0 })
	gaps := func() float64 { return w.tel.Value("pointsman_bus_gaps_total", "subject", "outcome") }
	before := gaps()
	armed.Store(true)
	r := reserve(n, l, 1)
	<-lost
	eventually(t, w, "the lost pick, learned by asking", 0, 1)
	// Nothing but an answer can have told of it, also to a question that was under way.
	kittest.Eventually(t, "the gap to be seen", func() bool { return gaps() > before })
	r.Finish(true, route.NoUsage())
	eventually(t, w, "the release", 0, 0)
}

// losing loses the first batch with a pick once it is armed: the batch uses up its
// number and is too large to be sent.
type losing struct {
	to    publisher[*statev1.OutcomeBatch]
	armed *atomic.Bool
	lost  chan struct{}
}

func (p losing) Publish(m *statev1.OutcomeBatch) error {
	picks := slices.ContainsFunc(m.GetEvents(), func(e *statev1.OutcomeEvent) bool { return e.GetPicked() != nil })
	if !picks || !p.armed.CompareAndSwap(true, false) {
		return p.to.Publish(m)
	}
	err := p.to.Publish(&statev1.OutcomeBatch{Events: []*statev1.OutcomeEvent{{Event: &statev1.OutcomeEvent_Picked{Picked: &statev1.Picked{EndpointId: strings.Repeat("x", 2<<20)}}}}})
	close(p.lost)
	return err
}

func TestLeavingEndsAllPicks(t *testing.T) {
	url := kittest.NATS(t)
	n, l := newRouter(t, url)
	w := watcher(t, url)
	reserve(n, l, 0)
	reserve(n, l, 1)
	eventually(t, w, "both picks", 1, 1)
	n.stop()
	eventually(t, w, "none, since the router said that it leaves", 0, 0)
}

func TestPendingIsWhatIsNotYetApplied(t *testing.T) {
	url := kittest.NATS(t)
	n, l := newRouter(t, url)
	table := n.roster.Snapshot().Table
	if p := l.Pending(0, table); p != nil {
		t.Errorf("pending before any pick: %v", p)
	}
	first, second := reserve(n, l, 0), reserve(n, l, 1)
	p := l.Pending(0, table)
	if p.GetRouterId() != n.bus.PublisherID() || !slices.Equal(p.GetPositions(), []uint32{1, 0}) || !slices.Equal(p.GetUncachedTokenCounts(), []uint32{400, 400}) {
		t.Errorf("pending %v", p)
	}
	if p := l.Pending(slices.Max(p.GetSequences()), table); p != nil {
		t.Errorf("pending above the last sequence: %v", p)
	}
	first.Finish(true, route.NoUsage())
	if p := l.Pending(0, table); !slices.Equal(p.GetPositions(), []uint32{1}) {
		t.Errorf("pending after a release: %v", p)
	}
	second.Finish(true, route.NoUsage())
}

// What does not fit into a batch goes with the next, picks that have ended in the
// meantime too; those must not hide the open ones.
func TestPendingWhenPicksMoveToTheNextBatch(t *testing.T) {
	r := roster.New(roster.Config{})
	r.SetTable(testTable(t))
	b, err := bus.New(bus.DefaultConfig(), "test", "r", telemetry.Discard())
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(r, b, nil, telemetry.Discard()) // nothing runs, so batches are taken by hand
	if err != nil {
		t.Fatal(err)
	}
	n := &node{bus: b, roster: r}
	for range batchEvents {
		defer reserve(n, l, 0).Finish(false, route.NoUsage())
	}
	defer reserve(n, l, 1).Finish(false, route.NoUsage())
	reserve(n, l, 0).Finish(true, route.NoUsage())
	l.take(false)
	p := l.Pending(1, r.Snapshot().Table)
	if !slices.Equal(p.GetPositions(), []uint32{1}) || !slices.Equal(p.GetSequences(), []uint64{2}) {
		t.Errorf("pending above batch 1: %v, want the open pick of batch 2", p)
	}
}

// asker is a scorer that looks at prefix blocks.
type asker struct{ size, limit int }

func (a asker) PrefixNeeds(*roster.Table) (int, int) { return a.size, a.limit }

// prompt has one block hash per limit asked for.
type prompt struct{}

func (prompt) Blocks(size, limit int) []uint64 {
	b := make([]uint64, limit)
	for i := range b {
		b[i] = uint64(size)<<32 | uint64(i)
	}
	return b
}
func (prompt) Text() string { return "" }

func TestPromptsGoOutOncePerBlockSize(t *testing.T) {
	url := kittest.NATS(t)
	n, l := newRouter(t, url)
	got := make(chan *statev1.PrefixPlacement, 16)
	newNode(t, url, "prefix-indexer", func(n *node) []run.Part {
		bus.Subscribe(n.bus, bus.Prefix, func() *statev1.PrefixBatch { return &statev1.PrefixBatch{} }, func(m *statev1.PrefixBatch, _ bus.Meta) {
			for _, p := range m.GetPlacements() {
				got <- p
			}
		})
		return nil
	})
	profile := &route.Profile{Scorers: []route.Scorer{{Asked: asker{64, 2}}, {Asked: "no prefix scorer"}, {Asked: asker{64, 3}}, {Asked: asker{16, 1}}, {Asked: asker{}}}}
	c := &route.Cycle{Request: &route.Request{Prompt: prompt{}}, Snapshot: n.roster.Snapshot()}
	l.Reserve(c, &c.Snapshot.Table.Endpoints[1], &route.ProfileResult{Profile: profile, Scores: []route.Scores{{Verdict: route.Scored, Matched: []uint32{0, 0}, Blocks: 2}}}).Finish(true, route.NoUsage())
	blocks := make(map[uint32]int)
	for range 2 {
		p := <-got
		blocks[p.GetBlockSizeBytes()] = len(p.GetHashes())
		if p.GetEndpointId() != "b" || p.GetScheme() != route.Scheme || !p.GetCold() {
			t.Errorf("placement %v", p)
		}
	}
	if len(got) != 0 || blocks[64] != 3 || blocks[16] != 1 {
		t.Errorf("blocks by size %v, %d placements more", blocks, len(got))
	}
}

// A prompt that another endpoint was sent in the end is placed there, under the pick
// that sent it; not after the first byte, when nothing moves.
func TestPromptsFollowARetry(t *testing.T) {
	url := kittest.NATS(t)
	n, l := newRouter(t, url)
	got := make(chan *statev1.PrefixPlacement, 16)
	newNode(t, url, "prefix-indexer", func(n *node) []run.Part {
		bus.Subscribe(n.bus, bus.Prefix, func() *statev1.PrefixBatch { return &statev1.PrefixBatch{} }, func(m *statev1.PrefixBatch, _ bus.Meta) {
			for _, p := range m.GetPlacements() {
				got <- p
			}
		})
		return nil
	})
	c := &route.Cycle{Request: &route.Request{Prompt: prompt{}}, Snapshot: n.roster.Snapshot()}
	endpoints := c.Snapshot.Table.Endpoints
	r := l.Reserve(c, &endpoints[0], &route.ProfileResult{Profile: &route.Profile{Scorers: []route.Scorer{{Asked: asker{64, 2}}}}})
	r.Move(&endpoints[1])
	for i, want := range []string{"a", "b"} {
		p := <-got
		if p.GetEndpointId() != want || p.GetPickId() != uint64(i+1) || len(p.GetHashes()) != 2 {
			t.Errorf("placement %d: %v, want endpoint %s by pick %d", i, p, want, i+1)
		}
	}
	r.FirstToken()
	r.Move(&endpoints[0])
	r.Finish(true, route.NoUsage())
	l.Reserve(c, &endpoints[1], &route.ProfileResult{Profile: &route.Profile{Scorers: []route.Scorer{{Asked: asker{64, 2}}}}}).Finish(true, route.NoUsage())
	if p := <-got; p.GetPickId() != 4 {
		t.Errorf("placement %v, want that of pick 4: pick 3 has the first byte behind it", p)
	}
}

// A prompt is cold if prefix scorers answered and nobody holds anything of it.
func TestColdPrompts(t *testing.T) {
	told := func(matched ...uint32) route.Scores {
		return route.Scores{Verdict: route.Scored, Matched: matched, Blocks: 4, BlockSize: 64}
	}
	for name, tc := range map[string]struct {
		scores []route.Scores
		want   bool
	}{
		"nobody was asked":        {nil, false},
		"no prefix scorer":        {[]route.Scores{{Verdict: route.Scored}}, false},
		"nothing is held":         {[]route.Scores{{}, told(0, 0)}, true},
		"somebody holds a block":  {[]route.Scores{told(0, 1)}, false},
		"one of two says so":      {[]route.Scores{told(0, 0), told(3, 0)}, false},
		"a prompt without blocks": {[]route.Scores{{Matched: []uint32{0, 0}}}, false},
	} {
		if got := cold(&route.ProfileResult{Scores: tc.scores}); got != tc.want {
			t.Errorf("%s: cold %t", name, got)
		}
	}
}

func TestUncached(t *testing.T) {
	req := &route.Request{PromptTokens: 100}
	for name, tc := range map[string]struct {
		res  *route.ProfileResult
		want uint32
	}{
		"no result":                      {nil, 100},
		"no prefix scorer":               {&route.ProfileResult{Ranked: []int32{0}, Scores: []route.Scores{{}}}, 100},
		"half is held":                   {&route.ProfileResult{Ranked: []int32{1}, Scores: []route.Scores{{Verdict: route.Scored, Matched: []uint32{0, 2}, BlockSize: 100}}}, 50},
		"more is held than there is":     {&route.ProfileResult{Ranked: []int32{0}, Scores: []route.Scores{{Verdict: route.Scored, Matched: []uint32{99}, BlockSize: 64}}}, 0},
		"an answer that broke the rules": {&route.ProfileResult{Ranked: []int32{0}, Scores: []route.Scores{{Verdict: route.Failed, Matched: []uint32{99}, BlockSize: 64}}}, 100},
	} {
		if got := uncached(req, tc.res); got != tc.want {
			t.Errorf("%s: %d uncached tokens, want %d", name, got, tc.want)
		}
	}
}

func TestManyPicksAtOnceKeepTheBooks(t *testing.T) {
	url := kittest.NATS(t)
	n, l := newRouter(t, url)
	w := watcher(t, url)
	var wg sync.WaitGroup
	for i := range 2000 {
		wg.Go(func() {
			r := reserve(n, l, i%2)
			r.FirstToken()
			if i%3 == 0 {
				r.Move(&n.roster.Snapshot().Table.Endpoints[0])
			}
			r.Finish(true, route.NoUsage())
		})
	}
	wg.Wait()
	last := reserve(n, l, 1)
	eventually(t, w, "only the last pick to be open", 0, 1)
	last.Finish(true, route.NoUsage())
	eventually(t, w, "none", 0, 0)
}

func BenchmarkReserveFinish(b *testing.B) {
	tel := telemetry.Discard()
	r := roster.New(roster.Config{})
	tb, err := roster.NewTable([]roster.Endpoint{{ID: "a", Host: "h", Port: 1}})
	if err != nil {
		b.Fatal(err)
	}
	r.SetTable(tb)
	bs, err := bus.New(bus.DefaultConfig(), "bench", "router-bench", tel)
	if err != nil {
		b.Fatal(err)
	}
	l, err := New(r, bs, nil, tel)
	if err != nil {
		b.Fatal(err)
	}
	c := &route.Cycle{Request: &route.Request{PromptTokens: 100}, Snapshot: r.Snapshot()}
	b.ReportAllocs()
	for b.Loop() {
		l.Reserve(c, &tb.Endpoints[0], nil).Finish(true, route.NoUsage())
		l.take(false)
		l.trim()
	}
}
