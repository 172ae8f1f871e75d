package extproc

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// heed believes the proxy when it says which endpoint has answered: it may have tried
// several.
func (x *exchange) heed() {
	if x.reservation == nil {
		return
	}
	address := x.in.Metadata(x.s.cfg.DestinationNamespace, edge.HeaderServed).GetStringValue()
	if address == "" || address == x.endpoint.Address || address == x.decision.AddressOf(x.endpoint) {
		return
	}
	e := x.find(address)
	if e == nil || e.ID == x.endpoint.ID {
		return
	}
	for _, failed := range x.before(e) {
		x.s.deps.Quarantine.Failed(failed.ID, "the proxy went on to another endpoint")
	}
	x.endpoint = e
	x.reservation.Move(e)
	x.s.metrics.moved()
}

// before returns the endpoints that the proxy was to try before e; none if e was not
// named to it.
func (x *exchange) before(e *roster.Endpoint) []*roster.Endpoint {
	named := append([]*roster.Endpoint{x.decision.Endpoint}, x.s.fallbacks(x.decision)...)
	at := slices.IndexFunc(named, func(n *roster.Endpoint) bool { return n.ID == e.ID })
	return named[:max(at, 0)]
}

// find returns the endpoint at an address, nil if there is none: one of those named to
// the proxy first, because an address may have changed hands since.
func (x *exchange) find(address string) *roster.Endpoint {
	same := func(e *roster.Endpoint) bool { return sameAddress(e.Address, address) }
	if same(x.endpoint) {
		return x.endpoint
	}
	for _, e := range x.decision.Fallbacks {
		if same(e) {
			return e
		}
	}
	table := x.s.deps.Roster.Snapshot().Table
	for i := range table.Endpoints {
		if e := &table.Endpoints[i]; same(e) {
			return e
		}
	}
	return nil
}

// sameAddress compares two addresses, of which IPv6 has many spellings.
func sameAddress(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	x, errX := netip.ParseAddrPort(a)
	y, errY := netip.ParseAddrPort(b)
	return errX == nil && errY == nil && x.Port() == y.Port() && x.Addr().Unmap() == y.Addr().Unmap()
}

// judge tells the quarantine how the endpoint does. That it could not be reached is
// seen as an answer that the proxy made up; that it was another one's fault is what a
// sidecar gives as the reason.
func (x *exchange) judge(reason string) {
	if x.endpoint == nil {
		return
	}
	q := x.s.deps.Quarantine
	if !slices.Contains(x.s.cfg.FailureStatuses, x.status) {
		q.Succeeded(x.endpoint.ID)
		return
	}
	why := x.in.Attribute("response.code_details").GetStringValue()
	if why == "" || why == "via_upstream" {
		why = "it answered with a failure"
	}
	if e := edge.Culprit(x.decision, x.endpoint, reason); e != nil {
		q.Failed(e.ID, why)
	}
}

// begins reports the first token.
func (x *exchange) begins() {
	if x.reservation != nil && !x.firstToken {
		x.firstToken = true
		x.reservation.FirstToken()
	}
}

// close ends the reservation, once, and settles why the exchange ended.
func (x *exchange) close() {
	if x.reservation == nil {
		if x.why == edge.OK && x.decision == nil && x.request != expected {
			x.why = edge.Cancelled
		}
		return
	}
	u := route.NoUsage()
	if x.meter != nil {
		c := x.meter.Counts()
		u = route.Usage{PromptTokens: c.Prompt, CachedPromptTokens: c.Cached, OutputTokens: c.Output}
	}
	// A stream of events that has said that it is complete is so, even if the client has
	// left on that word and the end of the connection was not seen.
	seen := x.response == ended || x.answered && x.responseMode == wire.None || x.meter != nil && x.meter.Done()
	completed := seen && x.status < 400
	x.reservation.Finish(completed, u)
	x.reservation = nil
	if x.why != edge.OK {
		return
	}
	switch {
	case !x.answered:
		x.why = edge.Unseen
	case !seen:
		x.why = edge.CutShort
	case slices.Contains(x.s.cfg.FailureStatuses, x.status):
		x.why = edge.BadAnswer
	}
}
