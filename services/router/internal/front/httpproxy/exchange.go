package httpproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// lingering is how long the rest of a refused body is taken, so that the client gets to
// read the answer.
const lingering = time.Second

// exchange is one request and its answer.
type exchange struct {
	p     *Proxy
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context
	out   *http.ResponseController
	began time.Time

	id      string
	body    *buffer // nil: none, or no longer needed
	prompt  *prompt.Prompt
	request *route.Request

	decision    *route.Decision
	reservation route.Reservation // nil: none, or ended
	tried       []roster.ID
	sending     http.Header  // what goes to endpoints
	saved       *savedAnswer // the last answer of an endpoint that failed

	// What the client has seen and why it ended.
	status         int
	why            reason
	received, sent int64
}

// traced returns the request's context with its trace, so that what the router
// records belongs to it.
func traced(r *http.Request) context.Context {
	if _, ok := r.Header["Traceparent"]; !ok {
		return r.Context()
	}
	return propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
}

// serve does everything; a failure that it returns is still to be written.
func (x *exchange) serve() *failure {
	x.id = requestID(x.r.Header)
	x.w.Header().Set(headerRequestID, x.id)
	path := x.r.URL.Path
	switch {
	case x.ctx.Err() != nil: // reset before its turn came
		x.why = cancelled
		return nil
	case !x.p.cfg.served(path):
		return &failure{status: http.StatusNotFound, reason: notFound, message: "this path is not served here"}
	case wantsUpgrade(x.r):
		return &failure{status: http.StatusNotImplemented, reason: upgrade, message: "upgrading the connection, as WebSockets do, is not supported"}
	}
	if done, f := x.models(path); done || f != nil {
		return f
	}
	if f := x.readBody(); f != nil {
		return f
	}
	if f := x.understand(); f != nil {
		return f
	}
	return x.forward()
}

// readBody reads the request's body into memory.
func (x *exchange) readBody() *failure {
	limit := x.p.cfg.MaxRequestBytes
	if x.r.ContentLength == 0 || x.r.Body == http.NoBody {
		return nil
	}
	if x.r.ContentLength > limit {
		return x.tooLarge()
	}
	b, err := x.p.buffers.read(x.r.Body, x.r.ContentLength, limit, func() {
		_ = x.out.SetReadDeadline(time.Now().Add(x.p.cfg.BodyTimeout.D())) // not all writers can
	})
	switch {
	case err == nil:
		_ = x.out.SetReadDeadline(time.Time{})
		x.body, x.received = b, int64(len(b.data))
		return nil
	case errors.Is(err, errBodyTooLarge):
		return x.tooLarge()
	case errors.Is(err, errBuffersFull):
		x.leaveBody()
		return &failure{status: http.StatusServiceUnavailable, reason: buffersFull, retry: true, message: "the router holds as many bytes of request bodies as it may"}
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.leaveBody()
		return &failure{status: http.StatusRequestTimeout, reason: bodyTimeout, message: "the body did not come in time"}
	case x.ctx.Err() != nil:
		x.why = cancelled
		return nil
	default:
		x.leaveBody()
		return &failure{status: http.StatusBadRequest, reason: badBody, message: "the body could not be read to its end"}
	}
}

// leaveBody gives up on the rest of the body: the answer does not wait for it, and the
// connection is closed soon after.
func (x *exchange) leaveBody() {
	x.w.Header().Set("Connection", "close")
	_ = x.out.EnableFullDuplex() // only HTTP/1.1 needs it
	_ = x.out.SetReadDeadline(time.Now().Add(lingering))
}

func (x *exchange) tooLarge() *failure {
	x.leaveBody()
	return &failure{
		status: http.StatusRequestEntityTooLarge, reason: tooLarge,
		message: fmt.Sprintf("the body is larger than %d bytes", x.p.cfg.MaxRequestBytes),
	}
}

// understand makes the routing request of what was received.
func (x *exchange) understand() *failure {
	x.request = &route.Request{ID: x.id, Path: x.r.URL.Path, MaxOutputTokens: -1, Headers: seenHeaders(x.r.Header)}
	if x.p.policy != nil {
		x.request.Priority = x.p.policy.PriorityOf(x.request.Headers)
	}
	if x.body == nil && x.r.Method != http.MethodPost {
		return nil
	}
	got, f := x.read()
	if f != nil {
		return f
	}
	x.describe(got)
	return x.rewrite(got)
}

// read reads the body that is to be sent.
func (x *exchange) read() (*prompt.Reading, *failure) {
	var raw []byte
	if x.body != nil {
		raw = x.body.data
	}
	got, err := x.p.parser.Read(prompt.Input{
		Path: x.r.URL.Path, Body: raw, ContentType: x.r.Header.Get("Content-Type"),
		ContentEncoding: strings.Join(x.r.Header["Content-Encoding"], ","),
	})
	var bad *prompt.Error
	switch {
	case errors.As(err, &bad):
		return nil, refused(bad)
	case err != nil:
		return nil, &failure{status: http.StatusBadRequest, reason: badBody, message: err.Error()}
	case got.Model == "" && got.Opaque == "" && got.Kind.NeedsModel():
		return nil, &failure{status: http.StatusBadRequest, reason: modelMissing, message: "the request does not name a model", param: "model"}
	}
	return got, nil
}

// describe takes over what was read.
func (x *exchange) describe(got *prompt.Reading) {
	r := x.request
	r.Model, r.Adapter, r.SessionKey = got.Model, got.Adapter, got.SessionKey
	r.PromptTokens, r.MaxOutputTokens = got.PromptTokens, got.MaxOutputTokens
	if got.Prompt != nil {
		r.Prompt, x.prompt = got.Prompt, got.Prompt
	}
	if r.SessionKey == "" {
		if s := x.r.Header.Get("X-Session-Id"); len(s) <= 128 && printable(s) {
			r.SessionKey = s
		}
	}
}

// fail answers with a failure of our own, unless the client has gone.
func (x *exchange) fail(f *failure) {
	x.why = f.reason
	// net/http cancels the context when reading fails, also for a body that is late.
	if x.ctx.Err() != nil && f.reason != bodyTimeout {
		x.why = cancelled
		return
	}
	x.p.log.Debug("request refused", "request_id", x.id, "status", f.status, "reason", f.reason.String())
	x.status = f.status
	x.sent += int64(f.write(x.w))
}

// drop lets go of the body, which is not needed once an answer has begun.
func (x *exchange) drop() {
	x.prompt.Release()
	if x.body != nil {
		x.body.release()
		x.body = nil
	}
}

// finish ends the reservation.
func (x *exchange) finish(completed bool, u route.Usage) {
	if x.reservation != nil {
		x.reservation.Finish(completed, u)
		x.reservation = nil
	}
}

// end settles everything, whatever has happened.
func (x *exchange) end() {
	fault := recover()
	x.finish(false, route.NoUsage())
	x.drop()
	if fault != nil && fault != http.ErrAbortHandler { //nolint:errorlint // a panic's value, compared as net/http does
		x.why = internal
		x.p.log.Error("panic in the HTTP front", "request_id", x.id, "panic", run.PanicText(fault), "stack", string(debug.Stack()))
		if x.status == 0 {
			x.status = http.StatusInternalServerError
			f := failure{status: x.status, reason: internal, message: "internal error"}
			f.write(x.w)
			fault = nil
		} else {
			fault = http.ErrAbortHandler
		}
	}
	x.p.metrics.end(x.status, x.why, time.Since(x.began), x.received, x.sent)
	if fault != nil {
		panic(fault)
	}
}
