package rpc

import "sync"

// once is a list of functions that are called one time.
type once struct {
	mu    sync.Mutex
	funcs []func()
	done  bool
}

// add keeps f for call, or calls it at once if that has been.
func (o *once) add(f func()) {
	o.mu.Lock()
	done := o.done
	if !done {
		o.funcs = append(o.funcs, f)
	}
	o.mu.Unlock()
	if done {
		f()
	}
}

func (o *once) call() {
	o.mu.Lock()
	funcs := o.funcs
	o.funcs, o.done = nil, true
	o.mu.Unlock()
	for _, f := range funcs {
		f()
	}
}
