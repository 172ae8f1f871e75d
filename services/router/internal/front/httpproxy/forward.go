package httpproxy

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// forward has an endpoint picked and passes the request on, to the next one if it
// fails before its first byte.
func (x *exchange) forward() *edge.Refusal {
	if x.why == edge.Cancelled || x.ctx.Err() != nil {
		x.why = edge.Cancelled // a client that has gone is not worth asking scorers for
		return nil
	}
	d := x.p.decider.Decide(x.ctx, x.request)
	if d.Endpoint == nil {
		return edge.OfDecision(d.Err)
	}
	x.decision, x.reservation = d, d.Reservation
	if f := x.guard(d); f != nil {
		return f
	}
	e := d.Endpoint
	for tries := 0; ; tries++ {
		x.tried = append(x.tried, e.ID)
		a, why := x.attempt(e, tries == x.p.cfg.Retries)
		if why == nil {
			return x.relay(a)
		}
		if why.why == edge.Cancelled {
			x.why = edge.Cancelled
			return nil
		}
		if why.why == edge.PrefillFailed || why.why == edge.EncodeFailed { // the endpoint has nothing to do with it
			x.p.log.Debug("stage failed", "request_id", x.id, "reason", why.why.String(), "error", why.err)
			return refuseStage(why.why, why.err)
		}
		x.p.log.Debug("endpoint failed before its first byte", "request_id", x.id, "endpoint", e.ID, "reason", why.why.String(), "error", why.err)
		x.blame(e, why)
		if _, fetches := x.fetched(e); fetches && !x.again() {
			x.handed++
		}
		if tries == x.p.cfg.Retries || why.why == edge.FirstByteTimeout && !x.p.cfg.RetryTimeouts {
			return x.giveUp(e, why)
		}
		next := x.next()
		if next == nil {
			return x.giveUp(e, why)
		}
		x.p.metrics.retries.Add(x.ctx, 1, x.p.metrics.why[why.why]...)
		e = next
	}
}

// next returns the endpoint to try next, with the reservation moved there, or nil:
// the fall-backs of the decision in order, then those of a new one, which knows who has
// failed. What another endpoint has prefilled is there once: if it may have been taken, the
// new decision finds out who is to prefill again, or that it is to be decoded alone, which
// may be where it was to be decoded before.
func (x *exchange) next() *roster.Endpoint {
	if x.again() {
		if e := x.untried(x.decision.Fallbacks); e != nil {
			x.move(e)
			return e
		}
	}
	again := *x.request // the other decision keeps that
	again.Retry = &route.Retry{Failed: slices.Clone(x.tried), Handed: x.handed}
	d := x.p.decider.Decide(x.ctx, &again)
	if d.Endpoint == nil {
		return nil
	}
	x.finish(false, route.NoUsage())
	x.decision, x.reservation = d, d.Reservation
	if x.guard(d) != nil { // the configuration has changed meanwhile
		return nil
	}
	if !slices.Contains(x.tried, d.Endpoint.ID) {
		return d.Endpoint
	}
	if e := x.untried(d.Fallbacks); e != nil {
		x.move(e)
		return e
	}
	if x.handed > 0 && d.Plan != nil && d.Plan.Stage(route.StagePrefill) == nil && d.Plan.Policy.Prefill.Falls() {
		x.handed = 0 // once
		return d.Endpoint
	}
	return nil
}

func (x *exchange) untried(list []*roster.Endpoint) *roster.Endpoint {
	for _, e := range list {
		if !slices.Contains(x.tried, e.ID) {
			return e
		}
	}
	return nil
}

func (x *exchange) move(to *roster.Endpoint) {
	if x.reservation != nil {
		x.reservation.Move(to)
	}
}

// giveUp answers when nobody could: with the last answer that there was, else with a
// failure of our own.
func (x *exchange) giveUp(e *roster.Endpoint, why *fault) *edge.Refusal {
	if s := x.saved; s != nil && why.why != edge.FirstByteTimeout {
		h := x.w.Header()
		answerHeaders(h, s.header)
		h.Set(edge.HeaderEndpoint, s.from.Address)
		h.Set("Content-Length", strconv.Itoa(len(s.body)))
		x.status, x.why = s.status, edge.BadAnswer
		x.w.WriteHeader(s.status)
		n, _ := x.w.Write(s.body)
		x.sent += int64(n)
		return nil
	}
	x.w.Header().Set(edge.HeaderEndpoint, e.Address)
	switch why.why {
	case edge.FirstByteTimeout:
		return &edge.Refusal{Status: http.StatusGatewayTimeout, Reason: edge.FirstByteTimeout, Message: "the model server did not begin to answer in time"}
	case edge.ConnectFailed:
		return &edge.Refusal{Status: http.StatusBadGateway, Reason: edge.ConnectFailed, Message: "the model server could not be reached"}
	default:
		return &edge.Refusal{Status: http.StatusBadGateway, Reason: edge.Reset, Message: "the model server broke the connection before it answered"}
	}
}
