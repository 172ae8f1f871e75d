package httpproxy

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// forward has an endpoint picked and passes the request on, to the next one if it
// fails before its first byte.
func (x *exchange) forward() *failure {
	if x.why == cancelled || x.ctx.Err() != nil {
		x.why = cancelled // a client that has gone is not worth asking scorers for
		return nil
	}
	d := x.p.decider.Decide(x.ctx, x.request)
	if d.Endpoint == nil {
		return undecided(d.Err)
	}
	x.decision, x.reservation = d, d.Reservation
	e := d.Endpoint
	for tries := 0; ; tries++ {
		x.tried = append(x.tried, e.ID)
		a, why := x.attempt(e, tries == x.p.cfg.Retries)
		if why == nil {
			return x.relay(a)
		}
		if why.why == cancelled {
			x.why = cancelled
			return nil
		}
		x.p.log.Debug("endpoint failed before its first byte", "request_id", x.id, "endpoint", e.ID, "reason", why.why.String(), "error", why.err)
		x.p.quarantine.Failed(e.ID, why.err.Error())
		if tries == x.p.cfg.Retries || why.why == firstByteTimeout && !x.p.cfg.RetryTimeouts {
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
// the fall-backs of the decision in order, then those of a new one.
func (x *exchange) next() *roster.Endpoint {
	if e := x.untried(x.decision.Fallbacks); e != nil {
		x.move(e)
		return e
	}
	d := x.p.decider.Decide(x.ctx, x.request)
	if d.Endpoint == nil {
		return nil
	}
	x.finish(false, route.NoUsage())
	x.decision, x.reservation = d, d.Reservation
	if !slices.Contains(x.tried, d.Endpoint.ID) {
		return d.Endpoint
	}
	e := x.untried(d.Fallbacks)
	if e != nil {
		x.move(e)
	}
	return e
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
func (x *exchange) giveUp(e *roster.Endpoint, why *fault) *failure {
	if s := x.saved; s != nil && why.why != firstByteTimeout {
		h := x.w.Header()
		answerHeaders(h, s.header)
		h.Set(headerEndpoint, s.from.Address)
		h.Set("Content-Length", strconv.Itoa(len(s.body)))
		x.status, x.why = s.status, badAnswer
		x.w.WriteHeader(s.status)
		n, _ := x.w.Write(s.body)
		x.sent += int64(n)
		return nil
	}
	x.w.Header().Set(headerEndpoint, e.Address)
	switch why.why {
	case firstByteTimeout:
		return &failure{status: http.StatusGatewayTimeout, reason: firstByteTimeout, message: "the model server did not begin to answer in time"}
	case connectFailed:
		return &failure{status: http.StatusBadGateway, reason: connectFailed, message: "the model server could not be reached"}
	default:
		return &failure{status: http.StatusBadGateway, reason: reset, message: "the model server broke the connection before it answered"}
	}
}

// undecided makes a failure of a decision without an endpoint.
func undecided(err error) *failure {
	switch {
	case errors.Is(err, route.ErrShed):
		return &failure{status: http.StatusTooManyRequests, reason: shed, message: "the model servers are busy, try again later", retry: true}
	case errors.Is(err, route.ErrScorerFailed):
		return &failure{status: http.StatusServiceUnavailable, reason: scorerFailed, message: "a scorer that must answer did not", retry: true}
	default:
		return &failure{status: http.StatusServiceUnavailable, reason: noEndpoint, message: "no model server can serve the request", retry: true}
	}
}
