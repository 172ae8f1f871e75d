package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
)

// Result is what became of one request.
type Result struct {
	Request
	// Engine is where it was sent, Prefill which other engine computed its prompt; -1 if none did.
	Engine, Prefill int
	// Reason is how it ended.
	Reason engine.Reason
	// Tokens is the length of the answer.
	Tokens int
	// Timing has its stations, but for Submitted those at Engine. A rejected request has none, and its Timing is zero.
	Timing engine.Timing
	// Gaps are the times before all tokens of the answer but the first. Only with Config.KeepGaps.
	Gaps []time.Duration
}

// Report is the outcome of a run.
type Report struct {
	// Results are in order of their ends. Their Prompt is nil.
	Results []Result
	// Engines are the figures of each engine at the end.
	Engines []engine.Stats
	// Duration is the virtual time from the beginning to the last end.
	Duration time.Duration
}

// HitRate is the share of all prompt tokens that came from prefix caches, 0 to 1.
func (r *Report) HitRate() float64 {
	var all engine.Stats
	for _, s := range r.Engines {
		all.PrefixQueries += s.PrefixQueries
		all.PrefixHits += s.PrefixHits
	}
	return all.HitRate()
}

// TTFT returns the quantiles p, 0 to 1 each, of the time from a request's submission to its first token.
func (r *Report) TTFT(p ...float64) []time.Duration {
	return r.quantiles(p, func(x *Result) (time.Duration, bool) {
		return x.Timing.FirstToken - x.Timing.Submitted, x.Tokens > 0
	})
}

// ITL returns the quantiles p of the mean time between two tokens of an answer, over answers of more than one.
func (r *Report) ITL(p ...float64) []time.Duration {
	return r.quantiles(p, func(x *Result) (time.Duration, bool) {
		if x.Tokens < 2 {
			return 0, false
		}
		return (x.Timing.Ended - x.Timing.FirstToken) / time.Duration(x.Tokens-1), true
	})
}

func (r *Report) quantiles(p []float64, of func(*Result) (time.Duration, bool)) []time.Duration {
	var values []time.Duration
	for i := range r.Results {
		if v, ok := of(&r.Results[i]); ok {
			values = append(values, v)
		}
	}
	out := make([]time.Duration, len(p))
	if len(values) == 0 {
		return out
	}
	slices.Sort(values)
	for i, q := range p {
		out[i] = values[int(q*float64(len(values)-1))]
	}
	return out
}

// String is the report in one line.
func (r *Report) String() string {
	ttft, itl := r.TTFT(0.5, 0.99), r.ITL(0.5, 0.99)
	return fmt.Sprintf("%d requests in %v: hit rate %.3f, TTFT p50 %v p99 %v, ITL p50 %v p99 %v", len(r.Results),
		r.Duration.Round(time.Second), r.HitRate(), ttft[0].Round(time.Millisecond), ttft[1].Round(time.Millisecond),
		itl[0].Round(10*time.Microsecond), itl[1].Round(10*time.Microsecond))
}
