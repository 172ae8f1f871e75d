package run

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// firstRequest is how long a connection may be without its first request when its server
// ends.
const firstRequest = 250 * time.Millisecond

// Shutdown returns what ends the server gracefully, in place of its Shutdown. That waits
// 5 s for each connection over which no request has come yet, and clients often have such:
// Go's dials anew for a request and then takes a connection that has become free
// meanwhile. Call it before the server serves.
func Shutdown(s *http.Server) func(context.Context) error {
	f := &freshConnections{of: make(map[net.Conn]bool)}
	s.ConnState = f.note
	return func(ctx context.Context) error {
		t := time.AfterFunc(firstRequest, f.close)
		defer t.Stop()
		return s.Shutdown(ctx)
	}
}

// freshConnections are those over which no request has come.
type freshConnections struct {
	mu     sync.Mutex
	of     map[net.Conn]bool
	closed bool
}

func (f *freshConnections) note(c net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state != http.StateNew {
		delete(f.of, c)
		return
	}
	if f.of[c] = true; f.closed {
		_ = c.Close()
	}
}

func (f *freshConnections) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for c := range f.of {
		_ = c.Close() // its server sees that
	}
}
