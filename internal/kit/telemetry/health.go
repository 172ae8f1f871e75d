package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Health is a set of named checks. A service is ready when all of them are ok; without checks it is.
// The zero value is ready for use. All methods may be called from any goroutine.
type Health struct {
	mu          sync.Mutex
	checks      map[string]error // the failing ones only
	notes       map[string]error
	subscribers []*subscriber
	calling     sync.Mutex // subscribers hear one change at a time, in order
}

type subscriber struct {
	f    func(ready bool)
	last bool
}

// Set sets the check name: nil is ok, an error is not ready, for that reason. The reason is shown to operators as it is.
func (h *Health) Set(name string, err error) {
	h.mu.Lock()
	if err == nil {
		delete(h.checks, name)
	} else {
		if h.checks == nil {
			h.checks = make(map[string]error)
		}
		h.checks[name] = err
	}
	h.mu.Unlock()
	h.tell()
}

// Ready tells whether all checks are ok, and if not, why: "check: reason", sorted by check.
func (h *Health) Ready() (bool, []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.checks) == 0 {
		return true, nil
	}
	return false, lines(h.checks)
}

// Note notes that the service does without something, and why; nil takes that back. It is shown beside readiness and has no
// part in it.
func (h *Health) Note(name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.notes, name)
		return
	}
	if h.notes == nil {
		h.notes = make(map[string]error)
	}
	h.notes[name] = err
}

// Notes tells what the service does without: "name: why", sorted by name.
func (h *Health) Notes() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return lines(h.notes)
}

func lines(of map[string]error) []string {
	out := make([]string, 0, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%s: %v", name, of[name]))
	}
	return out
}

// Subscribe calls f with the present state before it returns, and later whenever readiness changes: in order, one call at a
// time, on the goroutine that called Set. f must not call Set or Subscribe. A subscription lasts as long as the Health.
func (h *Health) Subscribe(f func(ready bool)) {
	h.calling.Lock()
	defer h.calling.Unlock()
	ready, _ := h.Ready()
	f(ready)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribers = append(h.subscribers, &subscriber{f, ready})
}

// tell calls the subscribers that have last heard something else than what is true now.
func (h *Health) tell() {
	h.calling.Lock()
	defer h.calling.Unlock()
	h.mu.Lock()
	ready := len(h.checks) == 0
	subscribers := h.subscribers
	h.mu.Unlock()
	for _, s := range subscribers {
		if s.last != ready {
			s.last = ready
			s.f(ready)
		}
	}
}
