package extproc

import (
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/propagation"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// head is what the headers of a request say.
type head struct {
	all          wire.Headers
	sent         bool // the proxy sends headers
	method, path string
	blocked      bool // the path is not for clients, whatever headers say of it
	contentType  string
	encoding     string // all of the content-encodings
	length       int64  // of the body, -1 if it is not announced
	id           string
	newID        bool // id is ours
	session      string
	objective    string
	model        string   // to rewrite the request's to
	own          []string // headers that look like ours
	traced       bool

	subset    []string // what the proxy allows
	hasSubset bool
}

// readHead reads the headers, once, by name.
func (x *exchange) readHead() {
	h := &x.head
	h.all, h.sent, h.length = x.in.Headers, true, -1
	original := ""
	for name, value := range h.all.All {
		switch name = lower(name); name {
		case ":method":
			h.method = value
		case ":path":
			h.path, _, _ = strings.Cut(value, "?")
		case "content-type":
			h.contentType = value
		case "content-encoding":
			if h.encoding != "" {
				value = h.encoding + "," + value
			}
			h.encoding = value
		case headerLength:
			if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 {
				h.length = n
			}
		case edge.HeaderRequestID:
			if h.id == "" && edge.UsableID(value) {
				h.id = value
			}
		case "x-session-id":
			if h.session == "" && edge.UsableID(value) {
				h.session = value
			}
		case edge.HeaderObjective:
			h.objective = value
		case edge.HeaderModel:
			h.model = value
		case "traceparent":
			h.traced = true
		case "x-original-path", "x-forwarded-path":
			if original == "" {
				original, _, _ = strings.Cut(value, "?")
			}
		default:
			if strings.HasPrefix(name, edge.OwnPrefix) && name != edge.HeaderReason {
				h.own = append(h.own, name)
			}
		}
	}
	h.blocked = edge.Covered(x.s.cfg.BlockedPaths, h.path)
	if odd(h.path) {
		h.path = edge.Resolved(h.path)
		h.blocked = h.blocked || edge.Covered(x.s.cfg.BlockedPaths, h.path)
	}
	if original != "" && prompt.KindOf(h.path) == prompt.Unknown {
		h.path = original // what a proxy before us has rewritten
	}
	if h.traced {
		x.ctx = propagation.TraceContext{}.Extract(x.ctx, carrier{h.all})
	}
}

// odd is true if some servers may read the path as another one.
func odd(path string) bool {
	return strings.Contains(path, "//") || strings.Contains(path, "/.") || strings.Contains(path, "%")
}

// identify makes sure that the request has an id.
func (h *head) identify() {
	if h.id == "" {
		h.id, h.newID = edge.NewID(), true
	}
}

// needless is true if a body, if there is one, says nothing that matters for routing,
// or may never end.
func (h *head) needless() bool {
	switch h.method {
	case "GET", "HEAD", "DELETE", "OPTIONS", "TRACE":
		if h.length <= 0 {
			return true
		}
	case "CONNECT":
		return true // WebSockets too, in HTTP/2
	}
	return strings.HasPrefix(h.contentType, "application/grpc")
}

// encoded is true if the body is not sent as it is.
func (h *head) encoded() bool {
	return h.encoding != "" && !strings.EqualFold(strings.TrimSpace(h.encoding), "identity")
}

// ask makes the routing request, as far as the headers tell.
func (x *exchange) ask() {
	h := &x.head
	h.identify()
	a := &asked{headers: visible{h.all}}
	a.request = route.Request{ID: h.id, Path: h.path, SessionKey: h.session, MaxOutputTokens: -1, Headers: &a.headers}
	if h.objective != "" {
		if p, ok := x.s.deps.Objectives.Priority(h.objective); ok {
			a.request.Priority = p
		}
	}
	if h.hasSubset {
		a.subset.Addresses = h.subset
		a.request.Subset = &a.subset
	}
	x.asked = a
}

// carrier lets traces be read from headers.
type carrier struct{ wire.Headers }

// Set does nothing: nothing is injected.
func (carrier) Set(string, string) {}

// Keys returns nothing: propagators read by name.
func (carrier) Keys() []string { return nil }
