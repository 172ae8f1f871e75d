package extproc

import (
	"strings"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
)

const (
	headerLength = "content-length"
	// namespaceSubset is the proxy's metadata namespace of edge.HeaderSubset.
	namespaceSubset = "envoy.lb.subset_hint"
)

// strippedFromRequests are the headers that are removed from every request, seen or
// not: a proxy may not show us all.
func strippedFromRequests(destination string) []string {
	strip := []string{edge.HeaderObjective, edge.HeaderFairness, edge.HeaderReason}
	for _, name := range edge.RoutingHeaders() {
		if name != destination { // it is set
			strip = append(strip, name)
		}
	}
	return strip
}

// lower returns the name in lower case, which it nearly always is in.
func lower(name string) string {
	for i := range len(name) {
		if c := name[i]; 'A' <= c && c <= 'Z' {
			return strings.ToLower(name)
		}
	}
	return name
}

// visible are the headers as routing sees them: without those that only routers may
// set.
type visible struct{ headers wire.Headers }

// Get returns the first value of the header, "" if absent.
func (v *visible) Get(name string) string {
	if edge.Routing(name) {
		return ""
	}
	return v.headers.Get(name)
}
