package redis

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	openAfter  = 3           // failures in a row
	openWindow = time.Second // or in so long
	openCalls  = 20          // of at least so many calls
	openShare  = 2           // every second failing
)

// state of the breaker, as in pointsman_redis_breaker_state.
type state int32

const (
	closed   state = iota // calls go through
	halfOpen              // the part tries whether they could
	open                  // none goes through
)

// breaker keeps calls away from a Redis that fails them. It opens by what calls tell and
// is closed by the part alone. Safe for concurrent use.
type breaker struct {
	state atomic.Int32

	mu            sync.Mutex
	row           int
	began         time.Time
	calls, failed int // since began
}

func (b *breaker) current() state { return state(b.state.Load()) }

// success notes a call that was answered.
func (b *breaker) success(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.row = 0
	b.count(now, 0)
}

// failure notes a call that failed. It returns true if that opened the breaker.
func (b *breaker) failure(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current() != closed {
		return false
	}
	b.row++
	b.count(now, 1)
	if b.row < openAfter && (b.calls < openCalls || b.failed*openShare < b.calls) {
		return false
	}
	b.state.Store(int32(open))
	return true
}

// count is called with mu held.
func (b *breaker) count(now time.Time, failed int) {
	if now.Sub(b.began) >= openWindow {
		b.began, b.calls, b.failed = now, 0, 0
	}
	b.calls++
	b.failed += failed
}

// set moves to another state, forgetting what calls told.
func (b *breaker) set(s state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.row, b.calls, b.failed = 0, 0, 0
	b.state.Store(int32(s))
}
