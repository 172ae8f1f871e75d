package extproc

import (
	"context"
	"errors"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// basis is what a decision was made on.
type basis uint8

const (
	byHeaders basis = iota // the headers alone
	byBody                 // all of the request
	byPart                 // the beginning of the body
	byHurry                // the headers, because the body was late
	byLoad                 // no scorers, because they were late
	bases
)

var basisNames = [bases]string{"headers", "body", "part", "hurry", "cheap"}

// decide has an endpoint picked for what was asked.
func (x *exchange) decide() *failure {
	s := x.s
	ctx, cancel := context.WithTimeout(x.ctx, s.cfg.DecisionTimeout.D())
	d := s.deps.Decider.Decide(ctx, &x.asked.request)
	cancel()
	if d.Endpoint == nil && x.ctx.Err() == nil && errors.Is(d.Err, context.DeadlineExceeded) && s.deps.Cheap != nil {
		x.basis = byLoad
		d = s.deps.Cheap.Decide(x.ctx, &x.asked.request)
	}
	if d.Endpoint == nil {
		if x.ctx.Err() != nil {
			return &failure{reason: cancelled}
		}
		return undecided(d.Err)
	}
	x.decision, x.endpoint, x.reservation = d, d.Endpoint, d.Reservation
	s.metrics.decided(x.basis)
	x.sayWhere(d)
	return nil
}

// NoScores is a route.Fan that asks nobody. A Scheduler with it picks by the load that
// the router knows of, at once; see Deps.Cheap.
type NoScores struct{}

// Score says of every scorer that it was too late.
func (NoScores) Score(_ context.Context, _ *route.Cycle, _ []route.Scorer, _ []int32, out []route.Scores) {
	for i := range out {
		out[i] = route.Scores{Verdict: route.TimedOut, Reason: "the decision was late", StateAge: -1}
	}
}
