package fanout

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// maxCandidates is the most that the contract lets a scorer be asked about.
const maxCandidates = 4096

// Fan asks scorers. Safe for concurrent use.
type Fan struct {
	cfg    Config
	tracer trace.Tracer
	rounds sync.Pool
	all    atomic.Pointer[[]uint32] // 0, 1, 2 and so on
}

var _ route.Fan = (*Fan)(nil)

// New returns a Fan. tracer makes one span per call of requests that are sampled;
// nil for none.
func New(cfg Config, tracer trace.Tracer) (*Fan, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := &Fan{cfg: cfg, tracer: tracer}
	f.rounds.New = func() any { return newRound(f) }
	return f, nil
}

// Score asks every scorer about every candidate at once and fills in out, one entry
// per scorer. It returns when all have answered, when the time is up, or when ctx
// ends, whichever is first. Candidates must be ascending.
func (f *Fan) Score(ctx context.Context, c *route.Cycle, scorers []route.Scorer, candidates []int32, out []route.Scores) {
	if len(scorers) == 0 {
		return
	}
	if reason := unaskable(candidates); reason != "" {
		for i := range scorers {
			out[i] = refused(route.Skipped, reason, 0)
		}
		return
	}
	r := f.rounds.Get().(*round)
	r.begin(c, candidates, out[:len(scorers)])
	f.start(ctx, r, scorers)
	r.wait(ctx)
	r.collect(out)
	r.release()
}

// whole returns the positions of a table of n endpoints. Shared: not to be changed.
func (f *Fan) whole(n int) []uint32 {
	if p := f.all.Load(); p != nil && len(*p) >= n {
		return (*p)[:n:n]
	}
	made := make([]uint32, n)
	for i := range made {
		made[i] = uint32(i) //nolint:gosec // at most maxCandidates
	}
	f.all.Store(&made)
	return made
}

// start asks every scorer. All clocks start now.
func (f *Fan) start(ctx context.Context, r *round, scorers []route.Scorer) {
	now := time.Now()
	deadline, overdue := now.Add(f.cfg.Timeout), late
	if d, some := wanted(ctx, r.cycle.Request); some && d.Before(deadline) {
		deadline = d
		if d.Sub(now) < f.cfg.Timeout/2 {
			overdue = givenUp // the caller is in a hurry, which is no scorer's fault
		}
	}
	traced := f.tracer != nil && trace.SpanContextFromContext(ctx).IsSampled()
	// All are readied before the first is asked: an answer looks at its round only,
	// but the wait looks at every call.
	for i := range scorers {
		call := r.calls[i]
		call.asked, _ = scorers[i].Asked.(Instance)
		call.began, call.deadline, call.overdue = now, deadline, overdue
		if call.asked != nil {
			if t := call.asked.Timeout(); t > 0 && now.Add(t).Before(deadline) {
				call.deadline, call.overdue = now.Add(t), late
			}
		}
		if traced {
			call.span = f.span(ctx, &scorers[i])
		}
		call.state.Store(waiting)
	}
	for _, call := range r.calls[:r.n] {
		if call.asked == nil {
			call.Refuse(route.Skipped, "nothing answers for it")
			continue
		}
		call.asked.Start(call)
	}
	r.cycle = nil
}

// wanted is when the caller wants to be answered; false if that is no matter.
func wanted(ctx context.Context, req *route.Request) (time.Time, bool) {
	d, some := ctx.Deadline()
	if own := req.Deadline; !own.IsZero() && (!some || own.Before(d)) {
		return own, true
	}
	return d, some
}

// unaskable says why nobody can be asked about these candidates.
func unaskable(candidates []int32) string {
	switch {
	case len(candidates) == 0:
		return "there is no candidate to ask about"
	case len(candidates) > maxCandidates:
		return "more candidates than a scorer may be asked about"
	case !slices.IsSorted(candidates):
		return "the candidates are out of order"
	}
	return ""
}
