package fanout

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// round is the questions of one profile run. It goes back to its pool when the
// request has what it wants and no transport holds a call of it any more.
type round struct {
	fan  *Fan
	refs atomic.Int32

	// Only read while the round is in use.
	snapshot   *roster.Snapshot
	candidates []uint32 // some, or shared by all rounds
	some       []uint32
	explain    bool
	calls      []*Call // of them, the first n are in use
	n          int

	// Used by the request's goroutine alone.
	cycle *route.Cycle // nil once all are started
	chain []chain
	timer *time.Timer

	// pending counts the calls that are still waited for. Who takes the last one
	// away says so on done, unless it is the waiting goroutine itself.
	pending atomic.Int32
	done    chan struct{}
}

func newRound(f *Fan) *round {
	r := &round{fan: f, done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	r.timer.Stop()
	return r
}

// begin readies the round for calls whose answers will go into out.
func (r *round) begin(c *route.Cycle, candidates []int32, out []route.Scores) {
	n := len(out)
	r.refs.Store(1)
	r.cycle, r.snapshot, r.explain = c, c.Snapshot, c.Explain
	if len(candidates) == c.Snapshot.Len() {
		r.candidates = r.fan.whole(len(candidates))
	} else {
		r.some = r.some[:0]
		for _, p := range candidates {
			r.some = append(r.some, uint32(p)) //nolint:gosec // a table position
		}
		r.candidates = r.some
	}
	for len(r.calls) < n {
		r.calls = append(r.calls, &Call{round: r})
	}
	for i, call := range r.calls[:n] {
		call.values, call.matched = out[i].Values, out[i].Matched
	}
	r.n = n
	r.pending.Store(int32(n)) //nolint:gosec // scorers of a profile
}

// release gives up one hold; the last one recycles the round.
func (r *round) release() {
	if r.refs.Add(-1) > 0 {
		return
	}
	r.snapshot = nil
	r.chain = r.chain[:0]
	for _, c := range r.calls[:r.n] {
		c.asked, c.span, c.scores, c.values, c.matched = nil, nil, route.Scores{}, nil, nil
		c.inputs.forget()
	}
	r.fan.rounds.Put(r)
}

// wait returns when every call has been answered, is late, or is given up.
func (r *round) wait(ctx context.Context) {
	select {
	case <-r.done: // nobody had to be waited for
		return
	default:
	}
	for {
		var expired <-chan time.Time
		if next, some := r.nextDeadline(); some {
			r.timer.Reset(time.Until(next))
			expired = r.timer.C
		}
		select {
		case <-r.done:
			r.timer.Stop()
			return
		case <-ctx.Done():
			r.timer.Stop()
			if !r.drop(time.Time{}, errors.Is(ctx.Err(), context.Canceled)) {
				<-r.done // answers are being written down this moment
			}
			return
		case <-expired:
			if r.drop(time.Now(), false) {
				return
			}
		}
	}
}

// nextDeadline returns when the next call that is still waited for will be late.
func (r *round) nextDeadline() (time.Time, bool) {
	var next time.Time
	for _, c := range r.calls[:r.n] {
		if c.Waiting() && (next.IsZero() || c.deadline.Before(next)) {
			next = c.deadline
		}
	}
	return next, !next.IsZero()
}

// drop stops waiting for the calls due at now, or for all if now is zero. It returns
// true if that leaves nothing to wait for; otherwise word will come on done.
func (r *round) drop(now time.Time, cancelled bool) bool {
	dropped := int32(0)
	for _, c := range r.calls[:r.n] {
		if !now.IsZero() && c.deadline.After(now) {
			continue
		}
		why := c.overdue
		if cancelled {
			why = givenUp
		}
		if c.state.CompareAndSwap(waiting, why) {
			dropped++
		}
	}
	return dropped > 0 && r.pending.Add(-dropped) == 0
}

// collect hands over what came of each call.
func (r *round) collect(out []route.Scores) {
	for i, c := range r.calls[:r.n] {
		ending := Answered
		switch c.state.Load() {
		case answered:
			out[i] = c.scores
		case late:
			ending = Late
			took := c.deadline.Sub(c.began)
			out[i] = refused(route.TimedOut, "no answer within "+took.Round(time.Millisecond/10).String(), took)
		default:
			ending = GivenUp
			out[i] = refused(route.TimedOut, "the request was given up before the answer came", time.Since(c.began))
		}
		if c.span != nil {
			endSpan(c.span, &out[i])
		}
		if c.asked != nil {
			c.asked.End(c, &out[i], ending)
		}
	}
}
