package proxy

import (
	"crypto/rand"
	"net/http"
	"strings"
)

// Headers by which routers tell the sidecar what to do, in canonical form.
const (
	headerPrefiller    = "X-Prefiller-Host-Port"
	headerEncoders     = "X-Encoder-Hosts-Ports"
	headerDataParallel = "X-Data-Parallel-Host-Port"
	headerRequestID    = "X-Request-Id"
)

// instructions are all of them, and what older routers say.
var instructions = [...]string{headerPrefiller, headerEncoders, headerDataParallel, "X-Prefiller-Url", "X-Kv-Cache-Source-Host-Port"}

// strip removes them from a request's headers.
func strip(h http.Header) {
	for _, name := range instructions {
		delete(h, name)
	}
}

// hopByHop is true for headers that belong to a connection and not to a message.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings":
		return true
	}
	return false
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

// onwards returns the headers that go on with a message.
func onwards(from http.Header) http.Header {
	out := make(http.Header, len(from)+2)
	for name, values := range from {
		if !hopByHop(name) && name != "Expect" && !listed(from["Connection"], name) {
			out[name] = values
		}
	}
	return out
}

// maxID is the longest request id that is taken over.
const maxID = 128

// requestID returns the request's id if it can be used, else a new one.
func requestID(h http.Header) string {
	id := h.Get(headerRequestID)
	usable := id != "" && len(id) <= maxID
	for i := 0; usable && i < len(id); i++ {
		usable = id[i] > ' ' && id[i] <= '~'
	}
	if usable {
		return id
	}
	return rand.Text()
}
