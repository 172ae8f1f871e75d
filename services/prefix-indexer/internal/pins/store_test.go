package pins

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	key  = index.Key{Scheme: "test", BlockSize: 64}
	pods = []string{"p1", "p2", "p3"}
)

// node is one process: its index and its store, running.
type node struct {
	t     *testing.T
	index *index.Index
	store *Store
	redis *redis.Client
	tel   *telemetry.Telemetry
	stop  func()
}

func start(t *testing.T, id string, change func(*redis.Config)) *node {
	t.Helper()
	cfg := redis.DefaultConfig()
	cfg.Budget = conf.Duration(5 * time.Second) // a busy machine is not a slow Redis
	change(&cfg)
	n := &node{t: t, tel: telemetry.Discard()}
	var err error
	if n.index, err = index.New(index.DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	n.index.SetEndpoints(pods)
	if n.redis, err = redis.New(cfg, n.tel); err != nil {
		t.Fatal(err)
	}
	if n.store, err = New(n.redis, n.index, "pool", id, 1800*time.Second, n.tel); err != nil {
		t.Fatal(err)
	}
	g := run.NewGroup(nil)
	g.Add("redis", n.redis.Part())
	g.Add("keys", n.store.Part())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	stopped := false
	n.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	t.Cleanup(n.stop)
	return n
}

func at(address string) func(*redis.Config) {
	return func(c *redis.Config) { c.Address = address }
}

// writes waits until the node holds the lease.
func (n *node) writes() *node {
	n.t.Helper()
	kittest.Eventually(n.t, "the lease is held", n.store.holds.Load)
	return n
}

func (n *node) match(chain []uint64) []uint32 {
	ordinals, got := make([]int32, len(pods)), make([]uint32, len(pods))
	for i, id := range pods {
		ordinals[i] = n.index.Endpoints().Ordinal(id)
		got[i] = 99 // must be overwritten
	}
	n.store.Match(n.t.Context(), key, chain, ordinals, got)
	return got
}

func (n *node) lookups(result string) float64 {
	return n.tel.Value("pointsman_prefix_indexer_key_lookups_total", "result", result)
}

// served notes that an endpoint served a prompt, and waits until Redis knows.
func (n *node) served(endpoint string, chain []uint64) {
	n.t.Helper()
	result := func(what string) float64 {
		return n.tel.Value("pointsman_prefix_indexer_keys_learned_total", "result", what)
	}
	before, lost := result("ok"), result("failed")
	n.store.Learn(key, endpoint, chain)
	kittest.Eventually(n.t, "the prompt is written", func() bool {
		if now := result("failed"); now > lost { // the machine is busy
			lost = now
			n.store.Learn(key, endpoint, chain)
		}
		return result("ok") > before
	})
}

func (n *node) expect(what string, chain []uint64, want ...uint32) {
	n.t.Helper()
	if diff := cmp.Diff(want, n.match(chain)); diff != "" {
		n.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// prompt is the chain of blocks of a prompt for a model, as routers hash it: every hash
// is taken over its block and the hash before it.
func prompt(model string, blocks ...string) []uint64 {
	chain := make([]uint64, len(blocks))
	h := xxhash.Sum64String(model)
	for i, b := range blocks {
		h = xxhash.Sum64(binary.LittleEndian.AppendUint64([]byte(b), h))
		chain[i] = h
	}
	return chain
}

// long is a prompt of n blocks of which the first are shared by all.
func long(branch, shared, n int) []uint64 {
	blocks := make([]string, n)
	for i := range blocks {
		blocks[i] = fmt.Sprint("block ", i)
		if i >= shared {
			blocks[i] += fmt.Sprint(" of ", branch)
		}
	}
	return prompt("m", blocks...)
}

// servers runs f with the stand-in and with the real thing.
func servers(t *testing.T, f func(t *testing.T, address string, r *goredis.Client)) {
	for name, server := range map[string]func(t *testing.T) string{
		"miniredis":    func(t *testing.T) string { return miniredis.RunT(t).Addr() },
		"redis-server": func(t *testing.T) string { return kittest.Redis(t) },
	} {
		t.Run(name, func(t *testing.T) {
			address := server(t)
			f(t, address, kittest.RedisClient(t, address))
		})
	}
}

// The rows of the reference policy that are about keys, with what is right instead of
// what it does where that is at fault.
func TestHigressPrefixKeys(t *testing.T) {
	servers(t, func(t *testing.T, address string, r *goredis.Client) {
		n := start(t, "indexer-1", at(address)).writes()
		// full tells that a key lives for the whole TTL from now on, or nearly.
		full := func(chain []uint64, block int) bool {
			d, err := r.PTTL(t.Context(), n.store.keys(nil, key, chain, []int{block})[0]).Result()
			if err != nil {
				t.Fatal(err)
			}
			return d > 1700*time.Second && d <= 1800*time.Second
		}
		one, two := prompt("m", "user:hi"), prompt("m", "user:hi", "assistant:okuser:more")
		n.expect("nothing is known", one, 0, 0, 0)

		n.served("p2", one)
		n.expect("P1: the prompt is p2's", one, 0, 1, 0)
		if !full(one, 1) {
			t.Error("P1: the key does not live 1800 s")
		}

		if err := r.Expire(t.Context(), n.store.keys(nil, key, one, []int{1})[0], 100*time.Second).Err(); err != nil {
			t.Fatal(err)
		}
		n.expect("P2: what goes on from it matches p2", two, 0, 1, 0)
		n.store.lost.Store(true) // as if a tenth of the TTL had passed
		n.served("p2", two)
		n.expect("P2: and is p2's", two, 0, 2, 0)
		if !full(one, 1) {
			t.Error("P2: the key of the first block was not refreshed")
		}

		// P4, P5: p2 dies. The reference keeps its pins and writes garbage; here nobody is
		// believed to hold anything, and who serves next has it all.
		n.index.SetEndpoints([]string{"p1", "p3"})
		n.expect("P4: a dead endpoint's pin is not believed", two, 0, 0, 0)
		n.served("p1", two)
		n.expect("P4: it is overwritten at once", two, 2, 0, 0)
		n.expect("P4: from the first block on", one, 1, 0, 0)
		n.index.SetEndpoints(pods)

		three := prompt("m", "user:hi", "assistant:okuser:more", "assistant:okuser:still")
		n.served("p3", three)
		n.expect("P5: who served last has every block", three, 0, 0, 3)

		// P7, V5: repeated blocks. The reference's chain is an exclusive or, so all of them
		// share the key of zeros.
		aa, bb := prompt("m", "user:a", "user:a"), prompt("m", "user:b", "user:b")
		n.served("p1", aa)
		n.served("p2", bb)
		n.expect("P7: [A,A] is its own", aa, 2, 0, 0)
		n.expect("P7: [B,B] is its own", bb, 0, 2, 0)
		n.expect("P7: and nobody else's", prompt("m", "user:c", "user:c"), 0, 0, 0)

		// Reordered blocks, two models.
		n.served("p1", prompt("m", "user:x", "user:y"))
		n.expect("[A,B] is not [B,A]", prompt("m", "user:y", "user:x"), 0, 0, 0)
		n.expect("V8: A B B is not A", prompt("m", "user:x", "user:z", "user:z"), 1, 0, 0)
		n.expect("another model", prompt("other", "user:x", "user:y"), 0, 0, 0)
		if local := n.lookups("local"); local != 0 {
			t.Errorf("%v look-ups were answered by the index", local)
		}
	})
}

// Two processes see the same; a long prompt takes one command, and its keys are few.
func TestALongPrompt(t *testing.T) {
	servers(t, func(t *testing.T, address string, r *goredis.Client) {
		x := start(t, "indexer-1", at(address)).writes()
		y := start(t, "indexer-2", at(address))
		kittest.Eventually(t, "the second is connected", y.redis.Up)
		x.served("p1", long(1, 100, 500))
		x.served("p2", long(2, 100, 300))
		for _, n := range []*node{x, y} {
			n.expect("the whole prompt", long(1, 100, 500), 500, 96, 0)
			n.expect("one that goes on", long(1, 100, 700), 480, 96, 0)
			n.expect("one that shares the beginning", long(3, 100, 400), 0, 96, 0)
			n.expect("a cold one", prompt("m", "else"), 0, 0, 0)
		}
		if n, err := r.DBSize(t.Context()).Result(); err != nil || n > 110 {
			t.Errorf("%d keys for prompts of 500 and 300 blocks, error %v", n, err)
		}
		if hits, misses := y.lookups("hit"), y.lookups("miss"); hits != 3 || misses != 1 {
			t.Errorf("%v hits and %v misses, want 3 and 1", hits, misses)
		}
		if got := y.tel.Value("pointsman_redis_calls_total", "op", "prefix_lookup"); got != 4 {
			t.Errorf("%v commands for 4 look-ups", got)
		}
	})
}

// P11: the reference's cost grows with the blocks, 14 µs for one and 15 ms for 100, a
// command or two each. Here it is one command, and its keys grow by 8 with every doubling.
func TestP11CostOfALookup(t *testing.T) {
	servers(t, func(t *testing.T, address string, _ *goredis.Client) {
		n := start(t, "indexer-1", at(address)).writes()
		for i, c := range []struct{ blocks, keys int }{{1, 1}, {5, 5}, {10, 10}, {20, 18}, {50, 29}, {100, 37}, {200, 45}, {500, 56}} {
			if got := len(marks(nil, c.blocks)); got != c.keys {
				t.Errorf("%d blocks: %d keys, want %d", c.blocks, got, c.keys)
			}
			n.served("p3", long(c.blocks, 0, c.blocks))
			n.expect(fmt.Sprint(c.blocks, " blocks"), long(c.blocks, 0, c.blocks), 0, 0, uint32(c.blocks))
			if got := n.tel.Value("pointsman_redis_calls_total", "op", "prefix_lookup"); got != float64(i+1) {
				t.Errorf("%d blocks: %v commands for %d look-ups", c.blocks, got, i+1)
			}
		}
	})
}

// One of two writes; when it stops, the other goes on.
func TestOneOfThePoolWrites(t *testing.T) {
	servers(t, func(t *testing.T, address string, _ *goredis.Client) {
		x := start(t, "indexer-1", at(address)).writes()
		y := start(t, "indexer-2", at(address))
		kittest.Eventually(t, "the second has asked for the lease", func() bool {
			return y.tel.Value("pointsman_redis_calls_total", "op", "prefix_lease", "result", "ok") >= 1
		})
		y.store.Learn(key, "p3", long(1, 0, 10))
		x.served("p1", long(2, 0, 10))
		if y.store.holds.Load() || y.tel.Value("pointsman_prefix_indexer_keys_learned_total") != 0 {
			t.Error("both write")
		}
		y.expect("what the first learned", long(2, 0, 10), 10, 0, 0)
		x.stop()
		y.writes()
		y.served("p3", long(1, 0, 10))
		y.expect("what the second learned", long(1, 0, 10), 0, 0, 10)
	})
}

func TestLearningDoesNotBlock(t *testing.T) {
	s := &Store{queue: make(chan learned, 2)}
	tel := telemetry.Discard()
	var err error
	if s.meters, err = newMeters(tel.Meter); err != nil {
		t.Fatal(err)
	}
	s.Learn(key, "a", long(1, 0, 2)) // no lease
	s.holds.Store(true)
	s.Learn(key, "a", nil)
	for range 5 {
		s.Learn(key, "a", long(1, 0, 2))
	}
	if len(s.queue) != 2 || tel.Value("pointsman_prefix_indexer_keys_learned_total", "result", "dropped") != 3 {
		t.Errorf("%d wait", len(s.queue))
	}
}

// Keys that were written lately to the same effect are not written again.
func TestFreshKeysAreLeft(t *testing.T) {
	f := fresh{young: make(map[string]string)}
	now := time.Now()
	f.turn(now, time.Hour)
	f.note([]string{"k", "l"}, "p1")
	f.note([]string{"l"}, "p2")
	check := func(when string, want ...bool) {
		t.Helper()
		got := []bool{f.is("k", "p1"), f.is("k", "p2"), f.is("l", "p1"), f.is("l", "p2"), f.is("m", "p1")}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("at once", true, false, false, true, false)
	f.turn(now.Add(2*time.Minute), time.Hour)
	check("after a while", true, false, false, true, false)
	f.turn(now.Add(4*time.Minute), time.Hour)
	f.note([]string{"l"}, "p1")
	check("a generation later", true, false, true, false, false)
	f.turn(now.Add(8*time.Minute), time.Hour)
	check("two generations later", false, false, true, false, false)
	f.clear()
	check("cleared", false, false, false, false, false)
	for i := range mostFresh {
		f.turn(now.Add(8*time.Minute), time.Hour)
		f.note([]string{fmt.Sprint(i)}, "p1")
	}
	if n := len(f.young) + len(f.old); n > mostFresh {
		t.Errorf("%d keys are remembered", n)
	}
}
