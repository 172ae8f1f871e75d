package grpcapi

import (
	"strings"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// responseHeaders are what a client is to be given with the answer of the picked
// endpoint. A fallback's token would be another; its answers get none.
func responseHeaders(d *route.Decision) []*routerv1.Header {
	var all []*routerv1.Header
	for _, h := range d.ResponseHeaders(d.Endpoint) {
		all = append(all, &routerv1.Header{Name: h.Name, Value: h.Value})
	}
	return all
}

// headers are a description's header fields.
type headers []*routerv1.Header

// Get returns the first value of the header; name is lower-case.
func (h headers) Get(name string) string {
	for _, f := range h {
		if strings.EqualFold(f.GetName(), name) {
			return f.GetValue()
		}
	}
	return ""
}
