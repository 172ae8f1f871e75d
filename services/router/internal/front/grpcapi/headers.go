package grpcapi

import (
	"strings"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

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
