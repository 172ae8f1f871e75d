package httpproxy

import (
	"net"
	"net/http"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/hop"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
)

// headerRequestID is edge.HeaderRequestID in canonical form, as maps have it.
const headerRequestID = "X-Request-Id"

// forRouter is true for headers that speak to the router and not to the engine.
func forRouter(name string) bool {
	return name == "X-Gateway-Inference-Objective" || name == "X-Gateway-Inference-Fairness-Id"
}

// requestHeaders are the headers that go to the endpoint.
func requestHeaders(r *http.Request, id string) http.Header {
	out := make(http.Header, len(r.Header)+5)
	connection := r.Header["Connection"]
	for name, values := range r.Header {
		switch {
		case hop.Own(name), edge.Routing(name), forRouter(name), name == "Expect":
		case len(connection) > 0 && hop.Listed(connection, name):
		default:
			out[name] = values
		}
	}
	if hop.Listed(r.Header["Te"], "trailers") {
		out["Te"] = []string{"trailers"}
	}
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = nil // else the transport adds its own
	}
	forwarded(out, r)
	out[headerRequestID] = []string{id}
	return out
}

// forwarded says whom the request is from. What proxies before us have said stays.
func forwarded(out http.Header, r *http.Request) {
	if client, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		if before := out["X-Forwarded-For"]; len(before) > 0 {
			client = strings.Join(before, ", ") + ", " + client
		}
		out["X-Forwarded-For"] = []string{client}
	}
	if _, ok := out["X-Forwarded-Host"]; !ok && r.Host != "" {
		out["X-Forwarded-Host"] = []string{r.Host}
	}
	if _, ok := out["X-Forwarded-Proto"]; !ok {
		proto := "http"
		if r.TLS != nil {
			proto = "https"
		}
		out["X-Forwarded-Proto"] = []string{proto}
	}
}

// answerHeaders copies the headers of an answer that go to the client.
func answerHeaders(to, from http.Header) {
	connection := from["Connection"]
	for name, values := range from {
		if hop.Own(name) || edge.Routing(name) || name == headerRequestID || len(connection) > 0 && hop.Listed(connection, name) {
			continue
		}
		to[name] = values
	}
	if _, ok := from["Content-Type"]; !ok {
		to["Content-Type"] = nil // else net/http guesses one from the body
	}
}

// trailing is true for trailers of an answer that go to the client.
func trailing(name string) bool {
	return !hop.Own(name) && !edge.Routing(name) && name != headerRequestID && name != "Content-Length"
}

// requestID returns the client's id if it can be used, else a new one.
func requestID(h http.Header) string {
	if id := h.Get(headerRequestID); edge.UsableID(id) {
		return id
	}
	return edge.NewID()
}

// seenHeaders are the headers as routing sees them: without those that only routers
// may set.
type seenHeaders http.Header

// Get returns the first value of the header, "" if absent.
func (h seenHeaders) Get(name string) string {
	name = http.CanonicalHeaderKey(name)
	if values := h[name]; len(values) > 0 && !edge.Routing(name) {
		return values[0]
	}
	return ""
}
