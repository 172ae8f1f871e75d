package discover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

const (
	// settle is how long a file must stay the same to be taken for complete.
	settle = 50 * time.Millisecond
	// maxSettle bounds how often it is read until it does.
	maxSettle = 20
	maxFile   = 16 << 20
)

var errEmpty = errors.New("holds neither endpoints nor dns; for no endpoints write \"endpoints: []\"")

// watch is a file of endpoints.
type watch struct {
	path     string
	interval time.Duration
	log      *slog.Logger
	read     func() ([]byte, error)

	seen   []byte // of the last read
	failed string // the last failure to read
}

func newWatch(path string, interval time.Duration, log *slog.Logger) *watch {
	return &watch{path: path, interval: interval, log: log, read: func() ([]byte, error) { return readFile(path) }}
}

// run calls changed with each new list and failed with each new reason why there is
// none, until ctx ends.
func (w *watch) run(ctx context.Context, changed func(*List), failed func(error)) {
	events, done := w.notifications()
	defer done()
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			// The directory may be busy with other files.
			if !pause(ctx, settle) {
				return
			}
		case <-ticker.C:
		}
		text, err := w.read()
		switch {
		case err != nil:
			if w.failed != err.Error() {
				w.failed = err.Error()
				failed(err)
			}
			continue
		case w.failed == "" && bytes.Equal(text, w.seen):
			continue
		}
		if text = w.settled(ctx, text); text == nil {
			continue
		}
		w.failed, w.seen = "", text
		list, err := parse(w.path, text)
		if err != nil {
			failed(err)
			continue
		}
		changed(list)
	}
}

// first reads the file at the start, when there is no older list to keep.
func (w *watch) first() (*List, error) {
	text, err := w.read()
	if err != nil {
		return nil, err
	}
	w.seen = text
	return parse(w.path, text)
}

// settled reads until the file stays the same. Nil means that it does not, or that it
// cannot be read any more; the next tick tries again.
func (w *watch) settled(ctx context.Context, text []byte) []byte {
	for range maxSettle {
		if !pause(ctx, settle) {
			return nil
		}
		again, err := w.read()
		if err != nil {
			return nil
		}
		if bytes.Equal(text, again) {
			return text
		}
		text = again
	}
	return nil
}

// pause waits for d. It returns false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("endpointsFile: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("endpointsFile: %w", err)
	case len(text) > maxFile:
		return nil, fmt.Errorf("endpointsFile: %s is larger than %d bytes", path, maxFile)
	}
	return text, nil
}

func parse(path string, text []byte) (*List, error) {
	list := &List{}
	if err := conf.Parse(path, text, list); err != nil {
		return nil, err
	}
	if list.Endpoints == nil && list.DNS == nil {
		return nil, fmt.Errorf("%s: %w", path, errEmpty)
	}
	return list, nil
}

// notifications tells that something in the file's directory changed: the file itself,
// or the link that it is reached by. Where the system cannot tell, polling has to do.
func (w *watch) notifications() (<-chan struct{}, func()) {
	n, err := fsnotify.NewWatcher()
	if err == nil {
		if err = n.Add(filepath.Dir(w.path)); err != nil {
			_ = n.Close() // never used
		}
	}
	if err != nil {
		w.log.Warn("changes of the endpoints file are not notified, it is polled", "file", w.path, "interval", w.interval, "error", err)
		return nil, func() {}
	}
	out := make(chan struct{}, 1)
	finished := make(chan struct{})
	tell := func() {
		select {
		case out <- struct{}{}:
		default:
		}
	}
	go func() {
		defer close(finished)
		for {
			select {
			case _, open := <-n.Events:
				if !open {
					return
				}
				tell()
			case _, open := <-n.Errors: // such as too many events: look, whatever it was
				if !open {
					return
				}
				tell()
			}
		}
	}()
	return out, func() {
		_ = n.Close() // what it holds is gone either way
		<-finished
	}
}
