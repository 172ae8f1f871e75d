package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Runner sends requests from Start to Stop.
type Runner struct {
	cfg     Config
	record  recorder
	next    atomic.Int64 // request number
	began   time.Time
	cancel  context.CancelFunc
	stop    chan struct{}
	running sync.WaitGroup
}

// Start begins to send. Call Stop at the end.
func Start(ctx context.Context, cfg Config) (*Runner, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	r := &Runner{cfg: cfg, stop: make(chan struct{})}
	ctx, r.cancel = context.WithCancel(ctx)
	var due chan time.Time // unbuffered: an arrival waits for a worker, and counts it
	if cfg.Rate > 0 {
		due = make(chan time.Time)
		r.running.Go(func() { r.arrivals(due) })
	}
	for range cfg.Concurrency {
		r.running.Go(func() { r.work(ctx, due) })
	}
	return r, nil
}

// Begin opens the window.
func (r *Runner) Begin() {
	r.record.begin()
	r.began = time.Now()
}

// End closes the window.
func (r *Runner) End() Result {
	window := time.Since(r.began)
	res := r.record.end()
	res.Window = window
	return res
}

// Stop lets what is under way end and returns then.
func (r *Runner) Stop() {
	close(r.stop)
	r.running.Wait()
	r.cancel()
}

// arrivals hands out the times of a Poisson process.
func (r *Runner) arrivals(due chan<- time.Time) {
	defer close(due)
	rng := rand.New(rand.NewPCG(r.cfg.Seed, 2)) //nolint:gosec // repeatable on purpose
	next := time.Now()
	for {
		next = next.Add(time.Duration(rng.ExpFloat64() / r.cfg.Rate * float64(time.Second)))
		if wait := time.Until(next); wait > 0 {
			select {
			case <-time.After(wait):
			case <-r.stop:
				return
			}
		}
		select {
		case due <- next:
		case <-r.stop:
			return
		}
	}
}

// work makes requests one after the other, each when it is due.
func (r *Runner) work(ctx context.Context, due <-chan time.Time) {
	for {
		var intended time.Time
		if due != nil {
			var more bool
			if intended, more = <-due; !more {
				return
			}
		} else {
			select {
			case <-r.stop:
				return
			default:
			}
		}
		r.one(ctx, intended)
	}
}

func (r *Runner) one(ctx context.Context, intended time.Time) {
	begun := time.Now()
	late := time.Duration(0)
	if intended.IsZero() {
		intended = begun
	} else {
		late = begun.Sub(intended)
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	after, err := r.cfg.Exchange(ctx, int(r.next.Add(1)))
	took := time.Since(intended)
	if err == nil && after != nil {
		err = after()
	}
	if err != nil {
		r.record.fail(err)
		return
	}
	r.record.completed(took, late, r.cfg.Rate > 0)
}
