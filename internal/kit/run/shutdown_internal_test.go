package run

import (
	"net"
	"net/http"
	"testing"
	"time"
)

// Connections without a request are closed when their time is over, and those that come
// then; those with one are left to their server.
func TestFreshConnections(t *testing.T) {
	f := &freshConnections{of: make(map[net.Conn]bool)}
	open := make(map[string]net.Conn)
	connect := func(name string, states ...http.ConnState) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
		for _, s := range states {
			f.note(ours, s)
		}
		open[name] = ours
	}
	connect("unused", http.StateNew)
	connect("active", http.StateNew, http.StateActive)
	connect("idle", http.StateNew, http.StateActive, http.StateIdle)
	connect("gone", http.StateNew, http.StateClosed)
	if len(f.of) != 1 {
		t.Errorf("%d connections are taken for unused, want 1", len(f.of))
	}
	f.close()
	connect("late", http.StateNew)
	for name, c := range open {
		closed := c.SetDeadline(time.Time{}) != nil
		if want := name == "unused" || name == "late"; closed != want {
			t.Errorf("%s: closed is %v, want %v", name, closed, want)
		}
	}
}
