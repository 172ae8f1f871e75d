package outcome

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// ending is what has ended the reservation of an endpoint that prefills where nobody tells
// when it is done.
type ending uint8

const (
	byFirstToken ending = iota // of a streamed answer
	byEstimate
	byAnswer // nothing was known of the endpoint, or the answer was quicker
	byFailure
	endings
)

var endingNames = [endings]string{"first-token", "estimate", "answer", "failed"}

// unseen is what is known of a reservation whose work nobody sees the end of.
type unseen struct {
	streams bool  // the first token will be seen
	tokens  int64 // that the endpoint has to prefill, the request's included
	timer   *time.Timer
}

// EndsUnseen implements route.Unseen: with an answer that is not streamed the reservation
// ends once the endpoint is estimated to have prefilled all that it has, if it has not
// ended before.
func (r *reservation) EndsUnseen(streams bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pick == nil || r.work != route.WorkPrefill || r.unseen != nil {
		return
	}
	r.unseen = &unseen{streams: streams, tokens: int64(r.pick.uncached)}
	s := r.ledger.roster.Snapshot()
	if pos, in := s.Table.Position(r.pick.endpoint); in {
		r.unseen.tokens = max(r.unseen.tokens, s.InFlightTokens(pos))
	}
	if streams {
		return
	}
	if d, known := r.ledger.speeds.estimate(r.pick.endpoint, r.unseen.tokens); known {
		r.unseen.timer = time.AfterFunc(d, r.estimated)
	}
}

// estimated ends the reservation: the endpoint should be done.
func (r *reservation) estimated() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(true, route.NoUsage(), byEstimate)
}

// settle takes over how the reservation has ended, after so many ns.
func (u *unseen) settle(l *Ledger, p *pick, completed bool, by ending, elapsed int64) {
	if u.timer != nil {
		u.timer.Stop()
	}
	switch {
	case !completed:
		by = byFailure
	case u.streams:
		by = byFirstToken
		l.speeds.learn(p.endpoint, u.tokens, elapsed)
	}
	l.unseen.Add(noContext, 1, l.endings[by]...)
}

// countUnseen makes the metric.
func (l *Ledger) countUnseen(m metric.Meter) (err error) {
	l.unseen, err = m.Int64Counter("pointsman_router_prefill_releases_total",
		metric.WithDescription("Reservations of endpoints that prefill for others, where a proxy carries that out and nobody tells when it is done, by what ended them: "+
			"first-token (of a streamed answer), estimate (what streamed answers have taught of the endpoint), answer (too few of these were seen, or the answer was quicker), failed."))
	for e, name := range endingNames {
		l.endings[e] = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attribute.String("by", name)))}
	}
	return err
}
