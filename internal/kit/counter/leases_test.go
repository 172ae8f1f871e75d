package counter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

var errLost = errors.New("the answer was lost")

// flaky is a store over which calls, or their answers, are lost.
type flaky struct {
	Store
	trouble atomic.Int64 // of 100 calls
	away    atomic.Bool
}

// lose says whether a call is lost before it is made, and whether its answer is.
func (f *flaky) lose() (call, answer bool) {
	if rand.Int64N(100) >= f.trouble.Load() {
		return false, false
	}
	return rand.IntN(2) == 0, true
}

func (f *flaky) Up() bool { return !f.away.Load() }

func over[T any](f *flaky, zero T, do func() (T, error)) (T, error) {
	if f.away.Load() {
		return zero, redis.ErrAway
	}
	call, answer := f.lose()
	if call {
		return zero, errLost
	}
	v, err := do()
	if answer {
		return zero, errLost
	}
	return v, err
}

func (f *flaky) Pick(ctx context.Context, t Token, q Request) (Picked, error) {
	return over(f, Picked{}, func() (Picked, error) { return f.Store.Pick(ctx, t, q) })
}

func (f *flaky) Adjust(ctx context.Context, t Token, d []Delta) (int, error) {
	return over(f, 0, func() (int, error) { return f.Store.Adjust(ctx, t, d) })
}

func (f *flaky) Replace(ctx context.Context, g uint64, c []Count) (Token, []string, error) {
	var expired []string
	t, err := over(f, Token{}, func() (t Token, err error) { t, expired, err = f.Store.Replace(ctx, g, c); return t, err })
	return t, expired, err
}

func (f *flaky) Renew(ctx context.Context, t Token) ([]string, error) {
	return over(f, nil, func() ([]string, error) { return f.Store.Renew(ctx, t) })
}

// router is one router's leases, running.
type router struct {
	*Leases
	tel  *telemetry.Telemetry
	stop func()
}

func newRouter(t *testing.T, cfg Config, store Store, id string) *router {
	t.Helper()
	tel := telemetry.Discard()
	l, err := New(cfg, store, id, tel)
	if err != nil {
		t.Fatal(err)
	}
	l.Enable(true)
	return &router{l, tel, begin(t, l.Part())}
}

// Whatever is lost on the way and however often the store forgets everything, in the end
// it holds what the routers hold.
func TestCountsComeRightWhateverIsLost(t *testing.T) {
	m := NewMemory(time.Hour, time.Now)
	hosts := []string{"a", "b", "c", "d"}
	var routers []*router
	var stores []*flaky
	for i := range 3 {
		id := fmt.Sprint("r", i)
		f := &flaky{Store: m.Router(id)}
		f.trouble.Store(10)
		stores = append(stores, f)
		routers = append(routers, newRouter(t, DefaultConfig(), f, id))
	}
	var work sync.WaitGroup
	var held sync.Map
	for i, r := range routers {
		for w := range 8 {
			work.Go(func() {
				var open []*Lease
				for n := range 400 {
					switch rand.IntN(5) {
					case 0, 1:
						if _, _, l, err := r.Reserve(t.Context(), Request{Candidates: hosts}); err == nil {
							open = append(open, l)
						} else {
							open = append(open, r.Adopt(hosts[rand.IntN(4)]))
						}
					case 2, 3:
						if len(open) > 0 {
							open[0].Release()
							open[0].Release()
							open = open[1:]
						}
					default:
						time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
					}
					if w == 0 && n%100 == 50 {
						m.Forget()
						stores[i].away.Store(n%200 == 50)
					}
				}
				held.Store([2]int{i, w}, open)
			})
		}
	}
	work.Wait()
	for _, f := range stores {
		f.trouble.Store(0)
		f.away.Store(false)
	}
	for _, r := range routers {
		r.notify()
	}
	want := map[string]int64{}
	held.Range(func(_, open any) bool {
		for _, l := range open.([]*Lease) {
			want[l.Endpoint()]++
		}
		return true
	})
	check := m.Router("test")
	kittest.Eventually(t, "the store holds what the routers hold", func() bool {
		got, _ := check.Counts(t.Context())
		return maps.Equal(want, got) && !slices.ContainsFunc(routers, func(r *router) bool { return !r.InStep() })
	})
	held.Range(func(_, open any) bool {
		for _, l := range open.([]*Lease) {
			l.Release()
		}
		return true
	})
	kittest.Eventually(t, "nothing is in flight", func() bool {
		got, _ := check.Counts(t.Context())
		return len(got) == 0
	})
	for _, r := range routers {
		if r.Held() != 0 {
			t.Errorf("%d held", r.Held())
		}
	}
}

// late is a store over which the first change is a long time under way.
type late struct {
	Store
	once         sync.Once
	sent, arrive chan struct{}
}

func (s *late) Adjust(ctx context.Context, t Token, d []Delta) (int, error) {
	s.once.Do(func() { close(s.sent); <-s.arrive })
	return s.Store.Adjust(ctx, t, d)
}

// The end of a request may overtake its beginning on another connection: it is floored, the
// beginning then counts for nobody, and that is put right soon, by a rewrite that loses
// nothing.
func TestAFlooredCountIsWrittenAnew(t *testing.T) {
	m := NewMemory(time.Hour, time.Now)
	slow := &late{Store: m.Router("r"), sent: make(chan struct{}), arrive: make(chan struct{})}
	r := newRouter(t, DefaultConfig(), slow, "r")
	kittest.Eventually(t, "in step", r.InStep)
	l := r.Adopt("a")
	<-slow.sent
	l.Release()
	if _, _, _, err := r.Reserve(t.Context(), Request{Candidates: []string{"b"}}); err != nil {
		t.Fatal(err) // takes the end of the other along
	}
	if !r.InStep() {
		t.Error("a count that was floored puts the store out of step")
	}
	close(slow.arrive)
	kittest.Eventually(t, "the counts are right", func() bool {
		c, _ := r.Counts(t.Context())
		return maps.Equal(c, map[string]int64{"b": 1}) && r.tel.Value("pointsman_leases_rewrites_total", "result", "ok") == 2
	})
	if floored, lost := r.tel.Value("pointsman_leases_floored_total"), r.tel.Value("pointsman_leases_lost_total"); floored != 1 || lost != 0 {
		t.Errorf("%v floored, %v lost", floored, lost)
	}
}

// Higress H13: a lease completes once; of two on one endpoint the other stays.
func TestReleaseIsOnce(t *testing.T) {
	m := NewMemory(time.Hour, time.Now)
	r := newRouter(t, DefaultConfig(), m.Router("r"), "r")
	kittest.Eventually(t, "in step", r.InStep)
	_, n, l, err := r.Reserve(t.Context(), Request{Candidates: []string{"a"}})
	if err != nil || n != 1 || l.Endpoint() != "a" {
		t.Fatalf("%v %d %v", l, n, err)
	}
	other := r.Adopt("a")
	for range 5 {
		l.Release()
	}
	kittest.Eventually(t, "one is left", func() bool { c, _ := r.Counts(t.Context()); return c["a"] == 1 })
	other.Release()
	kittest.Eventually(t, "none is left", func() bool { c, _ := r.Counts(t.Context()); return len(c) == 0 })
}

func TestWithoutTheStoreNothingIsReserved(t *testing.T) {
	m := NewMemory(time.Hour, time.Now)
	f := &flaky{Store: m.Router("r")}
	f.away.Store(true)
	r := newRouter(t, DefaultConfig(), f, "r")
	if _, _, _, err := r.Reserve(t.Context(), Request{Candidates: []string{"a"}}); !errors.Is(err, ErrApart) {
		t.Errorf("Reserve: %v", err)
	}
	l := r.Adopt("a")
	if got := r.tel.Value("pointsman_leases_in_step"); got != 0 {
		t.Errorf("in step = %v", got)
	}
	f.away.Store(false)
	kittest.Eventually(t, "what was placed meanwhile is counted", func() bool { c, _ := r.Counts(t.Context()); return c["a"] == 1 })
	if got := r.tel.Value("pointsman_leases_reservations_total", "result", "apart"); got != 1 {
		t.Errorf("apart = %v", got)
	}
	l.Release()
	if got := r.tel.Value("pointsman_leases_in_step"); got != 1 {
		t.Errorf("in step = %v", got)
	}
}

func TestNothingIsSharedUnlessAskedFor(t *testing.T) { // B204
	m := NewMemory(time.Hour, time.Now)
	r := newRouter(t, DefaultConfig(), m.Router("r"), "r")
	kittest.Eventually(t, "in step", r.InStep)
	l := r.Adopt("a")
	kittest.Eventually(t, "it is counted", func() bool { c, _ := r.Counts(t.Context()); return c["a"] == 1 })
	r.Enable(false)
	kittest.Eventually(t, "what was shared is taken back", func() bool { c, _ := r.Counts(t.Context()); return len(c) == 0 })
	b := r.Adopt("b")
	l.Release()
	if _, _, _, err := r.Reserve(t.Context(), Request{Candidates: []string{"a"}}); !errors.Is(err, ErrApart) {
		t.Errorf("Reserve: %v", err)
	}
	r.Enable(true)
	kittest.Eventually(t, "what is held is counted", func() bool {
		c, _ := r.Counts(t.Context())
		return maps.Equal(c, map[string]int64{"b": 1})
	})
	b.Release()
}

// A13, H13, B180: an endpoint that leaves is not counted, and releases after that harm nobody;
// one router's view of who is there does not touch the counts of another.
func TestEndpointsThatLeave(t *testing.T) {
	m := NewMemory(time.Hour, time.Now)
	one, other := newRouter(t, DefaultConfig(), m.Router("one"), "one"), newRouter(t, DefaultConfig(), m.Router("other"), "other")
	kittest.Eventually(t, "in step", func() bool { return one.InStep() && other.InStep() })
	a1, a2, b := one.Adopt("a"), other.Adopt("a"), one.Adopt("b")
	counts := func(want map[string]int64) {
		t.Helper()
		kittest.Eventually(t, fmt.Sprint("counts are ", want), func() bool { c, _ := one.Counts(t.Context()); return maps.Equal(c, want) })
	}
	counts(map[string]int64{"a": 2, "b": 1})
	one.Retain(func(e string) bool { return e != "a" })
	counts(map[string]int64{"a": 1, "b": 1})
	a3 := one.Adopt("a") // by an older view
	one.Retain(func(string) bool { return true })
	counts(map[string]int64{"a": 3, "b": 1})
	one.Retain(func(e string) bool { return e != "a" })
	a1.Release()
	a3.Release()
	counts(map[string]int64{"a": 1, "b": 1})
	one.Retain(func(e string) bool { return e != "a" })
	a2.Release()
	b.Release()
	counts(map[string]int64{})
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		ttl  time.Duration
		good bool
	}{{30 * time.Second, true}, {time.Second, true}, {999 * time.Millisecond, false}, {0, false}} {
		cfg := Config{TTL: conf.Duration(c.ttl)}
		if err := cfg.Validate(); (err == nil) != c.good {
			t.Errorf("%v: %v", c.ttl, err)
		}
		if c.good && cfg.Lease()+cfg.renewEvery() >= c.ttl {
			t.Errorf("%v: a lease of %v found after %v outlives the TTL", c.ttl, cfg.Lease(), cfg.renewEvery())
		}
	}
}

// busy is a store during whose every answer one more request is placed.
type busy struct {
	Store
	leases  *Leases
	renewed atomic.Int64
}

func (b *busy) Adjust(ctx context.Context, t Token, d []Delta) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.Store.Adjust(ctx, t, d)
	b.leases.Adopt("a")
	return n, err
}

func (b *busy) Renew(ctx context.Context, t Token) ([]string, error) {
	b.renewed.Add(1)
	return b.Store.Renew(ctx, t)
}

// A router that always has something to tell renews its leases all the same, or the others
// would take it for dead.
func TestLeasesAreRenewedHoweverMuchThereIsToTell(t *testing.T) {
	b := &busy{Store: NewMemory(time.Hour, time.Now).Router("r")}
	l, err := New(Config{TTL: conf.Duration(time.Second)}, b, "r", telemetry.Discard())
	if err != nil {
		t.Fatal(err)
	}
	b.leases = l
	l.Enable(true)
	begin(t, l.Part())
	kittest.Eventually(t, "the leases to be in step", l.InStep)
	l.Adopt("a")
	kittest.Eventually(t, "the leases to be renewed", func() bool { return b.renewed.Load() >= 3 })
}
