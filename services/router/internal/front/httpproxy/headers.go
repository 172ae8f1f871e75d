package httpproxy

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
)

// Headers of ours, in canonical form.
const (
	headerEndpoint  = "X-Pointsman-Endpoint"
	headerReason    = "X-Pointsman-Reason"
	headerRequestID = "X-Request-Id"
	ownPrefix       = "X-Pointsman-"
)

// hopByHop is true for headers that belong to a connection and not to a message.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings":
		return true
	}
	return false
}

// routing is true for headers by which routers and engines tell each other where a
// request goes: from a client they would be an attack.
func routing(name string) bool {
	switch name {
	case "X-Gateway-Destination-Endpoint", "X-Gateway-Destination-Endpoint-Subset", "X-Gateway-Destination-Endpoint-Served",
		"X-Gateway-Model-Name-Rewrite", "X-Prefiller-Host-Port", "X-Prefiller-Url", "X-Encoder-Hosts-Ports", "X-Data-Parallel-Host-Port":
		return true
	}
	return strings.HasPrefix(name, ownPrefix)
}

// forRouter is true for headers that speak to the router and not to the engine.
func forRouter(name string) bool {
	return name == "X-Gateway-Inference-Objective" || name == "X-Gateway-Inference-Fairness-Id"
}

// listed returns whether a header's values, comma lists of tokens, hold the token.
func listed(values []string, token string) bool {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// requestHeaders are the headers that go to the endpoint.
func requestHeaders(r *http.Request, id string) http.Header {
	out := make(http.Header, len(r.Header)+5)
	connection := r.Header["Connection"]
	for name, values := range r.Header {
		switch {
		case hopByHop(name), routing(name), forRouter(name), name == "Expect":
		case len(connection) > 0 && listed(connection, name):
		default:
			out[name] = values
		}
	}
	if listed(r.Header["Te"], "trailers") {
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
		if hopByHop(name) || routing(name) || name == headerRequestID || len(connection) > 0 && listed(connection, name) {
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
	return !hopByHop(name) && !routing(name) && name != headerRequestID && name != "Content-Length"
}

// requestID returns the client's id if it can be used, else a new one.
func requestID(h http.Header) string {
	if id := h.Get(headerRequestID); id != "" && len(id) <= 128 && printable(id) {
		return id
	}
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:], rand.Uint64())
	binary.BigEndian.PutUint64(raw[8:], rand.Uint64())
	return hex.EncodeToString(raw[:])
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// seenHeaders are the headers as routing sees them: without those that only routers
// may set.
type seenHeaders http.Header

// Get returns the first value of the header, "" if absent.
func (h seenHeaders) Get(name string) string {
	name = http.CanonicalHeaderKey(name)
	if values := h[name]; len(values) > 0 && !routing(name) {
		return values[0]
	}
	return ""
}
