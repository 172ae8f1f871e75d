package counter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// remote is one router's leases in Redis, with a client of its own, running.
type remote struct {
	*Leases
	client *redis.Client
	tel    *telemetry.Telemetry
	stop   func()
}

func newRemote(t testing.TB, id string, ttl time.Duration, set func(*redis.Config)) *remote {
	t.Helper()
	c, tel := idleClient(t, set)
	cfg := Config{TTL: conf.Duration(ttl)}
	l, err := InRedis(cfg, c, "pool", id, tel)
	if err != nil {
		t.Fatal(err)
	}
	l.Enable(true)
	stopClient := begin(t, c.Part())
	stopLeases := begin(t, l.Part())
	return &remote{l, c, tel, func() { stopLeases(); stopClient() }}
}

func at(address string) func(*redis.Config) {
	return func(c *redis.Config) { c.Address = address }
}

func (r *remote) awaitInStep(t testing.TB) {
	t.Helper()
	kittest.Eventually(t, "the store is in step", r.InStep)
}

// awaitCounts waits until Redis holds exactly want.
func awaitCounts(t testing.TB, r *remote, want map[string]int64) {
	t.Helper()
	var got map[string]int64
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("last counts %v, %v", got, err)
		}
	}()
	kittest.Eventually(t, fmt.Sprint("the counts are ", want), func() bool {
		got, err = r.Counts(context.Background())
		return err == nil && maps.Equal(want, got)
	})
}

// 4 equal hosts get 25 % ± 1 % each over 100,000 picks. Each worker holds several leases
// and ends its oldest, so that one which is held up holds up all hosts alike; that ties go
// to anybody is TestEqualsAreEquallyLikely's.
func TestFourEqualHostsShareEqually(t *testing.T) {
	const picks, workers, depth = 100_000, 8, 8
	r := newRemote(t, "r", 30*time.Second, at(kittest.Redis(t)))
	r.awaitInStep(t)
	hosts := []string{"h0", "h1", "h2", "h3"}
	var got [4]atomic.Int64
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			var open []*Lease
			for range picks / workers {
				i, _, l, err := r.Reserve(t.Context(), Request{Candidates: hosts})
				if err != nil {
					continue // a full machine may exceed a budget now and then
				}
				got[i].Add(1)
				if open = append(open, l); len(open) > depth {
					open[0].Release()
					open = open[1:]
				}
			}
			for _, l := range open {
				l.Release()
			}
		})
	}
	work.Wait()
	total := int64(0)
	for i := range got {
		total += got[i].Load()
	}
	if total < picks*99/100 {
		t.Errorf("%d of %d picks were shared", total, picks)
	}
	for i := range got {
		if share := float64(got[i].Load()) / float64(total); math.Abs(share-.25) > .01 {
			t.Errorf("%s got %.4f", hosts[i], share)
		}
	}
	awaitCounts(t, r, map[string]int64{})
}

// 3 routers × 200 concurrent requests: max−min in flight ≤ 2, and nothing is left.
func TestRoutersShareOneView(t *testing.T) {
	address := kittest.Redis(t)
	hosts := []string{"h0", "h1", "h2", "h3", "h4", "h5", "h6"}
	var routers []*remote
	for i := range 3 {
		r := newRemote(t, fmt.Sprint("r", i), 30*time.Second, at(address))
		r.awaitInStep(t)
		routers = append(routers, r)
	}
	const concurrent = 600
	open := make([]*Lease, concurrent)
	reserve := func(w int) {
		_, _, l, err := routers[w%3].Reserve(t.Context(), Request{Candidates: hosts})
		if err != nil {
			t.Errorf("Reserve: %v", err)
			l = routers[w%3].Adopt(hosts[0])
		}
		open[w] = l
	}
	together := func(do func(w int)) {
		var work sync.WaitGroup
		for w := range concurrent {
			work.Go(func() { do(w) })
		}
		work.Wait()
	}
	check := func(when string) {
		t.Helper()
		truth := map[string]int64{}
		for _, l := range open {
			truth[l.Endpoint()]++
		}
		awaitCounts(t, routers[0], truth)
		counts := slices.Sorted(maps.Values(truth))
		if spread := counts[len(counts)-1] - counts[0]; len(counts) != len(hosts) || spread > 2 {
			t.Errorf("%s: in flight %v: max−min %d", when, truth, spread)
		}
	}
	together(reserve)
	check("all came at once")
	for range 3 { // those of one host end, and as many come
		gone := open[0].Endpoint()
		together(func(w int) {
			if open[w].Endpoint() == gone {
				open[w].Release()
				reserve(w)
			}
		})
		check("all of one host ended, and others came")
	}
	for _, l := range open {
		l.Release()
	}
	awaitCounts(t, routers[0], map[string]int64{})
}

// kill -9 of a router: its counts go, and those of others stay. That it is within the TTL:
// TestTheDeadAreEnded and TestConfig.
func TestCountsOfADeadRouterGo(t *testing.T) {
	address := kittest.Redis(t)
	ttl := 2 * time.Second
	alive := newRemote(t, "alive", ttl, at(address))
	alive.awaitInStep(t)
	l := alive.Adopt("x")
	// What a router leaves behind that ends without a word.
	dead := NewRedis(alive.client, "pool", "dead", Config{TTL: conf.Duration(ttl)}.Lease())
	replaced(t, dead, 1, Count{"x", 5}, Count{"y", 2})
	kittest.Eventually(t, "7 leases are freed", func() bool { return alive.tel.Value("pointsman_leases_freed_total") == 7 })
	awaitCounts(t, alive, map[string]int64{"x": 1})
	l.Release()
	awaitCounts(t, alive, map[string]int64{})
}

// A router that stops in order takes its counts with it.
func TestARouterThatStopsLeavesNothing(t *testing.T) {
	h := kittest.StartRedis(t)
	one, other := newRemote(t, "one", 30*time.Second, at(h.Address)), newRemote(t, "other", 30*time.Second, at(h.Address))
	one.awaitInStep(t)
	other.awaitInStep(t)
	one.Adopt("x")
	other.Adopt("x")
	awaitCounts(t, other, map[string]int64{"x": 2})
	one.stop()
	awaitCounts(t, other, map[string]int64{"x": 1})
}

// A router that slept for longer than the TTL writes its counts anew.
func TestARouterThatSleptComesBack(t *testing.T) {
	h := kittest.StartRedis(t)
	r := newRemote(t, "r", 30*time.Second, at(h.Address))
	r.awaitInStep(t)
	r.Adopt("x")
	awaitCounts(t, r, map[string]int64{"x": 1})
	// Another router ended its leases meanwhile, or somebody flushed the database.
	if err := h.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	_, _, _, err := r.Reserve(t.Context(), Request{Candidates: []string{"x"}})
	if !errors.Is(err, errLapsed) {
		t.Errorf("a pick by forgotten counts: %v", err)
	}
	awaitCounts(t, r, map[string]int64{"x": 1})
	if got := r.tel.Value("pointsman_leases_lost_total"); got != 1 {
		t.Errorf("lost %v", got)
	}
}

// trouble is something that happens to Redis.
type trouble struct {
	name    string
	begin   func(t *testing.T, h *kittest.RedisHandle)
	end     func(t *testing.T, h *kittest.RedisHandle)
	kind    redis.Kind // of the first failures; "": several
	forgets bool       // what was there is lost
}

func command(args ...any) func(*testing.T, *kittest.RedisHandle) {
	return func(t *testing.T, h *kittest.RedisHandle) {
		t.Helper()
		if err := h.Client().Do(context.Background(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func troubles() []trouble {
	return []trouble{
		{"B183 killed", func(_ *testing.T, h *kittest.RedisHandle) { h.Kill() }, func(_ *testing.T, h *kittest.RedisHandle) { h.Restart() }, "", true},
		{"B183 hangs", func(_ *testing.T, h *kittest.RedisHandle) { h.Halt() }, func(_ *testing.T, h *kittest.RedisHandle) { h.Resume() }, redis.Budget, false},
		{"B183 slow", command("CLIENT", "PAUSE", 600000, "ALL"), func(_ *testing.T, h *kittest.RedisHandle) { h.Restart() }, redis.Budget, true},
		{"full", command("CONFIG", "SET", "maxmemory", "1"), command("CONFIG", "SET", "maxmemory", "0"), redis.Full, false},
		{"read-only", command("CONFIG", "SET", "min-replicas-to-write", "1"), command("CONFIG", "SET", "min-replicas-to-write", "0"), redis.ReadOnly, false},
		{"no longer allowed", command("ACL", "SETUSER", "default", "-@scripting"), command("ACL", "SETUSER", "default", "+@scripting"), redis.Denied, false},
	}
}

// Whatever happens to Redis: no call takes longer than its budget, soon none takes any
// time, nothing is read as "all zero", and the counts are right when it is back.
func TestTroubleWithRedis(t *testing.T) {
	for _, c := range troubles() {
		t.Run(c.name, func(t *testing.T) {
			h := kittest.StartRedis(t)
			r := newRemote(t, "r", 30*time.Second, func(cfg *redis.Config) {
				cfg.Address = h.Address
				if c.kind == redis.Budget {
					cfg.Budget = conf.Duration(500 * time.Millisecond)
				}
			})
			r.awaitInStep(t)
			before := r.Adopt("x")
			kept := r.Adopt("y")
			awaitCounts(t, r, map[string]int64{"x": 1, "y": 1})

			c.begin(t, h)
			var first error
			kittest.Eventually(t, "the breaker opens", func() bool {
				_, _, l, err := r.Reserve(t.Context(), Request{Candidates: []string{"x", "y"}})
				if err == nil {
					l.Release() // the server was still ending
				} else if first == nil && !errors.Is(err, ErrApart) && !errors.Is(err, redis.ErrAway) {
					first = err
				}
				return !r.client.Up()
			})
			if first != nil && c.kind != "" && redis.KindOf(first) != c.kind {
				t.Errorf("the first failure is %v, kind %q; want %q", first, redis.KindOf(first), c.kind)
			}
			for range 1000 { // that they take no time is measured: bench/redis
				if _, _, _, err := r.Reserve(t.Context(), Request{Candidates: []string{"x", "y"}}); !errors.Is(err, ErrApart) && !errors.Is(err, redis.ErrAway) {
					t.Fatalf("with the breaker open something was sent: %v", err)
				}
			}
			if got := r.tel.Value("pointsman_leases_in_step"); got != 0 {
				t.Errorf("in step = %v", got)
			}
			before.Release()
			during := r.Adopt("z")
			if r.tel.Value("pointsman_redis_connected") != 0 || r.tel.Value("pointsman_redis_breaker_opened_total") == 0 {
				t.Error("that Redis is away does not show in the metrics")
			}

			c.end(t, h)
			r.awaitInStep(t)
			awaitCounts(t, r, map[string]int64{"y": 1, "z": 1})
			var l *Lease
			kittest.Eventually(t, "a place is reserved", func() bool {
				var n int64
				var err error
				_, n, l, err = r.Reserve(t.Context(), Request{Candidates: []string{"y", "new"}})
				if err == nil && (n != 1 || l.Endpoint() != "new") {
					t.Errorf("reserved %v %d", l.Endpoint(), n)
				}
				return err == nil
			})
			for _, l := range []*Lease{l, kept, during} {
				l.Release()
			}
			awaitCounts(t, r, map[string]int64{})
		})
	}
}

// Failing over: sentinels name another master, and the leases go there.
func TestFailover(t *testing.T) {
	s := kittest.StartRedisSentinels(t, 3)
	var sentinels []string
	for _, h := range s.Sentinels {
		sentinels = append(sentinels, h.Address)
	}
	r := newRemote(t, "r", 30*time.Second, func(c *redis.Config) { c.Addresses, c.SentinelMaster = sentinels, s.Master })
	r.awaitInStep(t)
	r.Adopt("x")
	awaitCounts(t, r, map[string]int64{"x": 1})
	s.Servers[0].Kill()
	r.Adopt("y")
	kittest.Eventually(t, "the new master has the counts", func() bool {
		all, err := s.Servers[1].Client().HGetAll(t.Context(), "pointsman:{pool}:inflight").Result()
		return err == nil && all["x"] == "1" && all["y"] == "1" && r.InStep()
	})
}

// TRYAGAIN, ASK, MOVED: a slot goes to another node of the cluster, key by key. While the
// keys are apart nothing is reserved; then the calls follow them.
func TestSlotsMove(t *testing.T) {
	nodes := kittest.RedisCluster(t, 3)
	r := newRemote(t, "r", 30*time.Second, func(c *redis.Config) { c.Addresses = []string{nodes[0].Address} })
	r.awaitInStep(t)
	r.Adopt("x")
	awaitCounts(t, r, map[string]int64{"x": 1})
	ctx := t.Context()
	slot, err := nodes[0].Client().ClusterKeySlot(ctx, "pointsman:{pool}:inflight").Result()
	if err != nil {
		t.Fatal(err)
	}
	from := nodes[slot*3/16384]
	to := nodes[(slot*3/16384+1)%3]
	id := func(h *kittest.RedisHandle) string { return h.Client().Do(ctx, "CLUSTER", "MYID").Val().(string) }
	do := func(at *kittest.RedisHandle, args ...any) {
		t.Helper()
		if err := at.Client().Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	move := func(keys ...any) {
		t.Helper()
		port := to.Address[strings.LastIndex(to.Address, ":")+1:]
		do(from, append([]any{"MIGRATE", "127.0.0.1", port, "", 0, 5000, "KEYS"}, keys...)...)
	}
	awaitPick := func(what string) {
		t.Helper()
		kittest.Eventually(t, what, func() bool {
			_, _, l, err := r.Reserve(ctx, Request{Candidates: []string{"x", "y"}})
			if err == nil {
				if l.Endpoint() != "y" {
					t.Errorf("%s: picked %s, which has one more", what, l.Endpoint())
				}
				l.Release()
			}
			return err == nil
		})
		awaitCounts(t, r, map[string]int64{"x": 1})
	}

	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", id(from))
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(to))
	awaitPick("a slot that is to move serves")
	move("pointsman:{pool}:inflight")
	kittest.Eventually(t, "a slot whose keys are apart is told of", func() bool {
		_, _, l, err := r.Reserve(ctx, Request{Candidates: []string{"x", "y"}})
		if err == nil {
			t.Fatalf("reserved %s by half of the keys", l.Endpoint())
		}
		return redis.KindOf(err) == redis.Moving || r.tel.Value("pointsman_leases_rewrites_total", "result", "moving") > 0
	})
	move("pointsman:{pool}:inflight:r", "pointsman:{pool}:routers")
	awaitPick("a slot that is all there, but not yet the node's own")
	for _, h := range []*kittest.RedisHandle{to, from} {
		do(h, "CLUSTER", "SETSLOT", slot, "NODE", id(to))
	}
	awaitPick("the slot's new node")
	if n, err := to.Client().Exists(ctx, "pointsman:{pool}:inflight").Result(); n != 1 || err != nil {
		t.Errorf("the new node holds %d, %v", n, err)
	}
}

// A call whose answer is lost after Redis has done it is not counted twice, nor for ever.
func TestACallThatWasDoneButNotAnswered(t *testing.T) {
	h := kittest.StartRedis(t)
	r := newRemote(t, "r", 30*time.Second, func(c *redis.Config) { c.Address, c.Budget = h.Address, conf.Duration(100*time.Millisecond) })
	r.awaitInStep(t)
	h.Halt() // what is sent now is done later
	_, _, _, err := r.Reserve(t.Context(), Request{Candidates: []string{"x"}})
	if redis.KindOf(err) != redis.Budget {
		t.Errorf("Reserve: %v", err)
	}
	h.Resume()
	kittest.Eventually(t, "what came late is undone", func() bool {
		return r.InStep() && r.tel.Value("pointsman_leases_rewrites_total", "result", "ok") >= 2
	})
	awaitCounts(t, r, map[string]int64{})
}

// The client that is told to go does not count as trouble with Redis.
func TestACallerThatGoesIsNoTrouble(t *testing.T) {
	h := kittest.StartRedis(t)
	r := newRemote(t, "r", 30*time.Second, at(h.Address))
	r.awaitInStep(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if _, _, _, err := r.Reserve(gone, Request{Candidates: []string{"x"}}); err == nil {
			t.Fatal("reserved for nobody")
		}
		r.awaitInStep(t)
	}
	if !r.client.Up() || r.tel.Value("pointsman_redis_breaker_opened_total") != 0 {
		t.Error("the breaker has opened")
	}
	awaitCounts(t, r, map[string]int64{})
}
