package load

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Exchange makes one request and checks the answer. It returns when the figure of
// interest was reached; what must be done after that without being timed is in after,
// which may be nil.
type Exchange func(ctx context.Context, request int) (after func() error, err error)

// Spread asks several in turn.
func Spread(all []Exchange) Exchange {
	return func(ctx context.Context, request int) (func() error, error) {
		return all[request%len(all)](ctx, request)
	}
}

// Config is how requests are sent.
type Config struct {
	// Exchange makes a request. It is called from many goroutines. REQUIRED.
	Exchange Exchange
	// Concurrency is how many requests are under way in a closed loop, and at most in an
	// open one: above that they wait, which counts. Default 64.
	Concurrency int
	// Rate is the mean number of requests begun per second. Zero: a closed loop.
	Rate float64
	// Timeout ends one request as failed. Default 10 s.
	Timeout time.Duration
	// Seed decides the times of an open loop.
	Seed uint64
}

func (c *Config) complete() error {
	if c.Exchange == nil {
		return errors.New("load: no exchange")
	}
	if c.Rate < 0 || c.Concurrency < 0 || c.Timeout < 0 {
		return fmt.Errorf("load: rate %v, concurrency %d and timeout %v must not be negative", c.Rate, c.Concurrency, c.Timeout)
	}
	if c.Concurrency == 0 {
		c.Concurrency = 64
		if c.Rate > 0 {
			c.Concurrency = 1024
		}
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	return nil
}
