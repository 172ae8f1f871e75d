package proxy

import (
	"crypto/rand"
	"net/http"

	"github.com/pointsman/pointsman/internal/kit/hop"
)

// Headers by which routers tell the sidecar what to do, in canonical form.
const (
	headerPrefiller    = "X-Prefiller-Host-Port"
	headerEncoders     = "X-Encoder-Hosts-Ports"
	headerDataParallel = "X-Data-Parallel-Host-Port"
	headerSource       = "X-Kv-Cache-Source-Host-Port"
	headerRequestID    = "X-Request-Id"
)

// instructions are all of them, and what older routers say.
var instructions = [...]string{headerPrefiller, headerEncoders, headerDataParallel, headerSource, "X-Prefiller-Url"}

// strip removes them from a request's headers.
func strip(h http.Header) {
	for _, name := range instructions {
		delete(h, name)
	}
}

// onwards returns the headers that go on with a message.
func onwards(from http.Header) http.Header {
	out := make(http.Header, len(from)+2)
	for name, values := range from {
		if !hop.Own(name) && name != "Expect" && !hop.Listed(from["Connection"], name) {
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
