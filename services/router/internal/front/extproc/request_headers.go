package extproc

import (
	"net/http"
	"time"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
)

// requestHeaders begins the request. It is decided at once if nothing more is to come
// that matters, or if the proxy sends the headers on before the body.
func (x *exchange) requestHeaders() error {
	if x.request != expected {
		return x.neutral()
	}
	x.readHead()
	x.readSubset()
	x.ask()
	switch {
	case x.head.blocked:
		return x.refuse(edge.Unserved())
	case x.in.EndOfStream:
		x.request = ended
		return x.withoutBody()
	case !x.requestMode.Supported():
		x.s.warn(warnMode, "the proxy sends request bodies in a mode that is not supported here: requests are decided by their headers, "+
			"and their answers are not seen; set request_body_mode to FULL_DUPLEX_STREAMED", "mode", x.requestMode.String())
		x.over = true
		return x.byHeaders()
	case x.head.needless() || !x.bodyFirst():
		return x.byHeaders()
	case x.head.length > x.s.cfg.MaxRequestBytes:
		return x.refuse(edge.Larger(x.s.cfg.MaxRequestBytes))
	}
	return x.collect()
}

// bodyFirst is true if the body comes before the headers have to be answered for good.
func (x *exchange) bodyFirst() bool {
	switch x.requestMode {
	case wire.FullDuplex, wire.Buffered, wire.BufferedPartial:
		return true
	case wire.Streamed:
		return x.noWait
	default:
		return false
	}
}

// withoutBody decides on a request that has no body.
func (x *exchange) withoutBody() error {
	if x.head.method == http.MethodPost {
		if f := x.understand(false); f != nil {
			return x.refuse(f)
		}
	}
	return x.answerHeaders()
}

// byHeaders decides on a request whose body comes later, or is of no interest.
func (x *exchange) byHeaders() error {
	x.request = passing
	if x.s.deps.Salt.Applies(x.head.path) && !x.head.needless() {
		x.s.warn(warnSalt, "requests are refused because their cache salts cannot be replaced: the proxy does not send all of their bodies before they are decided; "+
			"set request_body_mode to FULL_DUPLEX_STREAMED", "mode", x.requestMode.String())
		return x.refuse(edge.Unsalted())
	}
	switch {
	case x.head.needless():
	case x.head.model != "":
		x.unrewritten()
	case x.s.deps.Rewrite != nil:
		x.s.warn(warnHeadersOnly, "requests are decided by their headers, so that no model is known, and none rewritten; "+
			"set request_body_mode to FULL_DUPLEX_STREAMED", "mode", x.requestMode.String())
	}
	return x.answerHeaders()
}

// answerHeaders decides on what is known and answers the headers.
func (x *exchange) answerHeaders() error {
	if f := x.decide(); f != nil {
		return x.refuse(f)
	}
	x.out.Mutate(wire.RequestHeaders, &x.change)
	return x.send()
}

// collect begins to wait for the body.
func (x *exchange) collect() error {
	x.request, x.basis = collecting, byBody
	switch x.requestMode {
	case wire.Buffered, wire.BufferedPartial:
		// The proxy sends the body when this is answered, and keeps the headers back
		// until that is answered too.
		x.out.Mutate(wire.RequestHeaders, &wire.Mutation{Remove: x.head.stripped(x.s.stripAll)})
		return x.send()
	case wire.Streamed:
		x.hold = time.AfterFunc(x.s.cfg.DecisionTimeout.D(), x.hurry)
	}
	return nil
}

// hurry decides by the headers because the body was too long in coming: the proxy gives
// up when they are not answered, and does not send all of some bodies before that.
func (x *exchange) hurry() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.request != collecting {
		return
	}
	x.basis = byHurry
	x.body.gather()
	if x.byHeaders() == nil && !x.over {
		_ = x.answerOwed() // receiving will fail as well
	}
	x.letGo()
}
