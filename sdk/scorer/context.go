package scorer

import (
	"context"
	"sync"
	"time"
)

type traceparentKey struct{}

// Traceparent returns the W3C trace context of a call that came on a stream;
// empty if there is none. Unary calls carry it in their gRPC metadata.
func Traceparent(ctx context.Context) string {
	s, _ := ctx.Value(traceparentKey{}).(string)
	return s
}

// callContext is the context of one call on a stream. It costs a timer only if
// somebody waits for Done: most Types are over before they would look.
type callContext struct {
	context.Context // the stream's
	deadline        time.Time
	traceparent     string

	mu     sync.Mutex
	timed  context.Context // nil: nobody has asked for Done
	cancel context.CancelFunc
	ended  bool
}

// Deadline implements context.Context.
func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadline(c.Context, c.deadline)
		if c.ended {
			c.cancel()
		}
	}
	return c.timed.Done()
}

// Err implements context.Context.
func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed != nil {
		return c.timed.Err()
	}
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.ended {
		return context.Canceled
	}
	if !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	if _, ok := key.(traceparentKey); ok {
		return c.traceparent
	}
	return c.Context.Value(key)
}

// end is called when the call is over.
func (c *callContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}
