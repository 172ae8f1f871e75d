package extproc

import (
	"google.golang.org/grpc/mem"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
)

// requestBody takes a part of the request's body.
func (x *exchange) requestBody() error {
	x.received += int64(x.in.Size())
	if x.request == expected {
		x.withoutHeaders()
	}
	switch x.request {
	case collecting:
		return x.keep()
	case passing:
		return x.passRequest()
	}
	if x.requestMode == wire.FullDuplex {
		return nil // an answer would come after the end
	}
	return x.neutral()
}

// withoutHeaders begins a request whose headers the proxy keeps to itself.
func (x *exchange) withoutHeaders() {
	x.s.warn(warnHeaders, "the proxy does not send the headers of requests, so that the destination cannot be put into them, "+
		"and what clients have put there is not removed; set request_header_mode to SEND")
	x.head.length = -1
	x.ask()
	x.request, x.basis = collecting, byBody
}

// keep adds to the body, and decides when there is all that can be had of it.
func (x *exchange) keep() error {
	x.readSubset()
	end := x.in.EndOfStream
	if int64(x.body.size+x.in.Size()) > x.s.cfg.MaxRequestBytes {
		return x.refuse(edge.Larger(x.s.cfg.MaxRequestBytes))
	}
	if !x.holds(int64(x.in.Size())) {
		return x.refuse(edge.Full())
	}
	x.body.add(&x.in)
	if x.requestMode == wire.Streamed {
		x.body.ends = append(x.body.ends, x.body.size)
	}
	if !end && x.more() {
		x.scanAhead()
		return nil
	}
	// Buffered bodies come in one message, which is not the end if trailers follow.
	if f := x.settle(!end && x.requestMode != wire.Buffered); f != nil {
		return x.refuse(f)
	}
	if end {
		x.request = ended
	}
	return x.answerBody(end)
}

// more is true if further messages come although the one before is not answered.
func (x *exchange) more() bool {
	return x.requestMode == wire.FullDuplex || x.requestMode == wire.Streamed && x.noWait && x.head.sent
}

// settle decides on the request with what there is of its body. part is true if that
// may not be all.
func (x *exchange) settle(part bool) *edge.Refusal {
	if x.hold != nil && x.hold.Stop() {
		x.hold = nil // hurry is not called, so the exchange can be used again
	}
	if x.head.hasSubset {
		x.asked.subset.Addresses = x.head.subset
		x.asked.request.Subset = &x.asked.subset
	}
	x.body.gather()
	f := x.understand(part)
	if f == nil {
		f = x.decide()
	}
	x.prompt.Release() // the bytes are about to go
	x.request = passing
	return f
}

// answerBody answers the headers, if they have not been, and the body. end is true if
// no trailers follow.
func (x *exchange) answerBody(end bool) error {
	switch {
	case x.requestMode == wire.FullDuplex:
		return x.answerDuplex(end)
	case x.more():
		x.out.Mutate(wire.RequestHeaders, &x.change)
		if err := x.send(); err != nil {
			return err
		}
		return x.answerOwed()
	default:
		return x.answerWhole()
	}
}

// answerDuplex sends the headers and then the body.
func (x *exchange) answerDuplex(end bool) error {
	where := x.change.Metadata
	if x.head.sent {
		where = wire.Metadata{}
		x.out.Mutate(wire.RequestHeaders, &x.change)
		if err := x.send(); err != nil {
			return err
		}
	}
	parts := x.body.parts
	defer x.body.forget()
	return x.sendStreamed(wire.RequestBody, parts, end, where)
}

// answerWhole answers the one message that held the body.
func (x *exchange) answerWhole() error {
	if x.rewritten {
		x.change.ReplaceBody, x.change.Body = true, x.body.parts
		defer x.body.forget()
	}
	x.out.Mutate(wire.RequestBody, &x.change)
	return x.send()
}

// answerOwed answers every message of the body that was kept: each is as it was, unless
// the model in it was rewritten.
func (x *exchange) answerOwed() error {
	ends := x.body.ends
	defer x.body.forget()
	rest, at := x.body.parts, 0
	for _, end := range ends {
		var own []mem.Buffer
		own, rest = split(rest, end-at)
		at = end
		if x.rewritten {
			x.out.Mutate(wire.RequestBody, &wire.Mutation{ReplaceBody: true, Body: own})
		} else {
			for _, p := range own {
				p.Free()
			}
			x.out.Neutral(wire.RequestBody)
		}
		if err := x.send(); err != nil {
			for _, p := range rest {
				p.Free()
			}
			return err
		}
	}
	return nil
}

// passRequest passes on what comes after the decision.
func (x *exchange) passRequest() error {
	end := x.in.EndOfStream
	if end {
		x.request = ended
	}
	if x.requestMode != wire.FullDuplex {
		return x.neutral()
	}
	x.relay = x.in.TakeBody(x.relay[:0])
	return x.sendStreamed(wire.RequestBody, x.relay, end, wire.Metadata{})
}
