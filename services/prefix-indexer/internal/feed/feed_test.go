package feed

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/recency"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	key = index.Key{Scheme: "test", BlockSize: 64}
	ids = []string{"a", "b", "c"}
)

// indexer is an index with its feed, running.
type indexer struct {
	index *index.Index
	feed  *Feed
	order *recency.Order
	tel   *telemetry.Telemetry
	stop  func()
}

// patient is how long an indexer waits for the answer of another one that is there, however
// busy the machine is.
const patient = conf.Duration(time.Minute)

func start(t *testing.T, url, id string, change func(*index.Config, *Config), hooks ...func(*Feed)) *indexer {
	t.Helper()
	icfg, cfg := index.DefaultConfig(), DefaultConfig()
	cfg.Greeting = conf.Duration(300 * time.Millisecond)
	cfg.PageBytes = leastPage
	if change != nil {
		change(&icfg, &cfg)
	}
	x, err := index.New(icfg)
	if err != nil {
		t.Fatal(err)
	}
	tel := telemetry.Discard()
	b := newBus(t, url, id, tel)
	order := &recency.Order{}
	f, err := New(x, order, b, cfg, tel)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hooks {
		h(f)
	}
	return &indexer{x, f, order, tel, background(t, b.Part(), f.Part())}
}

func newBus(t *testing.T, url, id string, tel *telemetry.Telemetry) *bus.Bus {
	t.Helper()
	cfg := bus.DefaultConfig()
	cfg.URL = url
	b, err := bus.New(cfg, "p", id, tel)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// background runs parts until the end of the test or until the function it returns is
// called. It returns when all are ready.
func background(t *testing.T, parts ...run.Part) (stop func()) {
	t.Helper()
	g := run.NewGroup(nil)
	for i, p := range parts {
		g.Add(fmt.Sprint("part ", i), p)
	}
	ready := make(chan struct{})
	g.OnReady = func() { close(ready) }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	t.Cleanup(stop)
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("the parts are not ready")
	}
	return stop
}

func (i *indexer) ready() bool {
	ok, _ := i.tel.Health.Ready()
	return ok
}

func (i *indexer) matched(chain []uint64) []uint32 {
	ordinals, got := make([]int32, len(ids)), make([]uint32, len(ids))
	for n, id := range ids {
		ordinals[n] = i.index.Endpoints().Ordinal(id)
	}
	i.index.Match(key, chain, ordinals, got)
	return got
}

// chain returns n hashes of which the first are shared by all chains.
func chain(branch uint64, shared, n int) []uint64 {
	c := make([]uint64, n)
	for i := range c {
		c[i] = uint64(i + 1)
		if i >= shared {
			c[i] += (branch + 1) << 32
		}
	}
	return c
}

func placement(endpoint string, hashes []uint64) *statev1.PrefixPlacement {
	return &statev1.PrefixPlacement{EndpointId: endpoint, Scheme: key.Scheme, BlockSizeBytes: key.BlockSize, Hashes: hashes}
}

// router publishes placements.
func router(t *testing.T, url, id string) func(...*statev1.PrefixPlacement) {
	t.Helper()
	b := newBus(t, url, id, telemetry.Discard())
	p := bus.NewPublisher(b, bus.Prefix, func(m *statev1.PrefixBatch, s *statev1.Stamp) { m.Stamp = s })
	background(t, b.Part())
	return func(placements ...*statev1.PrefixPlacement) {
		t.Helper()
		if err := p.Publish(&statev1.PrefixBatch{Placements: placements}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPlacementsOfAllRoutersAreLearnedByAllIndexers(t *testing.T) {
	url := kittest.NATS(t)
	x, y := start(t, url, "indexer-1", nil), start(t, url, "indexer-2", nil)
	for _, i := range []*indexer{x, y} {
		if i.ready() {
			t.Error("ready although no endpoint is known")
		}
		i.index.SetEndpoints(ids)
		kittest.Eventually(t, "the first indexers are ready by themselves", i.ready)
	}
	router(t, url, "router-1")(placement("a", chain(1, 2, 4)), placement("b", chain(2, 2, 3)), placement("stranger", chain(1, 2, 4)))
	router(t, url, "router-2")(placement("c", chain(1, 2, 3)))
	for _, i := range []*indexer{x, y} {
		kittest.Eventually(t, "all is learned", func() bool { return i.index.Stats().Entries == 10 })
		if diff := cmp.Diff([]uint32{4, 2, 3}, i.matched(chain(1, 2, 4))); diff != "" {
			t.Errorf("matched (-want +got):\n%s", diff)
		}
		if got := i.index.Stats().Refused; got != (index.Refusals{UnknownEndpoint: 1}) {
			t.Errorf("refused %+v, want the stranger's", got)
		}
	}
}

func TestLateJoinerCopiesPageByPage(t *testing.T) {
	url := kittest.NATS(t)
	small := func(c *index.Config, _ *Config) { c.DefaultCapacity = 300 }
	x := start(t, url, "indexer-1", small)
	x.index.SetEndpoints(ids)
	kittest.Eventually(t, "the first is ready", x.ready)
	place := router(t, url, "router-1")
	for i := range uint64(60) {
		place(placement(ids[i%3], chain(i, 10, 30)))
	}
	kittest.Eventually(t, "all is learned", func() bool { return x.index.Stats().Placements == 60 })

	y := start(t, url, "indexer-2", func(i *index.Config, f *Config) {
		small(i, f)
		f.Greeting = patient
	})
	if y.ready() {
		t.Error("ready before it has a copy")
	}
	place(placement("a", chain(500, 10, 12))) // while the newcomer cannot know the endpoints yet
	kittest.Eventually(t, "the placement has passed by", func() bool {
		return y.index.Stats().Refused.UnknownEndpoint == 1 && x.index.Stats().Placements == 61
	})
	y.index.SetEndpoints(ids)
	kittest.Eventually(t, "the newcomer is ready", y.ready)
	want := x.index.Stats()
	if got := y.index.Stats(); got.Entries != want.Entries || got.Blocks != want.Blocks {
		t.Errorf("the copy has %d entries and %d blocks, the original %d and %d", got.Entries, got.Blocks, want.Entries, want.Blocks)
	}
	if got := y.tel.Value("pointsman_prefix_indexer_copied_entries_total"); got != float64(want.Entries) {
		t.Errorf("%v entries copied, want %d", got, want.Entries)
	}
	// Both let go of the same blocks from now on.
	for i := range uint64(20) {
		place(placement(ids[i%3], chain(100+i, 10, 25)))
	}
	kittest.Eventually(t, "both have learned more", func() bool {
		return x.index.Stats().Placements == 81 && y.index.Stats().Placements == 20
	})
	for i := range uint64(120) {
		if diff := cmp.Diff(x.matched(chain(i, 10, 30)), y.matched(chain(i, 10, 30))); diff != "" {
			t.Fatalf("prompt %d (-original +copy):\n%s", i, diff)
		}
	}
}

func TestCopyThatDoesNotFit(t *testing.T) {
	url := kittest.NATS(t)
	x := start(t, url, "indexer-1", nil)
	x.index.SetEndpoints(ids)
	kittest.Eventually(t, "the first is ready", x.ready)
	x.index.Ask(key.BlockSize, 1<<20)
	for i := range uint64(1500) {
		if _, err := x.index.Place(key, ids[i%2], chain(i, 10, 110)); err != nil {
			t.Fatal(err)
		}
	}
	y := start(t, url, "indexer-2", func(c *index.Config, f *Config) {
		c.MaxBytes, c.DefaultCapacity = 4<<20, 1<<20
		f.PageBytes, f.Greeting = 256<<10, patient
	})
	y.index.SetEndpoints(ids)
	kittest.Eventually(t, "the newcomer is ready", y.ready)
	got := y.index.Stats()
	if got.Entries == 0 || got.Entries >= x.index.Stats().Entries || got.Evicted.Memory != 0 {
		t.Errorf("the copy: %+v", got)
	}
	if m := y.matched(chain(1499, 10, 110)); m[1] != 110 {
		t.Errorf("the newest prompt matches %d blocks, want 110", m[1])
	}
}

func TestFirstOfAPoolWaitsOnlyForTheGreeting(t *testing.T) {
	url := kittest.NATS(t)
	x := start(t, url, "indexer-1", nil)
	x.index.SetEndpoints(ids)
	kittest.Eventually(t, "ready", x.ready)
	if got := x.index.Stats().Entries; got != 0 {
		t.Errorf("%d entries out of nothing", got)
	}
}

func TestStopWhileWaitingForEndpoints(t *testing.T) {
	x := start(t, kittest.NATS(t), "indexer-1", nil)
	x.stop()
	if x.ready() {
		t.Error("ready although no endpoint was ever known")
	}
}
