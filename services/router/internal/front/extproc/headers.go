package extproc

import (
	"strings"

	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
)

// Headers that are read or set, in lower case as proxies send them.
const (
	headerRequestID  = "x-request-id"
	headerReason     = "x-pointsman-reason"
	ownPrefix        = "x-pointsman-"
	headerModel      = "x-gateway-model-name-rewrite"
	headerObjective  = "x-gateway-inference-objective"
	headerFairness   = "x-gateway-inference-fairness-id"
	headerLength     = "content-length"
	keySubset        = "x-gateway-destination-endpoint-subset"
	keyServed        = "x-gateway-destination-endpoint-served"
	namespaceSubset  = "envoy.lb.subset_hint"
	destinationUsual = "x-gateway-destination-endpoint"
)

// routing is true for headers by which routers and engines tell each other where a
// request goes: from a client they would be an attack.
func routing(name string) bool {
	switch name {
	case destinationUsual, keySubset, keyServed, headerModel, "x-prefiller-host-port", "x-prefiller-url",
		"x-encoder-hosts-ports", "x-data-parallel-host-port":
		return true
	}
	return strings.HasPrefix(name, ownPrefix)
}

// strippedFromRequests are the headers that are removed from every request, seen or
// not: a proxy may not show us all.
func strippedFromRequests(destination string) []string {
	strip := []string{
		keySubset, keyServed, headerModel, headerObjective, headerFairness,
		"x-prefiller-host-port", "x-prefiller-url", "x-encoder-hosts-ports", "x-data-parallel-host-port", headerReason,
	}
	if destination != destinationUsual {
		strip = append(strip, destinationUsual)
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
	if routing(lower(name)) {
		return ""
	}
	return v.headers.Get(name)
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
