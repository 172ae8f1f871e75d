package redis

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// sample is one decision of a router.
type sample struct {
	at      time.Time
	elapsed time.Duration
}

// watcher collects how long routers take to decide.
type watcher struct {
	mu      sync.Mutex
	samples []sample
	dropped uint64
}

func (w *watcher) watch(ctx context.Context, b *testing.B, c routerv1.RouterServiceClient) func() {
	stream, err := c.WatchDecisions(ctx, &routerv1.WatchDecisionsRequest{})
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return // ctx has ended
			}
			d := m.GetDecision()
			w.mu.Lock()
			w.dropped += m.GetDroppedCount()
			w.samples = append(w.samples, sample{d.GetDecideTime().AsTime(), d.GetElapsed().AsDuration()})
			w.mu.Unlock()
		}
	}
}

// between returns the 50th and 99th percentile and the greatest of the decisions made in a
// span of time, in ms, and how many there are.
func (w *watcher) between(from, to time.Time) (p50, p99, most float64, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []time.Duration
	for _, s := range w.samples {
		if s.at.After(from) && s.at.Before(to) {
			all = append(all, s.elapsed)
		}
	}
	if len(all) == 0 {
		return 0, 0, 0, 0
	}
	slices.Sort(all)
	ms := func(share float64) float64 {
		return float64(all[min(int(share*float64(len(all))), len(all)-1)].Microseconds()) / 1e3
	}
	return ms(.5), ms(.99), ms(1), len(all)
}

// BenchmarkRedisGoes measures what requests feel when Redis is killed, halted or pauses writes: how
// long routers take to decide before that, in the first half second of it, and from then
// on, when the breaker is open. Each run takes some 15 s; none of its requests may fail.
func BenchmarkRedisGoes(b *testing.B) {
	paused := func(h *kittest.RedisHandle) {
		// Connections stay open and pings are answered; writes are not, as in a failover.
		if err := h.Client().Do(context.Background(), "CLIENT", "PAUSE", 4000, "WRITE").Err(); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name       string
		begin, end func(h *kittest.RedisHandle)
	}{
		{"killed", (*kittest.RedisHandle).Kill, (*kittest.RedisHandle).Restart},
		{"halted", (*kittest.RedisHandle).Halt, (*kittest.RedisHandle).Resume},
		{"paused", paused, func(*kittest.RedisHandle) {}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				goes(b, c.begin, c.end)
			}
		})
	}
}

func goes(b *testing.B, begin, end func(h *kittest.RedisHandle)) {
	b.Helper()
	const first, long = 500 * time.Millisecond, 4 * time.Second
	h := kittest.StartRedis(b)
	c := cluster.Start(b, cluster.Options{
		Servers: 4, Routers: 2, Plain: true, ConfigFile: pasted(b, h.Address, "global_least_request", ""),
		Server: func(_ int, cfg *modelserver.Config) { cfg.TimeScale = 50 },
	})
	awaitShared(b, c)
	ctx, cancel := context.WithCancel(b.Context())
	var background sync.WaitGroup
	w := &watcher{}
	for i := range c.Routers {
		background.Go(w.watch(ctx, b, c.Router(b, i)))
	}
	client := newClient(b)
	var done, failed atomic.Int64
	for n := range 16 {
		background.Go(func() {
			for i := int64(0); ctx.Err() == nil; i++ {
				a, err := cluster.Post(context.WithoutCancel(ctx), client, c.URL(n%2)+"/v1/chat/completions", body(i*16+int64(n)))
				if err != nil || a.Status != http.StatusOK {
					failed.Add(1)
				}
				done.Add(1)
				time.Sleep(40 * time.Millisecond)
			}
		})
	}
	time.Sleep(long)
	gone := time.Now()
	begin(h)
	time.Sleep(long)
	back := time.Now()
	end(h)
	for i := range c.Routers {
		kittest.Eventually(b, "the counts are shared again", func() bool { return c.Metric(b, i, "pointsman_leases_in_step", "") == 1 })
	}
	again := time.Since(back)
	cancel()
	background.Wait()
	for _, span := range []struct {
		name     string
		from, to time.Time
	}{{"before", gone.Add(-long), gone}, {"first", gone, gone.Add(first)}, {"open", gone.Add(first), back}} {
		p50, p99, most, n := w.between(span.from, span.to)
		b.ReportMetric(p50, span.name+"-p50-ms")
		b.ReportMetric(p99, span.name+"-p99-ms")
		b.ReportMetric(most, span.name+"-most-ms")
		b.ReportMetric(float64(n), span.name+"-decisions")
	}
	b.ReportMetric(again.Seconds()*1e3, "back-ms")
	b.ReportMetric(float64(failed.Load()), "failed")
	b.ReportMetric(float64(done.Load()), "requests")
	if w.dropped > 0 {
		b.Logf("%d decisions were not seen", w.dropped)
	}
	if failed.Load() > 0 {
		b.Errorf("%d of %d requests failed", failed.Load(), done.Load())
	}
}
