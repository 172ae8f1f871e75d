package watch

import (
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// notifications tells that something in the file's directory changed: the file itself
// or a link that it is reached by. done ends it. With an error there are none, and the
// channel is nil.
func notifications(path string) (events <-chan struct{}, done func(), err error) {
	n, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, func() {}, err
	}
	if err := n.Add(filepath.Dir(path)); err != nil {
		_ = n.Close() // never used
		return nil, func() {}, err
	}
	out, finished := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(finished)
		for {
			var open bool
			select {
			case _, open = <-n.Events:
			case _, open = <-n.Errors: // such as too many events: look, whatever it was
			}
			if !open {
				return
			}
			select {
			case out <- struct{}{}:
			default: // a look is due already
			}
		}
	}()
	return out, func() {
		_ = n.Close() // what it holds is gone either way
		<-finished
	}, nil
}
