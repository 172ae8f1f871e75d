package httpproxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/usage"
)

// relay passes an answer on as it comes. From here on nothing is repeated.
func (x *exchange) relay(a *answer) *edge.Refusal {
	defer x.close(a)
	x.drop()
	if !a.passed { // who was to prefill was judged before
		x.judge(a)
	}
	resp, h := a.resp, x.w.Header()
	answerHeaders(h, resp.Header)
	h.Set(edge.HeaderEndpoint, a.from.Address)
	if resp.StatusCode < http.StatusInternalServerError && !a.passed { // a client is not sent back to who failed it
		for _, own := range x.decision.ResponseHeaders(a.from) {
			h.Set(own.Name, own.Value)
		}
	}
	meter := usage.New(resp.Header.Get("Content-Type"), resp.Header.Get("Content-Encoding"))
	s := stream{x: x, a: a, meter: meter, first: x.reservation}
	x.status = resp.StatusCode
	for name := range resp.Trailer {
		if trailing(name) {
			h.Add("Trailer", name)
		}
	}
	x.w.WriteHeader(x.status)
	err := s.copy()
	for name, values := range resp.Trailer {
		if trailing(name) {
			h[name] = values
		}
	}
	s.settle(err)
	return nil
}

// stream is an answer on its way.
type stream struct {
	x     *exchange
	a     *answer
	meter *usage.Reader
	first route.Reservation // to be told of the first token; nil once it was
	until time.Time         // the client's deadline
}

var errClient = errors.New("the client does not take the answer")

// copy passes the answer on to its end.
func (s *stream) copy() error {
	x, a := s.x, s.a
	idle := x.p.cfg.IdleTimeout.D()
	for {
		if a.n > 0 {
			if err := s.send((*a.chunk)[:a.n]); err != nil {
				return err
			}
			a.n = 0
		}
		if a.ended {
			return nil
		}
		a.dog.watch(idle)
		err := a.read()
		a.dog.sated()
		if err != nil && a.n == 0 {
			return err
		}
	}
}

// send passes bytes on and looks at them.
func (s *stream) send(p []byte) error {
	x := s.x
	s.meter.Feed(p)
	if s.first != nil && x.status < 400 && (s.meter.Generated() || !s.meter.Streams()) {
		s.first.FirstToken()
		s.first = nil
	}
	s.extend()
	n, err := x.w.Write(p)
	x.sent += int64(n)
	if err == nil && !s.a.ended {
		err = x.out.Flush()
	}
	if err != nil {
		return errors.Join(errClient, err)
	}
	return nil
}

// extend gives the client time to take what is sent. In HTTP/2 the deadline also
// passes while there is nothing to send, so it leaves room for a silent endpoint.
func (s *stream) extend() {
	idle := s.x.p.cfg.IdleTimeout.D()
	if idle <= 0 {
		return
	}
	if now := time.Now(); s.until.Sub(now) < idle+idle/2 {
		s.until = now.Add(2 * idle)
		_ = s.x.out.SetWriteDeadline(s.until) // not all writers can
	}
}

// settle ends the reservation, and the answer so that the client sees how.
func (s *stream) settle(err error) {
	x := s.x
	c := s.meter.Counts()
	u := route.Usage{PromptTokens: c.Prompt, CachedPromptTokens: c.Cached, OutputTokens: c.Output}
	if !s.until.IsZero() {
		defer func() { _ = x.out.SetWriteDeadline(time.Time{}) }()
	}
	if err == nil || s.meter.Done() && (errors.Is(err, errClient) || x.ctx.Err() != nil) { // clients leave on the word that ends a stream
		x.finish(x.status < 400, u)
		x.why = edge.OK
		if x.status >= 500 {
			x.why = edge.BadAnswer
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		return
	}
	x.finish(false, u)
	switch {
	case errors.Is(err, errClient), x.ctx.Err() != nil:
		x.why = edge.Cancelled
		panic(http.ErrAbortHandler)
	case errors.Is(context.Cause(s.a.ctx), errIdleTimeout):
		x.why = edge.IdleTimeout
	case errors.As(err, new(*disagg.PrefillError)):
		x.why = edge.PrefillFailed
	default:
		x.why = edge.Reset
	}
	x.p.log.Debug("answer broke off", "request_id", x.id, "endpoint", s.a.from.ID, "reason", x.why.String(), "error", err)
	s.report()
	panic(http.ErrAbortHandler)
}

// report adds an event that tells the client of a broken stream.
func (s *stream) report() {
	x := s.x
	if !s.meter.Streams() {
		return
	}
	message := "the model server broke off its answer"
	switch x.why {
	case edge.IdleTimeout:
		message = "the model server fell silent"
	case edge.PrefillFailed:
		message = "the model server that was to prefill the prompt did not"
	}
	f := edge.Refusal{Status: http.StatusBadGateway, Reason: x.why, Message: message}
	n, _ := x.w.Write(f.Event(x.r.URL.Path))
	x.sent += int64(n)
	_ = x.out.Flush() // the client may have gone
}
