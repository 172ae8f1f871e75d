package counter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const lease = 20 * time.Second

// client returns a running client.
func client(t testing.TB, set func(*redis.Config)) (*redis.Client, *telemetry.Telemetry) {
	t.Helper()
	c, tel := idleClient(t, set)
	begin(t, c.Part())
	kittest.Eventually(t, "redis is reached", c.Up)
	return c, tel
}

func idleClient(t testing.TB, set func(*redis.Config)) (*redis.Client, *telemetry.Telemetry) {
	t.Helper()
	cfg, tel := redis.DefaultConfig(), telemetry.Discard()
	cfg.Budget *= 400 // the machine is busy; what budgets do has tests of its own
	set(&cfg)
	c, err := redis.New(cfg, tel)
	if err != nil {
		t.Fatal(err)
	}
	return c, tel
}

// begin runs a part until the test ends, or until stop is called.
func begin(t testing.TB, part func(context.Context, func()) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx, func() {}) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("part: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// backend is a kind of store.
type backend struct {
	name string
	// open returns stores of one pool for several routers, and a clock to be advanced.
	open func(t *testing.T) (router func(id string) Store, advance func(time.Duration))
}

func backends() []backend {
	overRedis := func(t *testing.T, set func(*redis.Config)) func(id string) Store {
		c, _ := client(t, set)
		return func(id string) Store { return NewRedis(c, "p o{o}l", id, lease) }
	}
	return []backend{
		{"memory", func(*testing.T) (func(string) Store, func(time.Duration)) {
			now := time.Unix(1000, 0)
			return NewMemory(lease, func() time.Time { return now }).Router, func(d time.Duration) { now = now.Add(d) }
		}},
		{"miniredis", func(t *testing.T) (func(string) Store, func(time.Duration)) {
			m := miniredis.RunT(t)
			now := time.Now()
			m.SetTime(now)
			return overRedis(t, func(c *redis.Config) { c.Address = m.Addr() }), func(d time.Duration) { now = now.Add(d); m.SetTime(now) }
		}},
		{"redis", func(t *testing.T) (func(string) Store, func(time.Duration)) {
			address := kittest.Redis(t)
			return overRedis(t, func(c *redis.Config) { c.Address = address }), nil
		}},
		{"cluster", func(t *testing.T) (func(string) Store, func(time.Duration)) {
			nodes := kittest.RedisCluster(t, 3)
			return overRedis(t, func(c *redis.Config) { c.Addresses = []string{nodes[0].Address, nodes[1].Address} }), nil
		}},
	}
}

// each runs f over every kind of store.
func each(t *testing.T, f func(t *testing.T, router func(id string) Store, advance func(time.Duration))) {
	t.Helper()
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) {
			router, advance := b.open(t)
			f(t, router, advance)
		})
	}
}

func replaced(t testing.TB, s Store, generation uint64, counts ...Count) Token {
	t.Helper()
	token, _, err := s.Replace(t.Context(), generation, counts)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func checkCounts(t testing.TB, s Store, want map[string]int64) {
	t.Helper()
	got, err := s.Counts(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestPick(t *testing.T) {
	each(t, func(t *testing.T, router func(string) Store, _ func(time.Duration)) {
		cases := []struct {
			name   string
			counts []Count
			q      Request
			want   string // endpoint and requests then
			err    error
		}{
			{"A10 numbers are compared as numbers: 9, 10, 100, 11", []Count{{"a", 9}, {"b", 10}, {"c", 100}, {"d", 11}}, Request{Candidates: []string{"b", "c", "d", "a"}}, "a 10", nil},
			{"A9 a new endpoint stands at 0: others at 5", []Count{{"a", 5}, {"b", 5}, {"c", 5}}, Request{Candidates: []string{"a", "b", "new", "c"}}, "new 1", nil},
			{"A4 who is no candidate is not chosen, however idle", []Count{{"a", 2}, {"b", 1}, {"sick", 4}}, Request{Candidates: []string{"a", "b"}}, "b 2", nil},
			{"A16 at the limit of 2 everywhere", []Count{{"a", 2}, {"b", 2}}, Request{Candidates: []string{"a", "b"}, Limit: 2}, "", ErrFull},
			{"A16 below the limit somewhere", []Count{{"a", 2}, {"b", 1}}, Request{Candidates: []string{"a", "b"}, Limit: 2}, "b 2", nil},
			{"the lot chooses among equals", []Count{{"a", 1}, {"b", 1}, {"c", 1}}, Request{Candidates: []string{"a", "b", "c"}, Lot: 7}, "b 2", nil},
			{"the greatest lot", []Count{{"a", 1}, {"b", 1}, {"c", 1}}, Request{Candidates: []string{"a", "b", "c"}, Lot: math.MaxUint32}, "a 2", nil},
			{"the first of equals", []Count{{"x", 3}}, Request{Candidates: []string{"x", "c", "a"}, First: true, Lot: 2}, "c 1", nil},
			{"changes come first", []Count{{"a", 2}, {"b", 1}}, Request{Candidates: []string{"a", "b"}, Deltas: []Delta{{"a", -2}, {"b", 3}, {"c", 1}}}, "a 1", nil},
			{"as many as there may be", []Count{{"a", 1}}, Request{Candidates: append(slices.Repeat([]string{"a"}, 4095), "b"), Deltas: slices.Repeat([]Delta{{"c", 1}}, 16)}, "b 1", nil},
			{"ids are opaque", nil, Request{Candidates: []string{"10.0.0.1:8080/7-{x}\x00\"é"}}, "10.0.0.1:8080/7-{x}\x00\"é 1", nil},
		}
		s := router("r")
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				token := replaced(t, s, uint64(i+1), c.counts...)
				p, err := s.Pick(t.Context(), token, c.q)
				got := ""
				if err == nil {
					got = fmt.Sprintf("%s %d", c.q.Candidates[p.Index], p.Requests)
				}
				if got != c.want || !errors.Is(err, c.err) {
					t.Errorf("picked %q, %v; want %q, %v", got, err, c.want, c.err)
				}
			})
		}
	})
}

// A1, A6: equals are equally likely, whatever their order, P8 too.
func TestEqualsAreEquallyLikely(t *testing.T) {
	each(t, func(t *testing.T, router func(string) Store, _ func(time.Duration)) {
		const picks = 4000
		s := router("r")
		hosts := []string{"h0", "h1", "h2", "h3"}
		token := replaced(t, s, 1)
		got := map[string]float64{}
		for range picks {
			p, err := s.Pick(t.Context(), token, Request{Candidates: hosts, Lot: rand.Uint32()})
			if err != nil {
				t.Fatal(err)
			}
			got[hosts[p.Index]]++
			if _, err := s.Adjust(t.Context(), token, []Delta{{hosts[p.Index], -1}}); err != nil {
				t.Fatal(err)
			}
		}
		chi := 0.0
		for _, h := range hosts {
			chi += (got[h] - picks/4) * (got[h] - picks/4) / (picks / 4)
		}
		if chi > 30 { // 3 degrees of freedom: about one in a million
			t.Errorf("χ² = %.1f: %v", chi, got)
		}
		checkCounts(t, s, map[string]int64{})
	})
}

func TestAdjustNeverGoesBelowZero(t *testing.T) {
	each(t, func(t *testing.T, router func(string) Store, _ func(time.Duration)) {
		one, other := router("one"), router("other")
		a, b := replaced(t, one, 1, Count{"x", 2}), replaced(t, other, 1, Count{"x", 3})
		steps := []struct {
			s       Store
			token   Token
			deltas  []Delta
			floored int
			want    map[string]int64
		}{
			{one, a, []Delta{{"x", -1}, {"y", 1}}, 0, map[string]int64{"x": 4, "y": 1}},
			{one, a, []Delta{{"x", -5}}, 1, map[string]int64{"x": 3, "y": 1}}, // another's stay
			{one, a, []Delta{{"never", -1}}, 1, map[string]int64{"x": 3, "y": 1}},
			{other, b, []Delta{{"x", -3}, {"y", -1}}, 1, map[string]int64{"y": 1}},
			{one, a, []Delta{{"y", -1}}, 0, map[string]int64{}},
		}
		for i, step := range steps {
			floored, err := step.s.Adjust(t.Context(), step.token, step.deltas)
			if err != nil || floored != step.floored {
				t.Fatalf("step %d: %d floored, %v; want %d", i, floored, err, step.floored)
			}
			checkCounts(t, one, step.want)
		}
	})
}

// What arrives late from an older generation changes nothing.
func TestOldGenerationsAreIgnored(t *testing.T) {
	each(t, func(t *testing.T, router func(string) Store, _ func(time.Duration)) {
		s := router("r")
		old := replaced(t, s, 1, Count{"x", 1})
		now := replaced(t, s, 2, Count{"x", 5}, Count{"y", 1})
		if _, err := s.Pick(t.Context(), old, Request{Candidates: []string{"x"}}); !errors.Is(err, errLapsed) {
			t.Errorf("Pick: %v", err)
		}
		if _, err := s.Adjust(t.Context(), old, []Delta{{"x", 1}}); !errors.Is(err, errLapsed) {
			t.Errorf("Adjust: %v", err)
		}
		if _, err := s.Renew(t.Context(), old); !errors.Is(err, errLapsed) {
			t.Errorf("Renew: %v", err)
		}
		for _, generation := range []uint64{1, 2} {
			if _, _, err := s.Replace(t.Context(), generation, nil); !errors.Is(err, errLapsed) {
				t.Errorf("Replace %d: %v", generation, err)
			}
		}
		checkCounts(t, s, map[string]int64{"x": 5, "y": 1})
		if _, err := s.Renew(t.Context(), now); err != nil {
			t.Error(err)
		}
		replaced(t, s, 3, Count{"y", 2})
		checkCounts(t, s, map[string]int64{"y": 2})
	})
}

// With a real clock: TestCountsOfADeadRouterGo.
func TestTheDeadAreEnded(t *testing.T) {
	each(t, func(t *testing.T, router func(string) Store, advance func(time.Duration)) {
		if advance == nil {
			return
		}
		dead, alive := router("dead"), router("alive")
		replaced(t, dead, 1, Count{"x", 3}, Count{"y", 1})
		token := replaced(t, alive, 1, Count{"x", 1})
		if n, err := alive.End(t.Context(), "dead"); n != 0 || err != nil {
			t.Errorf("ended %d of a router that is alive, %v", n, err)
		}
		advance(lease / 2)
		if expired, err := alive.Renew(t.Context(), token); len(expired) != 0 || err != nil {
			t.Errorf("expired %v, %v", expired, err)
		}
		advance(lease/2 + time.Millisecond)
		expired, err := alive.Renew(t.Context(), token)
		if diff := cmp.Diff([]string{"dead"}, expired); diff != "" || err != nil {
			t.Errorf("expired %s, %v", diff, err)
		}
		for _, want := range []int64{4, 0} { // once
			if n, err := alive.End(t.Context(), "dead"); n != want || err != nil {
				t.Errorf("ended %d, %v; want %d", n, err, want)
			}
		}
		checkCounts(t, alive, map[string]int64{"x": 1})
		if n, err := alive.End(t.Context(), "alive"); n != 1 || err != nil {
			t.Errorf("left with %d, %v", n, err)
		}
		checkCounts(t, alive, map[string]int64{})
	})
}

// Redis's clock is set back by a day, and forward by two: the dead go all the same, and the
// living come back.
func TestRedissClockIsSet(t *testing.T) {
	m := miniredis.RunT(t)
	c, _ := client(t, func(cfg *redis.Config) { cfg.Address = m.Addr() })
	now := time.Now()
	set := func(d time.Duration) { now = now.Add(d); m.SetTime(now) }
	set(0)
	dead, alive, other := NewRedis(c, "p", "dead", lease), NewRedis(c, "p", "alive", lease), NewRedis(c, "p", "other", lease)
	replaced(t, dead, 1, Count{"x", 3})
	token, theirs := replaced(t, alive, 1, Count{"x", 1}), replaced(t, other, 1, Count{"x", 1})
	renew := func(want ...string) {
		t.Helper()
		expired, err := alive.Renew(t.Context(), token)
		if d := cmp.Diff(want, expired); d != "" || err != nil {
			t.Fatalf("expired %s, %v", d, err)
		}
		for _, r := range expired {
			if _, err := alive.End(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	set(-24 * time.Hour)
	renew()
	if _, err := other.Renew(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	set(lease / 2)
	if _, err := other.Renew(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	set(lease/2 + time.Millisecond)
	renew("dead")
	checkCounts(t, alive, map[string]int64{"x": 2})
	set(48 * time.Hour)
	renew("other")
	if _, err := other.Renew(t.Context(), theirs); !errors.Is(err, errLapsed) {
		t.Errorf("renewed after that: %v", err)
	}
	replaced(t, other, 2, Count{"x", 1})
	checkCounts(t, alive, map[string]int64{"x": 2})
}

// A15, B185: every key of a script is in one slot.
func TestKeysAreOfOnePoolAndOneSlot(t *testing.T) {
	m := miniredis.RunT(t)
	c, _ := client(t, func(cfg *redis.Config) { cfg.Address = m.Addr() })
	for _, pool := range []string{"default", "a{b}c", "", "ü/x:*"} {
		s := NewRedis(c, pool, "router-1", lease)
		replaced(t, s, 1, Count{"x", 1})
		begins := "pointsman:{" + tag(pool) + "}:"
		if strings.ContainsAny(tag(pool), "{}:*/") {
			t.Errorf("the tag of %q is %q", pool, tag(pool))
		}
		n := 0
		for _, k := range m.Keys() {
			if strings.HasPrefix(k, begins) {
				n++
			}
			if ttl := m.TTL(k); ttl <= lease {
				t.Errorf("%s lives for %v", k, ttl)
			}
		}
		if n != 3 {
			t.Errorf("%d keys of pool %q begin with %s: %v", n, pool, begins, m.Keys())
		}
	}
}

// A store that has lost the sums, by eviction or a restart, is not read as "all zero".
func TestLostSumsAreNoticed(t *testing.T) {
	h := kittest.StartRedis(t)
	c, _ := client(t, func(cfg *redis.Config) { cfg.Address = h.Address })
	one, other := NewRedis(c, "p", "one", lease), NewRedis(c, "p", "other", lease)
	a, b := replaced(t, one, 1, Count{"x", 1}), replaced(t, other, 1, Count{"x", 2}, Count{"y", 1})
	if err := h.Client().Del(t.Context(), one.sums()).Err(); err != nil {
		t.Fatal(err)
	}
	pick := func(s Store, token Token) error {
		_, err := s.Pick(t.Context(), token, Request{Candidates: []string{"x"}})
		return err
	}
	if err := pick(one, a); !errors.Is(err, errLapsed) {
		t.Errorf("a pick by lost sums: %v", err)
	}
	replaced(t, one, 2, Count{"x", 1})
	checkCounts(t, one, map[string]int64{"x": 1})
	if err := pick(other, b); !errors.Is(err, errLapsed) {
		t.Errorf("a pick by sums without one's own part: %v", err)
	}
	replaced(t, other, 2, Count{"x", 2}, Count{"y", 1})
	checkCounts(t, one, map[string]int64{"x": 3, "y": 1})
}

// A foreign value under one of our keys is an error, not a crash and not a zero.
func TestForeignValuesAreErrors(t *testing.T) {
	h := kittest.StartRedis(t)
	c, tel := client(t, func(cfg *redis.Config) { cfg.Address = h.Address })
	s := NewRedis(c, "p", "r", lease)
	token := replaced(t, s, 1)
	if err := h.Client().Set(t.Context(), s.own("r"), "not a hash", 0).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Pick(t.Context(), token, Request{Candidates: []string{"x"}})
	if redis.KindOf(err) != redis.Wrong {
		t.Errorf("Pick: %v, kind %q", err, redis.KindOf(err))
	}
	if got := tel.Value("pointsman_redis_calls_total", "op", "reserve", "result", "script"); got != 1 {
		t.Errorf("script errors = %v", got)
	}
}

// After SCRIPT FLUSH, or on a server that is new, the script is sent in full.
func TestScriptsAreSentAgain(t *testing.T) {
	h := kittest.StartRedis(t)
	c, _ := client(t, func(cfg *redis.Config) { cfg.Address = h.Address })
	s := NewRedis(c, "p", "r", lease)
	token := replaced(t, s, 1)
	for i := range 3 {
		if i == 1 {
			if err := h.Client().ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Pick(t.Context(), token, Request{Candidates: []string{"x"}}); err != nil {
			t.Fatal(err)
		}
	}
	checkCounts(t, s, map[string]int64{"x": 3})
	stats, err := h.Client().InfoMap(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	full := stats["Commandstats"]["cmdstat_eval"]
	if !strings.Contains(full, "calls=3,") { // replace, and pick twice
		t.Errorf("EVAL: %s", full)
	}
}
