package load

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Result is what came of the requests that ended within a window.
type Result struct {
	// Window is how long it was.
	Window time.Duration
	// Completed were answered, and rightly.
	Completed int
	// Failed had no answer or a wrong one; Errors says why, by words, up to 20 kinds.
	Failed int
	Errors map[string]int
	// Latencies of those completed, ascending, from the intended start.
	Latencies []time.Duration
	// Lateness is how long after its intended time each was begun, ascending: the
	// generator's own share in the latencies. Empty for a closed loop.
	Lateness []time.Duration
}

// Quantile returns the q-quantile, 0 to 1, of ascending durations; 0 of none.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// recorder collects what ends while it is open.
type recorder struct {
	mu        sync.Mutex
	open      bool
	failed    int
	errors    map[string]int
	latencies []time.Duration
	lateness  []time.Duration
}

func (r *recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open, r.failed, r.errors = true, 0, make(map[string]int)
	r.latencies, r.lateness = nil, nil
}

func (r *recorder) end() Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = false
	res := Result{Failed: r.failed, Errors: maps.Clone(r.errors), Completed: len(r.latencies), Latencies: r.latencies, Lateness: r.lateness}
	slices.Sort(res.Latencies)
	slices.Sort(res.Lateness)
	return res
}

func (r *recorder) completed(latency, late time.Duration, timed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		return
	}
	r.latencies = append(r.latencies, latency)
	if timed {
		r.lateness = append(r.lateness, late)
	}
}

func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		return
	}
	r.failed++
	if text := err.Error(); r.errors[text] > 0 || len(r.errors) < 20 {
		r.errors[text]++
	}
}
