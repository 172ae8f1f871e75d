package counter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/redis"
)

// cpu returns the processor time that a server's main thread has used, in seconds. Its
// user and system parts are added up.
func cpu(b *testing.B, c *goredis.Client) float64 {
	b.Helper()
	text, err := c.Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	total := 0.0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys_main_thread" || name == "used_cpu_user_main_thread" {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			total += v
		}
	}
	if total == 0 {
		b.Fatalf("no processor time in %q", text)
	}
	return total
}

// spent returns the time that a server spent within scripts, in seconds, and the calls.
func spent(b *testing.B, c *goredis.Client) float64 {
	b.Helper()
	m, err := c.InfoMap(context.Background(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	total := 0.0
	for _, name := range []string{"cmdstat_evalsha", "cmdstat_eval"} {
		_, after, found := strings.Cut(m["Commandstats"][name], "usec=")
		if !found {
			continue
		}
		usec, _, _ := strings.Cut(after, ",")
		v, err := strconv.ParseFloat(usec, 64)
		if err != nil {
			b.Fatal(err)
		}
		total += v / 1e6
	}
	return total
}

// BenchmarkRedis measures a pick and its release: what they cost a real redis-server, and
// how many there are a second. redis-µs/pick is the time within scripts, cpu-µs/pick all of
// the server's processor time, reading and writing of the network included.
func BenchmarkRedis(b *testing.B) {
	for _, endpoints := range []int{10, 100, 500} {
		for _, workers := range []int{1, 32} {
			b.Run(fmt.Sprintf("endpoints=%d/concurrent=%d", endpoints, workers), func(b *testing.B) {
				h := kittest.StartRedis(b)
				r := newRemote(b, "bench", 30*time.Second, func(c *redis.Config) { c.Address = h.Address })
				r.awaitInStep(b)
				ids := make([]string, endpoints)
				for i := range ids { // as long as the uids of pods, with a rank
					ids[i] = fmt.Sprintf("%08x-9a4c-4e0f-8b1d-%012x-0", rand.Uint32(), i)
				}
				for range 4 * endpoints {
					r.Adopt(ids[rand.IntN(endpoints)])
				}
				db := h.Client()
				failed := make([]int, workers)
				work := make(chan struct{})
				done := make(chan struct{})
				for w := range workers {
					go func() {
						defer func() { done <- struct{}{} }()
						for range work {
							if _, _, l, err := r.Reserve(context.Background(), Request{Candidates: ids}); err == nil {
								l.Release()
							} else {
								failed[w]++
							}
						}
					}()
				}
				cpu0, spent0 := cpu(b, db), spent(b, db)
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					work <- struct{}{}
					n++
				}
				close(work)
				all := 0
				for w := range workers {
					<-done
					all += failed[w]
				}
				b.ReportMetric((cpu(b, db)-cpu0)/float64(n)*1e6, "cpu-µs/pick")
				b.ReportMetric((spent(b, db)-spent0)/float64(n)*1e6, "redis-µs/pick")
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "picks/s")
				if all > n/100 {
					b.Errorf("%d of %d picks failed", all, n)
				}
			})
		}
	}
}
