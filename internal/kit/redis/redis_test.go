package redis

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a client's part until the test ends.
func start(t *testing.T, c *Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Part()(ctx, func() {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("part: %v", err)
		}
	})
}

func TestCallsGoThroughOnceRedisIsReached(t *testing.T) {
	server := miniredis.RunT(t)
	cfg := DefaultConfig()
	cfg.Address = server.Addr()
	tel := telemetry.Discard()
	c, err := New(cfg, tel)
	if err != nil {
		t.Fatal(err)
	}
	set := func(ctx context.Context, r goredis.UniversalClient) error {
		return r.Set(ctx, "k", "v", time.Minute).Err()
	}
	if err := c.Do(t.Context(), "test", 0, set); KindOf(err) != Away {
		t.Errorf("before the part runs: %v", err)
	}
	start(t, c)
	kittest.Eventually(t, "redis is reached", c.Up)
	if err := c.Do(t.Context(), "test", 0, set); err != nil {
		t.Error(err)
	}
	if got, _ := server.Get("k"); got != "v" {
		t.Errorf("k = %q", got)
	}
	if got := tel.Value("pointsman_redis_calls_total", "op", "test", "result", "ok"); got != 1 {
		t.Errorf("ok calls = %v", got)
	}
}
