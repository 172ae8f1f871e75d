package pins

import (
	"context"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/redis"
)

// place has the index believe that p2 was sent a prompt, which Redis says p1 served.
func (n *node) place(chain []uint64) {
	n.t.Helper()
	if _, err := n.index.Place(key, "p2", chain); err != nil {
		n.t.Fatal(err)
	}
}

// B183, B178: Redis dies, hangs or is not there: the index is gone by, nothing is taken
// for zero, and Redis is gone by again when it is back.
func TestB183WithoutRedisTheIndexIsGoneBy(t *testing.T) {
	for name, c := range map[string]struct {
		away, back func(*kittest.RedisHandle)
		empty      bool // it comes back without what it knew
	}{
		"killed": {(*kittest.RedisHandle).Kill, (*kittest.RedisHandle).Restart, true},
		"hangs":  {(*kittest.RedisHandle).Halt, (*kittest.RedisHandle).Resume, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := kittest.StartRedis(t)
			n := start(t, "indexer-1", func(c *redis.Config) {
				c.Address, c.Budget = server.Address, conf.Duration(50*time.Millisecond)
			}).writes()
			chain := long(1, 0, 40)
			n.place(chain)
			n.served("p1", chain)
			kittest.Eventually(t, "Redis is gone by", func() bool { return n.match(chain)[0] == 40 })
			c.away(server)
			for range 20 {
				// A Redis that hangs may have answered the first of them.
				got := n.match(chain)
				if got[0] != 0 || got[1] != 40 {
					t.Fatalf("without Redis: %v, want what the index knows", got)
				}
			}
			kittest.Eventually(t, "the breaker opens", func() bool { n.match(chain); return !n.redis.Up() })
			asked := n.tel.Value("pointsman_redis_calls_total", "op", opLookup)
			for range 100 {
				n.match(chain)
			}
			if got := n.tel.Value("pointsman_redis_calls_total", "op", opLookup); got != asked {
				t.Errorf("%v look-ups reached for Redis while it was away", got-asked)
			}
			c.back(server)
			kittest.Eventually(t, "Redis is gone by again", func() bool { return n.match(chain)[1] == 0 })
			if c.empty {
				n.writes()
				n.served("p1", chain)
			}
			kittest.Eventually(t, "it is as before", func() bool { return n.match(chain)[0] == 40 })
		})
	}
}

// What waits behind a look-up that has used up the budget does not wait too.
func TestOneWaitsForAHangingRedis(t *testing.T) {
	server := kittest.StartRedis(t)
	n := start(t, "indexer-1", func(c *redis.Config) { c.Address, c.Budget = server.Address, conf.Duration(100*time.Millisecond) }).writes()
	chain := long(1, 0, 40)
	n.place(chain)
	n.served("p1", chain)
	server.Halt()
	defer server.Resume()
	n.expect("after the budget", chain, 0, 40, 0)
	asked := n.tel.Value("pointsman_redis_calls_total", "op", opLookup)
	n.store.quietUntil.Store(time.Now().Add(time.Hour).UnixNano()) // as it was, for longer than the machine may stop
	for range 50 {
		n.expect("at once", chain, 0, 40, 0)
	}
	if got := n.tel.Value("pointsman_redis_calls_total", "op", opLookup); got != asked {
		t.Errorf("%v more look-ups waited", got-asked)
	}
}

// Who is asked late still answers, by the index.
func TestADeadlineIsKept(t *testing.T) {
	n := start(t, "indexer-1", at(kittest.Redis(t))).writes()
	chain := long(1, 0, 40)
	n.place(chain)
	n.served("p1", chain)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	ordinals, got := []int32{0, 1, 2}, make([]uint32, 3)
	n.store.Match(ctx, key, chain, ordinals, got)
	if got[1] != 40 {
		t.Errorf("matched %v", got)
	}
}

// A Redis that takes no writes goes stale: it is not come back to.
func TestAReadOnlyRedisIsNotGoneBy(t *testing.T) {
	server := kittest.StartRedis(t)
	r := server.Client()
	if err := r.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := r.ConfigSet(t.Context(), "replica-serve-stale-data", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	n := start(t, "indexer-1", at(server.Address))
	chain := long(1, 0, 40)
	n.place(chain)
	kittest.Eventually(t, "it was tried", func() bool {
		return n.tel.Value("pointsman_redis_probes_total", "result", string(redis.ReadOnly)) >= 2
	})
	n.expect("by the index", chain, 0, 40, 0)
	if n.redis.Up() {
		t.Error("a read-only Redis is used")
	}
	if err := r.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	n.writes()
	n.served("p1", chain)
	n.expect("by Redis", chain, 40, 0, 0)
}

// P10, B185: all keys of a pool are in one slot, so that a cluster takes them in one
// command.
func TestB185RedisCluster(t *testing.T) {
	nodes := kittest.RedisCluster(t, 3)
	n := start(t, "indexer-1", func(c *redis.Config) {
		for _, h := range nodes {
			c.Addresses = append(c.Addresses, h.Address)
		}
	}).writes()
	n.served("p1", long(1, 0, 500))
	n.expect("the whole prompt", long(1, 0, 500), 500, 0, 0)
	if local := n.lookups("local"); local != 0 {
		t.Errorf("%v look-ups were answered by the index", local)
	}
}
