package extproc

import (
	"time"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
)

// basis is what a decision was made on.
type basis uint8

const (
	byHeaders basis = iota // the headers alone
	byBody                 // all of the request
	byPart                 // the beginning of the body
	byHurry                // the headers, because the body was late
	byLoad                 // the load that the router knows of: no scorer gave scores
	bases
)

var basisNames = [bases]string{"headers", "body", "part", "hurry", "cheap"}

// decide has an endpoint picked for what was asked.
func (x *exchange) decide() *edge.Refusal {
	s, r := x.s, &x.asked.request
	r.Deadline = time.Now().Add(s.cfg.DecisionTimeout.D())
	d := s.deps.Decider.Decide(x.ctx, r)
	if d.Endpoint == nil {
		if x.ctx.Err() != nil {
			return &edge.Refusal{Reason: edge.Cancelled}
		}
		return edge.OfDecision(d.Err)
	}
	x.decision, x.endpoint, x.reservation = d, d.Endpoint, d.Reservation
	d.LeftToProxy()
	for _, res := range d.Results {
		if res.LeastLoad {
			x.basis = byLoad
		}
	}
	s.metrics.decided(x.basis)
	x.sayWhere(d)
	return nil
}
