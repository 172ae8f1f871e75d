package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pointsman/pointsman/internal/kit/run"
)

const (
	pingEvery    = time.Second
	shortestWait = 50 * time.Millisecond
	longestWait  = 2 * time.Second
	repeatAfter  = 30 * time.Second // a log line about the same trouble
)

// OnProbe has f take part in finding out whether Redis can be used, each time that it
// could not: the breaker closes only if f returns nil. f runs within the budget, on the
// part's goroutine. Must be called before the part runs.
func (c *Client) OnProbe(f Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started {
		panic("redis: OnProbe must be called before Part runs")
	}
	c.probes = append(c.probes, f)
}

// Part returns the part that connects, watches and comes back. It is ready at once: nothing
// waits for Redis. It ends only when its context does, and closes all connections then. It
// may run once.
func (c *Client) Part() run.Part {
	return func(ctx context.Context, ready func()) error {
		c.mu.Lock()
		again := c.started
		c.started = true
		c.mu.Unlock()
		if again {
			return errors.New("the part of redis ran before")
		}
		defer func() {
			c.move(open)
			_ = c.redis.Close() // nothing is left to be done about it
		}()
		ready()
		for ctx.Err() == nil {
			if c.comeBack(ctx) {
				c.watch(ctx)
			}
		}
		return nil
	}
}

// comeBack tries until Redis can be used. It returns false if ctx ended before.
func (c *Client) comeBack(ctx context.Context) bool {
	wait := shortestWait
	var told string
	var toldAt time.Time
	for ctx.Err() == nil {
		c.move(halfOpen)
		err := c.probe(ctx)
		c.meters.probed(KindOf(err))
		if err == nil {
			c.drainWake()
			c.note(nil)
			c.move(closed)
			c.log.Info("connected to redis", "redis", c.cfg.location())
			return true
		}
		c.move(open)
		if ctx.Err() != nil {
			break
		}
		c.note(err)
		if kind := string(KindOf(err)); kind != told || time.Since(toldAt) >= repeatAfter {
			told, toldAt = kind, time.Now()
			c.log.Warn("cannot use redis; trying again until it can be", "redis", c.cfg.location(), "kind", kind, "error", err, "remedy", KindOf(err).remedy())
		}
		pause(ctx, wait)
		wait = min(2*wait, longestWait)
	}
	return false
}

// probe finds out whether Redis can be used. The first ping may have to connect, which may
// take the whole timeout; what comes after has the budget that requests have.
func (c *Client) probe(ctx context.Context) error {
	ping := func(ctx context.Context, r goredis.UniversalClient) error { return r.Ping(ctx).Err() }
	if err := c.within(ctx, c.cfg.Timeout.D(), ping); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	if err := c.within(ctx, c.cfg.Budget.D(), ping); err != nil {
		return fmt.Errorf("ping within the budget: %w", err)
	}
	for _, f := range c.probes { // no longer changes
		if err := c.within(ctx, c.cfg.Budget.D(), f); err != nil && !errors.Is(err, goredis.Nil) {
			return err
		}
	}
	return nil
}

func (c *Client) within(ctx context.Context, budget time.Duration, f Call) error {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	return f(ctx, c.redis)
}

// watch pings while the breaker is closed, so that requests need not be the first to
// notice.
func (c *Client) watch(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for c.Up() {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-tick.C:
			// Counted and noted by Do.
			_ = c.Do(ctx, "ping", 0, func(ctx context.Context, r goredis.UniversalClient) error { return r.Ping(ctx).Err() })
		}
	}
	pause(ctx, shortestWait) // everybody has lost it at the same moment
}

func (c *Client) drainWake() {
	select {
	case <-c.wake:
	default:
	}
}

// pause waits for between half of d and d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
