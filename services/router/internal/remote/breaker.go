package remote

import (
	"sync"
	"sync/atomic"
	"time"
)

// breakerConfig is when a breaker opens and for how long.
type breakerConfig struct {
	failures  int           // so many failures in a row,
	spell     time.Duration // over at least so long, open it
	window    time.Duration // and so do two windows in a row
	minCalls  int           // of at least so many calls each
	ratio     float64       // of which such a share failed
	pause     time.Duration // first time that it stays open; doubles each time
	longPause time.Duration // up to this
}

// defaultBreaker opens after half a second without any success at the default
// timeout, or two seconds of every other call failing. The spell keeps one stall of
// this very process, in which a burst of calls is late together, from looking like a
// dead scorer.
func defaultBreaker() breakerConfig {
	return breakerConfig{
		failures: 5, spell: 200 * time.Millisecond,
		window: time.Second, minCalls: 10, ratio: 0.5,
		pause: time.Second, longPause: 30 * time.Second,
	}
}

// breakerState is the state of a breaker.
type breakerState int32

const (
	closed   breakerState = iota // calls go through
	halfOpen                     // one call is out as a probe
	open                         // no calls go through
)

func (s breakerState) String() string {
	return [...]string{"closed", "half-open", "open"}[s]
}

// breaker keeps calls away from a replica that fails them. Safe for concurrent use.
type breaker struct {
	cfg   breakerConfig
	state atomic.Int32

	mu           sync.Mutex
	row          int       // failures since the last success
	rowBegan     time.Time // the first of them
	before, this window    // the last two windows
	until        time.Time // when open: the next probe
	pause        time.Duration
	probe        uint64 // the call that is the probe
}

type window struct {
	began         time.Time
	calls, failed int
}

func (w *window) bad(cfg *breakerConfig) bool {
	return w.calls >= cfg.minCalls && float64(w.failed) >= cfg.ratio*float64(w.calls)
}

func newBreaker(cfg breakerConfig) *breaker { return &breaker{cfg: cfg, pause: cfg.pause} }

// current returns the state.
func (b *breaker) current() breakerState { return breakerState(b.state.Load()) }

// admit says whether call id may go out. When a probe is due, the first to ask is it.
func (b *breaker) admit(id uint64, now time.Time) bool {
	if b.current() == closed {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.current() == closed:
		return true
	case b.current() == open && !now.Before(b.until):
		b.state.Store(int32(halfOpen))
		b.probe = id
		return true
	}
	return false
}

// success notes that call id was answered. It returns true if that closed the breaker.
func (b *breaker) success(id uint64, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.current() {
	case closed:
		b.row = 0
		b.count(false, now)
	case halfOpen:
		if id == b.probe {
			b.close()
			return true
		}
	}
	return false
}

// failure notes that call id failed or was late. It returns true if that opened the
// breaker.
func (b *breaker) failure(id uint64, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.current() {
	case closed:
		if b.row == 0 {
			b.rowBegan = now
		}
		b.row++
		b.count(true, now)
		dead := b.row >= b.cfg.failures && now.Sub(b.rowBegan) >= b.cfg.spell
		poor := b.this.bad(&b.cfg) && b.before.bad(&b.cfg)
		if dead || poor {
			b.open(now)
			return true
		}
	case halfOpen:
		if id == b.probe {
			b.pause = min(2*b.pause, b.cfg.longPause)
			b.open(now)
		}
	}
	return false
}

// forget notes that nobody will know how call id would have ended. Its turn as a
// probe goes to the next call.
func (b *breaker) forget(id uint64) {
	if b.current() != halfOpen {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current() == halfOpen && id == b.probe {
		b.state.Store(int32(open)) // until has passed, so a probe is due
	}
}

// reset closes the breaker: what is at the other end is new.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.close()
}

func (b *breaker) open(now time.Time) {
	b.state.Store(int32(open))
	b.until = now.Add(b.pause)
}

func (b *breaker) close() {
	b.state.Store(int32(closed))
	b.row, b.before, b.this, b.pause = 0, window{}, window{}, b.cfg.pause
}

// count counts a call in the window that now is in.
func (b *breaker) count(failed bool, now time.Time) {
	switch age := now.Sub(b.this.began); {
	case age >= 2*b.cfg.window:
		b.before, b.this = window{}, window{began: now}
	case age >= b.cfg.window:
		b.before, b.this = b.this, window{began: now}
	}
	b.this.calls++
	if failed {
		b.this.failed++
	}
}
