package pins

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

// BenchmarkRedis looks prompts up that are known to Redis, and has them learned again, with
// the processor time that this takes of the server.
func BenchmarkRedis(b *testing.B) {
	for _, blocks := range []int{10, 100, 500} {
		b.Run(fmt.Sprintf("blocks=%d", blocks), func(b *testing.B) {
			server := kittest.StartRedis(b)
			r := server.Client()
			x, err := index.New(index.DefaultConfig())
			if err != nil {
				b.Fatal(err)
			}
			x.SetEndpoints(pods)
			cfg := redis.DefaultConfig()
			cfg.Address, cfg.Budget = server.Address, cfg.Timeout
			client, err := redis.New(cfg, telemetry.Discard())
			if err != nil {
				b.Fatal(err)
			}
			s, err := New(client, x, "pool", "indexer-1", 1800*time.Second, telemetry.Discard())
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error, 1)
			go func() { done <- client.Part()(ctx, func() {}) }()
			defer func() { cancel(); <-done }()
			kittest.Eventually(b, "connected", client.Up)

			chains := make([][]uint64, 64)
			for i := range chains {
				chains[i] = long(i, 0, blocks)
			}
			learn := func(n int) {
				for i := range n {
					s.write(ctx, learned{key, pods[i%3], chains[i%len(chains)]})
				}
			}
			learn(len(chains))
			ordinals, matched := []int32{0, 1, 2}, make([]uint32, 3)
			b.ReportAllocs()
			n, cpu := 0, -serverTime(b, r)
			for b.Loop() {
				s.Match(ctx, key, chains[n%len(chains)], ordinals, matched)
				n++
			}
			b.ReportMetric((cpu+serverTime(b, r))*1e6/float64(n), "redis-us/lookup")
			measure := func(unit string, before func()) {
				cpu, total := 0.0, 0
				for range 30 {
					before()
					cpu -= serverTime(b, r)
					learn(len(chains))
					cpu += serverTime(b, r)
					total += len(chains)
				}
				b.ReportMetric(cpu*1e6/float64(total), unit)
			}
			measure("redis-us/learned-anew", s.fresh.clear)
			// Each goes on by 4 blocks, as a conversation does.
			measure("redis-us/learned-on", func() {
				for i := range chains {
					chains[i] = append(chains[i], chains[i][:4]...)
					for j := range 4 {
						chains[i][len(chains[i])-4+j] = uint64(len(chains[i])*1000000 + i*1000 + j)
					}
				}
			})
			b.ReportMetric(float64(len(marks(nil, blocks))), "keys")
		})
	}
}

// serverTime is what the server has used of processors, in seconds.
func serverTime(b *testing.B, r *goredis.Client) (s float64) {
	text, err := r.Info(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for _, line := range strings.Fields(text) {
		name, value, _ := strings.Cut(line, ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			s += v
		}
	}
	return s
}
