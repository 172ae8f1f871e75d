package redis

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

func TestMain(m *testing.M) {
	code := m.Run()
	cluster.Clean()
	os.Exit(code)
}

const totals = "pointsman:{default}:inflight"

// patient has routers wait for Redis on a machine that is busy with tests, where the
// question is not how fast it is.
var patient = []string{"redis.budget=2s"}

func fast(_ int, cfg *modelserver.Config) { cfg.TimeScale = 25 }

// pasted writes a configuration of Higress's as it is pasted.
func pasted(t testing.TB, address, policy, more string) string {
	t.Helper()
	host, port, _ := strings.Cut(address, ":")
	file := filepath.Join(t.TempDir(), "lb.yaml")
	text := fmt.Sprintf("lb_policy: %s\nlb_config:\n  serviceFQDN: %s\n  servicePort: %s\n  username: default\n%s", policy, host, port, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func newClient(t testing.TB) *http.Client {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: 1000}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func body(n int64) []byte {
	return fmt.Appendf(nil, `{"model":"sim-model","max_tokens":8,"messages":[{"role":"user","content":"request %d"}]}`, n)
}

// counts reads the requests in flight of all routers.
func counts(t *testing.T, c *goredis.Client) map[string]int64 {
	t.Helper()
	all, err := c.HGetAll(context.Background(), totals).Result()
	if err != nil {
		return nil
	}
	out := map[string]int64{}
	for e, text := range all {
		if e == "" {
			continue
		}
		if out[e], err = strconv.ParseInt(text, 10, 64); err != nil || out[e] <= 0 {
			t.Errorf("%s has the count %q", e, text)
		}
	}
	return out
}

func sum(m map[string]int64) int64 {
	n := int64(0)
	for _, v := range m {
		n += v
	}
	return n
}

// awaitShared waits until every router counts in Redis.
func awaitShared(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	for i := range c.Routers {
		c.AwaitMetric(t, i, "pointsman_leases_rewrites_total", `result="ok"`)
	}
}

// hold sends requests to the routers by turns, and holds them until release.
func hold(t *testing.T, c *cluster.Cluster, client *http.Client, n int, routers ...int) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var held sync.WaitGroup
	for i := range n {
		held.Go(func() {
			_, err := cluster.Post(ctx, client, c.URL(routers[i%len(routers)])+"/v1/chat/completions", body(int64(i)))
			if err == nil && ctx.Err() == nil {
				t.Errorf("request %d was answered by a server that is frozen", i)
			}
		})
	}
	release = sync.OnceFunc(func() { cancel(); held.Wait() })
	t.Cleanup(release)
	return release
}

// 3 routers × 200 concurrent requests: max−min in flight ≤ 2; and when the clients have
// left, nothing is counted (B180, B177).
func TestRoutersKeepServersEven(t *testing.T) {
	h := kittest.StartRedis(t)
	c := cluster.Start(t, cluster.Options{
		Servers: 4, Routers: 3, Plain: true, ConfigFile: pasted(t, h.Address, "global_least_request", ""), RouterSets: patient,
		Server: func(_ int, cfg *modelserver.Config) { cfg.Faults.Freeze = true },
	})
	awaitShared(t, c)
	release := hold(t, c, newClient(t), 600, 0, 1, 2)
	db := h.Client()
	kittest.Eventually(t, "all are in flight", func() bool { return sum(counts(t, db)) == 600 })
	got := slices.Sorted(maps.Values(counts(t, db)))
	t.Logf("in flight: %v", got)
	if len(got) != 4 || got[3]-got[0] > 2 {
		t.Errorf("in flight %v: max−min > 2", got)
	}
	shared := 0.0
	for i := range c.Routers {
		shared += c.Metric(t, i, "pointsman_leases_reservations_total", `result="shared"`)
	}
	if shared < 590 {
		t.Errorf("%v of 600 picks went by the counts of all routers", shared)
	}
	release()
	kittest.Eventually(t, "nothing is in flight", func() bool { return len(counts(t, db)) == 0 })
}

// kill -9 of a router under load: the counts are right again within the TTL.
func TestKilledRouterIsForgotten(t *testing.T) {
	h := kittest.StartRedis(t)
	const ttl = 3 * time.Second
	c := cluster.Start(t, cluster.Options{
		Servers: 4, Routers: 2, Plain: true, ConfigFile: pasted(t, h.Address, "global_least_request", ""), RouterSets: append([]string{"redis.leaseTTL=" + ttl.String()}, patient...),
		Server: func(_ int, cfg *modelserver.Config) { cfg.Faults.Freeze = true },
	})
	awaitShared(t, c)
	client := newClient(t)
	release := hold(t, c, client, 40, 1)
	hold(t, c, client, 20, 0)
	db := h.Client()
	kittest.Eventually(t, "all are in flight", func() bool { return sum(counts(t, db)) == 60 })
	c.Routers[1].Kill()
	killed := time.Now()
	kittest.Eventually(t, "only those of the living router are counted", func() bool { return sum(counts(t, db)) == 20 })
	t.Logf("after %s; the TTL is %s", time.Since(killed).Round(time.Millisecond), ttl)
	kittest.Eventually(t, "40 leases are freed", func() bool { return c.Metric(t, 0, "pointsman_leases_freed_total", "") >= 40 })
	release()
}

// Redis killed, halted and back under load: no request fails, and it comes back by itself
// (B183).
func TestRedisMayGoAndCome(t *testing.T) {
	h := kittest.StartRedis(t)
	c := cluster.Start(t, cluster.Options{Servers: 4, Routers: 2, Plain: true, Server: fast, ConfigFile: pasted(t, h.Address, "global_least_request", ""), RouterSets: []string{"redis.budget=250ms"}})
	awaitShared(t, c)
	client := newClient(t)
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	var done, slowest atomic.Int64
	for w := range 8 {
		load.Go(func() {
			for i := int64(0); ctx.Err() == nil; i++ {
				began := time.Now()
				a, err := cluster.Post(context.Background(), client, c.URL(w%2)+"/v1/chat/completions", body(i*8+int64(w)))
				if err != nil || a.Status != http.StatusOK {
					t.Errorf("status %d, error %v: %.200s", a.Status, err, a.Body)
					return
				}
				took := time.Since(began).Milliseconds()
				for s := slowest.Load(); took > s && !slowest.CompareAndSwap(s, took); s = slowest.Load() {
				}
				done.Add(1)
			}
		})
	}
	defer func() { cancel(); load.Wait() }()
	both := func(what string, f func(router int) bool) {
		t.Helper()
		for i := range c.Routers {
			kittest.Eventually(t, fmt.Sprintf("router %d: %s", i+1, what), func() bool { return f(i) })
		}
	}
	local := func(i int) float64 {
		return c.Metric(t, i, "pointsman_leases_reservations_total", "") - c.Metric(t, i, "pointsman_leases_reservations_total", `result="shared"`)
	}
	for _, trouble := range []struct {
		name       string
		begin, end func()
	}{
		{"killed", h.Kill, h.Restart},
		{"halted", h.Halt, h.Resume},
	} {
		slowest.Store(0)
		trouble.begin()
		both(trouble.name+": it is noticed", func(i int) bool { return c.Metric(t, i, "pointsman_redis_breaker_state", "") > 0 })
		before := []float64{local(0), local(1)}
		both(trouble.name+": requests go on without", func(i int) bool { return local(i) > before[i]+20 })
		t.Logf("redis %s: the slowest answer took %d ms", trouble.name, slowest.Load())
		trouble.end()
		both(trouble.name+": it is used again", func(i int) bool { return c.Metric(t, i, "pointsman_leases_in_step", "") == 1 })
		shared := []float64{c.Metric(t, 0, "pointsman_leases_reservations_total", `result="shared"`), c.Metric(t, 1, "pointsman_leases_reservations_total", `result="shared"`)}
		both(trouble.name+": requests go by it again", func(i int) bool {
			return c.Metric(t, i, "pointsman_leases_reservations_total", `result="shared"`) > shared[i]+20
		})
	}
	cancel()
	load.Wait()
	db := h.Client()
	kittest.Eventually(t, "nothing is in flight", func() bool { return len(counts(t, db)) == 0 })
	t.Logf("%d requests, none failed", done.Load())
}

// A16: maxRequestCount is per endpoint, over all routers; who finds all full gets 429.
func TestEndpointsHaveALimit(t *testing.T) {
	h := kittest.StartRedis(t)
	c := cluster.Start(t, cluster.Options{
		Servers: 2, Routers: 2, Plain: true, ConfigFile: pasted(t, h.Address, "global_least_request", "  maxRequestCount: 5\n"), RouterSets: patient,
		Server: func(_ int, cfg *modelserver.Config) { cfg.Faults.Freeze = true },
	})
	awaitShared(t, c)
	client := newClient(t)
	release := hold(t, c, client, 10, 0, 1)
	db := h.Client()
	kittest.Eventually(t, "both servers are full", func() bool { return sum(counts(t, db)) == 10 })
	for i := range c.Routers {
		a, err := cluster.Post(t.Context(), client, c.URL(i)+"/v1/chat/completions", body(99))
		if err != nil || a.Status != http.StatusTooManyRequests || !strings.Contains(string(a.Body), `"error"`) {
			t.Errorf("router %d: status %d, %v: %s", i+1, a.Status, err, a.Body)
		}
	}
	if got := counts(t, db); sum(got) != 10 {
		t.Errorf("in flight %v", got)
	}
	release()
	kittest.Eventually(t, "there is room", func() bool { return len(counts(t, db)) == 0 })
}

// B145: a server that fails at once has the fewest requests in flight, and does not
// attract everything.
func TestFastFailuresDoNotWin(t *testing.T) {
	h := kittest.StartRedis(t)
	c := cluster.Start(t, cluster.Options{
		Servers: 4, Plain: true, ConfigFile: pasted(t, h.Address, "global_least_request", ""), RouterSets: patient,
		Server: func(i int, cfg *modelserver.Config) {
			cfg.TimeScale = 5
			if i == 0 {
				cfg.Faults.ErrorProbability = .5
			}
		},
	})
	awaitShared(t, c)
	client := newClient(t)
	var load sync.WaitGroup
	var all, bad, failed atomic.Int64
	name := c.Servers[0].Address()
	for w := range 16 {
		load.Go(func() {
			for i := range int64(60) {
				a, err := cluster.Post(t.Context(), client, c.URL(0)+"/v1/chat/completions", body(i*16+int64(w)))
				if err != nil {
					t.Error(err)
					return
				}
				all.Add(1)
				if strings.Contains(a.Endpoint, name) {
					bad.Add(1)
				}
				if a.Status != http.StatusOK {
					failed.Add(1)
				}
			}
		})
	}
	load.Wait()
	t.Logf("%d requests, %d ended at the failing server, %d failed for the client", all.Load(), bad.Load(), failed.Load())
	if share := float64(bad.Load()) / float64(all.Load()); share > .25 {
		t.Errorf("the failing server got %.2f of the requests, more than its fair share", share)
	}
}

// B184: Redis that refuses us shows, and costs no request.
func TestRedisThatRefusesUsShows(t *testing.T) {
	h := kittest.StartRedis(t, "--requirepass", "right")
	c := cluster.Start(t, cluster.Options{Servers: 2, Plain: true, Server: fast, ConfigFile: pasted(t, h.Address, "global_least_request", "  password: wrong\n")})
	c.AwaitMetric(t, 0, "pointsman_redis_probes_total", `result="denied"`)
	a, err := cluster.Post(t.Context(), newClient(t), c.URL(0)+"/v1/chat/completions", body(1))
	if err != nil || a.Status != http.StatusOK {
		t.Errorf("status %d, %v", a.Status, err)
	}
	if c.Metric(t, 0, "pointsman_redis_connected", "") != 0 {
		t.Error("it is said to be connected")
	}
	resp, err := http.Get("http://" + c.Routers[0].Addr("admin") + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(string(page), "ready\nredis: "+h.Address+" is not used: ") {
		t.Errorf("readiness: status %d, %v: %s", resp.StatusCode, err, page)
	}
	if log := c.Routers[0].Log(); !strings.Contains(log, "cannot use redis") || strings.Contains(log, "wrong") {
		t.Errorf("the log does not tell of it, or tells the password:\n%s", log)
	}
}
