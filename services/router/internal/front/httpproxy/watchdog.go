package httpproxy

import (
	"context"
	"errors"
	"sync"
	"time"
)

var (
	errFirstByteTimeout = errors.New("the endpoint sent nothing in time")
	errIdleTimeout      = errors.New("the endpoint fell silent")
)

// watchdog cancels an attempt when the endpoint is silent for too long. Those who do a
// stage's work for the attempt have time-outs of their own: while they are at it the
// endpoint is not watched, nor before its first byte does their time count.
type watchdog struct {
	cancel context.CancelCauseFunc
	first  time.Duration // silence that is allowed before the first byte; 0 is for ever

	mu      sync.Mutex
	timer   *time.Timer
	begun   bool // the first byte has come
	others  bool // others are at work
	stopped bool
}

func newWatchdog(cancel context.CancelCauseFunc, first time.Duration) *watchdog {
	w := &watchdog{cancel: cancel, first: first}
	w.allow(first)
	return w
}

// allow allows d of silence from now on. Call it with mu held, or before anybody else
// has the watchdog.
func (w *watchdog) allow(d time.Duration) {
	switch {
	case d <= 0 || w.stopped:
	case w.timer == nil:
		w.timer = time.AfterFunc(d, w.fire)
	default:
		w.timer.Reset(d)
	}
}

// pause says that others are at work, resume that they are done.
func (w *watchdog) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.others = true; !w.begun {
		w.rest()
	}
}

func (w *watchdog) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.others = false; !w.begun {
		w.allow(w.first)
	}
}

// begins says that the first byte has come.
func (w *watchdog) begins() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
	w.rest()
}

// watch allows d of silence within the answer from now on; 0 is for ever. sated ends that.
func (w *watchdog) watch(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.allow(d)
}

func (w *watchdog) sated() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest()
}

func (w *watchdog) rest() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *watchdog) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.begun:
		w.cancel(errIdleTimeout)
	case !w.others: // else it had fired already when they began
		w.cancel(errFirstByteTimeout)
	}
}

// stop ends the attempt.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.rest()
	w.cancel(context.Canceled)
}
