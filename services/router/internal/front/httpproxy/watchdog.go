package httpproxy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

var (
	errFirstByteTimeout = errors.New("the endpoint sent nothing in time")
	errIdleTimeout      = errors.New("the endpoint fell silent")
)

// watchdog cancels an attempt when the endpoint is silent for too long.
type watchdog struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	begun  atomic.Bool // the first byte has come
}

func newWatchdog(cancel context.CancelCauseFunc) *watchdog { return &watchdog{cancel: cancel} }

// watch allows d of silence from now on; 0 is for ever.
func (w *watchdog) watch(d time.Duration) {
	switch {
	case d <= 0:
	case w.timer == nil:
		w.timer = time.AfterFunc(d, w.fire)
	default:
		w.timer.Reset(d)
	}
}

// rest ends watching until the next watch.
func (w *watchdog) rest() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *watchdog) fire() {
	if w.begun.Load() {
		w.cancel(errIdleTimeout)
	} else {
		w.cancel(errFirstByteTimeout)
	}
}

// stop ends the attempt.
func (w *watchdog) stop() {
	w.rest()
	w.cancel(context.Canceled)
}
