package extproc

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/usage"
)

// exchange is one request and its answer: one stream.
type exchange struct {
	s      *Server
	stream grpc.ServerStream
	ctx    context.Context // of the stream, with the client's trace
	began  time.Time
	in     wire.Request
	out    wire.Response
	clean  bool // nothing is known to be in disorder

	// mu is held while a message is handled, for the sake of hurry.
	mu    sync.Mutex
	hold  *time.Timer // calls hurry; nil if there is no need
	over  bool        // the stream has ended or is about to
	why   edge.Reason
	begun bool // a message has come

	request, response         phase
	requestMode, responseMode wire.Mode
	noWait                    bool

	head      head
	body      body
	held      int64 // bytes of the body that count for Server.held
	scan      scan
	prompt    *prompt.Prompt
	asked     *asked
	change    wire.Mutation // what is answered to the request
	relay     []mem.Buffer  // parts that are on their way through
	basis     basis
	rewritten bool

	decision    *route.Decision
	endpoint    *roster.Endpoint  // where the request is believed to be; nil: not decided
	reservation route.Reservation // nil: none, or ended

	status         int // of the answer that the client sees
	answered       bool
	meter          *usage.Reader
	firstToken     bool // was reported
	received, sent int64
}

// asked is the routing request and what it refers to, in one allocation. Decisions
// keep it.
type asked struct {
	request route.Request
	headers visible
	subset  route.Subset
}

func (x *exchange) begin(s *Server, stream grpc.ServerStream) {
	x.s, x.stream, x.ctx, x.began = s, stream, stream.Context(), time.Now()
	s.metrics.Begin()
}

// run takes messages until the stream ends.
func (x *exchange) run() error {
	for {
		if err := x.stream.RecvMsg(&x.in); err != nil {
			return x.left(err)
		}
		done, err := x.take()
		x.in.Reset() // the next message may be long in coming
		if done || err != nil {
			return err
		}
	}
}

// take handles the message that has come. done says that no more are wanted.
func (x *exchange) take() (done bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return true, nil // hurry has refused the request: there is no more to say
	}
	if !x.begun {
		x.begun = true
		if x.in.Observe {
			x.over = true // nothing that is answered would be heeded
			return true, nil
		}
		x.learn(x.in.Protocol)
	}
	switch x.in.Kind {
	case wire.RequestHeaders:
		err = x.requestHeaders()
	case wire.RequestBody:
		err = x.requestBody()
	case wire.RequestTrailers:
		err = x.requestTrailers()
	case wire.ResponseHeaders:
		err = x.responseHeaders()
	case wire.ResponseBody:
		err = x.responseBody()
	case wire.ResponseTrailers:
		err = x.responseTrailers()
	}
	if x.request != collecting {
		x.letGo()
	}
	if x.s.draining.Load() && x.expendable() {
		x.over = true
	}
	return x.over, err
}

// learn notes how the proxy sends bodies.
func (x *exchange) learn(p wire.Protocol) {
	x.requestMode, x.responseMode, x.noWait = x.s.assumed, x.s.assumed, p.NoWait
	if p.Known {
		x.requestMode, x.responseMode = p.Request, p.Response
	}
	x.s.metrics.mode(x.requestMode)
}

// expendable is true if the proxy can go on without the stream: the request is on its
// way, and no part of the answer can be in a buffer of ours.
func (x *exchange) expendable() bool {
	return x.request == ended && x.responseMode != wire.FullDuplex
}

// left handles the end of the stream. Proxies close or cancel a stream that they have
// no more use for, so neither is an error.
func (x *exchange) left(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case status.Code(err) == codes.ResourceExhausted:
		x.why = edge.TooLarge
	case x.in.Malformed():
		x.why = edge.BadMessage
	default:
		return nil
	}
	x.s.log.Debug("message that cannot be read", "request_id", x.head.id, "error", err)
	return err
}

// send sends x.out.
func (x *exchange) send() error { return x.stream.SendMsg(&x.out) }

// neutral answers the message that has come without effect.
func (x *exchange) neutral() error {
	x.out.Neutral(x.in.Kind)
	return x.send()
}

// holds counts bytes that are to be held. It is false if there is no room for them.
func (x *exchange) holds(n int64) bool {
	s := x.s
	if most := s.cfg.MaxBufferedBytes; s.held.Add(n) > most && most > 0 {
		s.held.Add(-n)
		return false
	}
	x.held += n
	return true
}

// letGo frees the body, of which no part is needed any more.
func (x *exchange) letGo() {
	if x.held > 0 {
		x.body.free()
		x.s.held.Add(-x.held)
		x.held = 0
	}
}

// end settles everything, whatever has happened.
func (x *exchange) end() {
	x.mu.Lock()
	x.over = true
	hurrying := x.hold != nil && !x.hold.Stop()
	x.mu.Unlock()
	x.close()
	x.prompt.Release()
	x.letGo()
	x.in.Reset()
	x.out.Drop()
	x.s.metrics.End(x.status, x.why, time.Since(x.began), x.received, x.sent)
	if hurrying || !x.clean {
		return // hurry may still have it
	}
	s := x.s
	x.reset()
	s.exchanges.Put(x)
}

// reset makes the exchange ready for another stream. What can be used again is kept.
func (x *exchange) reset() {
	*x = exchange{in: x.in, body: x.body.empty(), relay: x.relay[:0], change: wire.Mutation{Set: clearHeaders(x.change.Set)}}
}

func clearHeaders(h []wire.Header) []wire.Header {
	clear(h)
	return h[:0]
}
