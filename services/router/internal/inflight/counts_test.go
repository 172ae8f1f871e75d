package inflight

import (
	"context"
	"errors"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/pick"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(p route.Picker) *route.Config {
	return &route.Config{Profiles: []*route.Profile{{Picker: p}}}
}

func begin(t *testing.T, part run.Part) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx, func() {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestReserve(t *testing.T) {
	server := miniredis.RunT(t)
	cfg, tel := DefaultConfig(), telemetry.Discard()
	cfg.Redis.Address, cfg.Redis.Budget = server.Addr(), 40*cfg.Redis.Budget
	c, err := New(cfg, "p", "router-1", tel)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, c.ClientPart())
	begin(t, c.Part())
	ids := []roster.ID{"a", "b"}

	// B204: an address of Redis alone changes nothing.
	c.Use(config(pick.NewMaxScore("max", 1)))
	kittest.Eventually(t, "redis is reached", func() bool { return tel.Value("pointsman_redis_connected") == 1 })
	c.Adopt("a").Release()
	if _, _, err := c.Reserve(t.Context(), ids, 0, false); err == nil {
		t.Error("reserved although nobody asked for it")
	}
	if keys := server.Keys(); len(keys) != 0 {
		t.Errorf("keys %v", keys)
	}

	c.Use(config(pick.NewGlobalLeastRequest("global", pick.GlobalLeastRequestConfig{})))
	kittest.Eventually(t, "counts are shared", func() bool { return c.leases.InStep() })
	adopted := c.Adopt("a")
	at, place, err := c.Reserve(t.Context(), ids, 1, false)
	if err != nil || at != 1 {
		t.Fatalf("reserved %d, %v", at, err)
	}
	if _, _, err := c.Reserve(t.Context(), ids, 1, false); !errors.Is(err, route.ErrShed) {
		t.Errorf("all are full: %v", err)
	}
	if got := server.HGet("pointsman:{p}:inflight", "b"); got != "1" {
		t.Errorf("b has %q", got)
	}
	table, err := roster.NewTable([]roster.Endpoint{{ID: "b", Host: "h", Port: 1}})
	if err != nil {
		t.Fatal(err)
	}
	c.Retain(nil, table)
	kittest.Eventually(t, "who has left is not counted", func() bool { return server.HGet("pointsman:{p}:inflight", "a") == "" })
	adopted.Release()
	place.Release()
	kittest.Eventually(t, "nothing is counted", func() bool { return server.HGet("pointsman:{p}:inflight", "b") == "" })

	server.SetError("READONLY for the test")
	if _, _, err := c.Reserve(t.Context(), ids, 1, false); err == nil || errors.Is(err, route.ErrShed) || redis.KindOf(err) != redis.ReadOnly {
		t.Errorf("a Redis that takes no writes: %v", err)
	}
	server.SetError("")
}

func TestConfig(t *testing.T) {
	cfg := DefaultConfig()
	if err := conf.Parse("test", []byte("{address: 'h:1', leaseTTL: 5s, budget: 1ms}"), &cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Redis.Address != "h:1" || cfg.Counter.TTL.String() != "5s" {
		t.Errorf("%+v", cfg)
	}
	if err := conf.Parse("test", []byte("{address: h, leaseTTL: 1ms}"), &cfg); err == nil {
		t.Error("two faults, no error")
	}
}
