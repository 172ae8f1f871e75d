package quarantine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// Config is how long endpoints stay out.
type Config struct {
	// First is how long an endpoint is out after one failure. Default 1 s. Raise it
	// if endpoints take longer to restart and clients see the retries.
	First time.Duration
	// Longest is what doubling ends at. Default 30 s. It bounds how long a pool takes
	// to use an endpoint that has come back.
	Longest time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{First: time.Second, Longest: 30 * time.Second} }

// Validate returns all faults.
func (c Config) Validate() error {
	var faults []error
	if c.First <= 0 {
		faults = append(faults, fmt.Errorf("first quarantine %v is not above 0", c.First))
	}
	if c.Longest < c.First {
		faults = append(faults, fmt.Errorf("longest quarantine %v is below the first, %v", c.Longest, c.First))
	}
	return errors.Join(faults...)
}

// forgetAfter is how long after its quarantine an endpoint that was not tried again
// still counts as failing in a row.
const forgetAfter = 5 * time.Minute

// How an endpoint is judged after a failure: by a moving average (EWMA) of how its
// requests go since, in which each weighs so much, until it is below what is forgiven.
// One failure is forgiven after 7 successes.
const (
	weight   = 0.2
	forgiven = 0.05
)

// Quarantine is the endpoints that failed lately. Safe for concurrent use.
type Quarantine struct {
	cfg   Config
	clock func() int64
	load  func(roster.ID) int64 // nil: nobody is limited

	mu      sync.Mutex // serialises writers
	current atomic.Pointer[state]
}

// state is immutable; writers replace it. Nil stands for nobody.
type state struct {
	entries map[roster.ID]entry
	ids     []roster.ID
}

type entry struct {
	row    int     // failures in a row
	level  int     // failures since it was last forgiven
	rate   float64 // moving average of failing
	good   int64   // successes since it was last out
	until  int64   // on the clock
	reason string
}

// allowance is how many requests an endpoint may have at a time after its quarantine: one,
// and two more for each that went well.
func (e *entry) allowance() int64 { return 1 + 2*e.good }

// New returns an empty Quarantine. clock is the roster's, in ns.
func New(cfg Config, clock func() int64) (*Quarantine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Quarantine{cfg: cfg, clock: clock}, nil
}

// Limit has an endpoint that is back from quarantine have few requests at a time until it
// has proved itself: an endpoint that fails fast is always empty, and whoever goes by
// load would send it everything. load returns the requests in flight on an endpoint. Must
// be called before anything else.
func (q *Quarantine) Limit(load func(roster.ID) int64) { q.load = load }

// Failed notes that the endpoint could not be reached or failed before its first
// byte, and why. Failures of requests that were under way when it was put out do not
// count again: a hundred requests that fail together are one failure.
func (q *Quarantine) Failed(id roster.ID, reason string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock()
	entries := q.copy(now)
	e := entries[id]
	if now < e.until {
		return
	}
	e.row++
	e.level++
	e.rate += weight * (1 - e.rate)
	e.good = 0
	out := q.cfg.First
	for i := 1; i < e.level && out < q.cfg.Longest; i++ {
		out *= 2
	}
	e.until = now + int64(min(out, q.cfg.Longest))
	if reason == "" {
		reason = "it failed"
	}
	e.reason = reason
	switch {
	case e.row > 1:
		e.reason = fmt.Sprintf("%s (%d failures in a row)", reason, e.row)
	case e.level > 1:
		e.reason = fmt.Sprintf("%s (%d failures lately)", reason, e.level)
	}
	entries[id] = e
	q.replace(entries)
}

// Succeeded notes that the endpoint answered, which makes its failures count less. While it is out this changes nothing:
// what still comes from an endpoint that is shutting down is no sign that it takes
// new requests.
func (q *Quarantine) Succeeded(id roster.ID) {
	st := q.current.Load()
	if st == nil {
		return
	}
	if e, there := st.entries[id]; !there || q.clock() < e.until {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock()
	entries := q.copy(now)
	e, there := entries[id]
	if !there || now < e.until {
		return
	}
	e.row = 0
	e.good++
	if e.rate *= 1 - weight; e.rate < forgiven {
		delete(entries, id)
	} else {
		entries[id] = e
	}
	q.replace(entries)
}

// Retain forgets the endpoints that are not in the table. It is made for
// roster.OnTable.
func (q *Quarantine) Retain(_, table *roster.Table) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.current.Load() == nil {
		return
	}
	entries := q.copy(q.clock())
	maps.DeleteFunc(entries, func(id roster.ID, _ entry) bool {
		_, there := table.Position(id)
		return !there
	})
	q.replace(entries)
}

// Suspects implements route.Quarantine.
func (q *Quarantine) Suspects() []roster.ID {
	st := q.current.Load()
	if st == nil {
		return nil
	}
	return st.ids
}

// Reason implements route.Quarantine.
func (q *Quarantine) Reason(id roster.ID, now int64) string {
	st := q.current.Load()
	if st == nil {
		return ""
	}
	e, there := st.entries[id]
	switch {
	case !there:
		return ""
	case now < e.until:
		return e.reason
	case q.load != nil && q.load(id) >= e.allowance():
		return fmt.Sprintf("has the %d requests at a time that it may have after: %s", e.allowance(), e.reason)
	}
	return ""
}

// Out returns how many endpoints are not to be picked now.
func (q *Quarantine) Out() int {
	now, n := q.clock(), 0
	for _, id := range q.Suspects() {
		if q.Reason(id, now) != "" {
			n++
		}
	}
	return n
}

// copy returns the entries to be changed, less those that nothing was heard of for
// long.
func (q *Quarantine) copy(now int64) map[roster.ID]entry {
	entries := make(map[roster.ID]entry)
	if st := q.current.Load(); st != nil {
		for id, e := range st.entries {
			if now-e.until < int64(forgetAfter) {
				entries[id] = e
			}
		}
	}
	return entries
}

func (q *Quarantine) replace(entries map[roster.ID]entry) {
	if len(entries) == 0 {
		q.current.Store(nil)
		return
	}
	q.current.Store(&state{entries: entries, ids: slices.Sorted(maps.Keys(entries))})
}
