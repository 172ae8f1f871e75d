package httpproxy

import (
	"maps"
	"net/http"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// address has the request go where a sidecar carries out the decision's plan, and tells
// it by headers what that is.
func (x *exchange) address(out *http.Request, e *roster.Endpoint) {
	d := x.decision
	if d == nil || d.Plan == nil {
		return
	}
	out.Host = d.AddressOf(e)
	out.URL.Host = out.Host
	if d.Plan.Connector != route.ConnectorSidecar {
		return
	}
	out.Header = maps.Clone(out.Header) // it is the same for all attempts
	for _, h := range edge.StageHeaders(d) {
		out.Header.Set(h.Name, h.Value)
	}
	if d.Plan.PrimaryPort != 0 {
		out.Header.Set(edge.HeaderDataParallel, e.Address)
	}
}
