package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// Client is one process's connection to Redis. Its methods may be called from any
// goroutine.
type Client struct {
	cfg     Config
	redis   goredis.UniversalClient
	breaker breaker
	meters  *instruments
	log     *slog.Logger
	health  *telemetry.Health
	wake    chan struct{} // the breaker has opened

	mu      sync.Mutex
	started bool
	probes  []Call
}

// Call is what a caller does with Redis. ctx ends with the budget.
type Call func(ctx context.Context, r goredis.UniversalClient) error

// New returns a client that has connected to nothing: see [Client.Part]. Until that has
// reached Redis every call fails with [ErrAway]. It is an error if cfg is faulty, names no
// address, or names a file that cannot be read.
func New(cfg Config, tel *telemetry.Telemetry) (*Client, error) {
	if err := conf.Prefix("redis", cfg.Validate()); err != nil {
		return nil, err
	}
	if !cfg.Enabled() {
		return nil, fmt.Errorf("redis.address: missing")
	}
	if _, err := cfg.TLS.Client(); err != nil {
		return nil, conf.Prefix("redis", err)
	}
	meters, err := newInstruments(tel.Meter)
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, redis: connection(cfg), meters: meters, log: tel.Log, health: tel.Health, wake: make(chan struct{}, 1)}
	c.move(open)
	c.note(errors.New("not reached yet"))
	return c, nil
}

// Universal returns the go-redis client, for what has no budget. Commands by it pass the
// breaker by and are not counted; most callers want [Client.Do].
func (c *Client) Universal() goredis.UniversalClient { return c.redis }

// Budget returns the configured budget of a call.
func (c *Client) Budget() time.Duration { return c.cfg.Budget.D() }

// Location says where Redis is, for people. It holds no credentials.
func (c *Client) Location() string { return c.cfg.location() }

// Up reports whether calls go through now.
func (c *Client) Up() bool { return c.breaker.current() == closed }

// Do makes a call of at most budget; 0 is the configured one. op names it in metrics:
// one of a few constant words. While Redis is away it returns [ErrAway] at once and call is
// not run. Any other error may mean that Redis has done what was asked and only the answer
// was lost. redis.Nil is returned, but is no failure; neither is that the caller's own ctx
// is cancelled.
func (c *Client) Do(ctx context.Context, op string, budget time.Duration, call Call) error {
	if !c.Up() {
		c.meters.called(op, Away, 0)
		return ErrAway
	}
	if budget <= 0 {
		budget = c.cfg.Budget.D()
	}
	bounded, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	began := time.Now()
	err := call(bounded, c.redis)
	now := time.Now()
	kind := KindOf(err)
	if kind != "" && errors.Is(ctx.Err(), context.Canceled) {
		return err // the caller has gone; that says nothing about Redis
	}
	c.meters.called(op, kind, now.Sub(began))
	if kind == "" {
		c.breaker.success(now)
		return err
	}
	if c.breaker.failure(now) {
		c.opened(err)
	}
	return err
}

// opened tells that the breaker has opened, and has the part see to it.
func (c *Client) opened(err error) {
	c.meters.setState(open)
	c.meters.opened.Add(context.Background(), 1)
	c.note(err)
	c.log.Warn("redis does not answer as it should; going on without it until it does", "redis", c.cfg.location(), "kind", string(KindOf(err)), "error", err)
	select {
	case c.wake <- struct{}{}:
	default: // awake already
	}
}

// note shows beside the service's readiness that Redis is not used, and why; nil: it is.
func (c *Client) note(err error) {
	if err != nil {
		err = fmt.Errorf("%s is not used: %w", c.cfg.location(), err)
	}
	c.health.Note("redis", err)
}

// move sets the breaker's state.
func (c *Client) move(s state) {
	c.breaker.set(s)
	c.meters.setState(s)
}
