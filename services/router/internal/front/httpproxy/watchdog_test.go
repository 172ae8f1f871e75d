package httpproxy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// How long an endpoint may be silent: others' work is not its time, and after the first
// byte another limit holds.
func TestWatchdog(t *testing.T) {
	const first = time.Minute
	wait := time.Sleep // in virtual time
	for name, c := range map[string]struct {
		does func(w *watchdog)
		want error
	}{
		"silent":                   {func(*watchdog) { wait(2 * first) }, errFirstByteTimeout},
		"in time":                  {func(w *watchdog) { wait(first / 2); w.begins(); wait(9 * first) }, nil},
		"others are long about it": {func(w *watchdog) { w.pause(); wait(9 * first) }, nil},
		"silent after that":        {func(w *watchdog) { w.pause(); wait(9 * first); w.resume(); wait(2 * first) }, errFirstByteTimeout},
		"each has its own time": {func(w *watchdog) {
			w.pause()
			wait(9 * first)
			w.resume()
			wait(first / 2)
			w.begins()
			wait(9 * first)
		}, nil},
		"others, again": {func(w *watchdog) {
			w.pause()
			w.resume()
			wait(first / 2)
			w.pause()
			wait(first)
			w.resume()
			wait(first / 2)
		}, nil},
		"it begins before others end": {func(w *watchdog) { w.pause(); w.begins(); w.resume(); wait(9 * first) }, nil},
		"silent within":               {func(w *watchdog) { w.begins(); w.watch(first); wait(2 * first) }, errIdleTimeout},
		"silent within, with others":  {func(w *watchdog) { w.pause(); w.begins(); w.watch(first); wait(2 * first) }, errIdleTimeout},
		"taken":                       {func(w *watchdog) { w.begins(); w.watch(first); w.sated(); wait(9 * first) }, nil},
		"others end after the end":    {func(w *watchdog) { w.pause(); w.stop(); w.resume(); wait(9 * first) }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				w := newWatchdog(cancel, first)
				defer w.stop()
				c.does(w)
				synctest.Wait()
				if got := context.Cause(ctx); !errors.Is(got, c.want) {
					t.Errorf("%v, want %v", got, c.want)
				}
			})
		})
	}
	w := newWatchdog(func(error) { t.Error("for ever is over") }, 0)
	w.pause()
	w.resume()
	w.begins()
}
