package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// DefaultStopTimeout is how long a part may take to stop. It is longer than the 10 s that a gRPC server
// gives its open calls.
const DefaultStopTimeout = 15 * time.Second

// Group runs parts together. Add all parts, then call Run once.
type Group struct {
	// StopTimeout bounds the wait for each part to stop. 0 means DefaultStopTimeout.
	StopTimeout time.Duration
	// OnReady is called once, when all parts are ready. It must not block. Nil is allowed.
	OnReady func()

	log   *slog.Logger
	parts []named
}

type named struct {
	name string
	part Part
}

// running is a part that was started.
type running struct {
	name   string
	cancel context.CancelFunc
	ready  chan struct{} // closed by the part's ready()
	done   chan struct{} // closed when the part has returned; err may be read then
	err    error
}

// NewGroup returns an empty group that logs to log (nil: nowhere).
func NewGroup(log *slog.Logger) *Group {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Group{StopTimeout: DefaultStopTimeout, log: log}
}

// Add adds a part. Parts start in the order they were added.
func (g *Group) Add(name string, p Part) {
	g.parts = append(g.parts, named{name, p})
}

// Run starts the parts, waits until ctx ends or one of them does, stops them in reverse order and returns what went
// wrong: nil after a clean stop, else the error of the part that ended first, joined with those of parts that failed
// to stop. Errors of parts are returned as they are; they name their own context.
func (g *Group) Run(ctx context.Context) error {
	ended := make(chan *running, len(g.parts))
	started := make([]*running, 0, len(g.parts))
	culprit := g.startAll(ctx, ended, &started)
	if culprit == nil && len(started) == len(g.parts) && ctx.Err() == nil {
		g.log.Debug("all parts are ready", "parts", len(started))
		if g.OnReady != nil {
			g.OnReady()
		}
	}
	if culprit == nil {
		select {
		case <-ctx.Done():
		case culprit = <-ended:
		}
	}
	var errs []error
	if culprit != nil {
		errs = append(errs, early(culprit))
	}
	for i := len(started) - 1; i >= 0; i-- {
		if r := started[i]; r != culprit {
			errs = append(errs, g.stop(r))
		}
	}
	return errors.Join(errs...)
}

// startAll starts the parts one after the other, until all are ready, ctx has ended or one of them has, which is returned.
func (g *Group) startAll(ctx context.Context, ended chan *running, started *[]*running) *running {
	for _, p := range g.parts {
		if ctx.Err() != nil {
			return nil
		}
		r := g.start(ctx, p, ended)
		*started = append(*started, r)
		select {
		case <-r.ready:
			g.log.Debug("part is ready", "part", r.name)
		case culprit := <-ended:
			return culprit
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

func (g *Group) start(ctx context.Context, p named, ended chan<- *running) *running {
	// The part must not see the group's context end: it stops when its turn has come.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{name: p.name, cancel: cancel, ready: make(chan struct{}), done: make(chan struct{})}
	ready := sync.OnceFunc(func() { close(r.ready) })
	go func() {
		defer func() {
			if v := recover(); v != nil {
				g.log.Error("part panicked", "part", p.name, "panic", PanicText(v), "stack", string(debug.Stack()))
				r.err = fmt.Errorf("%s panicked: %s; the stack is in the log", p.name, PanicText(v))
			}
			close(r.done)
			ended <- r
		}()
		r.err = p.part(own, ready)
	}()
	return r
}

// stop cancels a part and waits for it.
func (g *Group) stop(r *running) error {
	r.cancel()
	limit := g.StopTimeout
	if limit <= 0 {
		limit = DefaultStopTimeout
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		g.log.Warn("part does not stop", "part", r.name, "waited", limit)
		return fmt.Errorf("%s did not stop within %s", r.name, limit)
	}
	if onlyCanceled(r.err) {
		return nil
	}
	return r.err
}

// early is the error of a part that ended although nobody had stopped it.
func early(r *running) error {
	r.cancel()
	switch {
	case r.err == nil:
		return fmt.Errorf("%s ended by itself", r.name)
	case onlyCanceled(r.err):
		return fmt.Errorf("%s ended by itself: %w", r.name, r.err)
	}
	return r.err
}
