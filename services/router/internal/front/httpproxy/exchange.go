package httpproxy

import (
	"context"
	"errors"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
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
	asked   *buffer // what the prompt was read from, if that is not sent
	prompt  *prompt.Prompt
	request *route.Request

	decision    *route.Decision
	legs        legs              // of the decision, if others take part
	dog         *watchdog         // of the attempt under way
	guarded     bool              // the body was looked at
	handed      int               // attempts that failed with what another endpoint had prefilled
	suspected   []handover        // of these attempts
	reservation route.Reservation // nil: none, or ended
	tried       []roster.ID
	encoded     []byte       // ec_transfer_params of those who have encoded its media
	sending     http.Header  // what goes to endpoints
	saved       *savedAnswer // the last answer of an endpoint that failed

	// What the client has seen and why it ended.
	status         int
	why            edge.Reason
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

// serve does everything; a refusal that it returns is still to be written. open is how
// many requests are under way, this one among them.
func (x *exchange) serve(open int64) *edge.Refusal {
	x.id = requestID(x.r.Header)
	x.w.Header().Set(edge.HeaderRequestID, x.id)
	path := x.r.URL.Path
	switch {
	case x.ctx.Err() != nil: // reset before its turn came
		x.why = edge.Cancelled
		return nil
	case x.p.cfg.MaxRequests > 0 && open > int64(x.p.cfg.MaxRequests):
		if x.r.ContentLength != 0 {
			x.leaveBody()
		}
		return &edge.Refusal{Status: http.StatusServiceUnavailable, Reason: edge.TooMany, Message: "the router has as many requests under way as it may", Retry: true}
	case !x.p.cfg.served(path):
		return edge.Unserved()
	case wantsUpgrade(x.r):
		return &edge.Refusal{Status: http.StatusNotImplemented, Reason: edge.Upgrade, Message: "upgrading the connection, as WebSockets do, is not supported"}
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
func (x *exchange) readBody() *edge.Refusal {
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
		return edge.Full()
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.leaveBody()
		return &edge.Refusal{Status: http.StatusRequestTimeout, Reason: edge.BodyTimeout, Message: "the body did not come in time"}
	case x.ctx.Err() != nil:
		x.why = edge.Cancelled
		return nil
	default:
		x.leaveBody()
		return &edge.Refusal{Status: http.StatusBadRequest, Reason: edge.BadBody, Message: "the body could not be read to its end"}
	}
}

// leaveBody gives up on the rest of the body: the answer does not wait for it, and the
// connection is closed soon after.
func (x *exchange) leaveBody() {
	x.w.Header().Set("Connection", "close")
	_ = x.out.EnableFullDuplex() // only HTTP/1.1 needs it
	_ = x.out.SetReadDeadline(time.Now().Add(lingering))
}

func (x *exchange) tooLarge() *edge.Refusal {
	x.leaveBody()
	return edge.Larger(x.p.cfg.MaxRequestBytes)
}

// understand makes the routing request of what was received.
func (x *exchange) understand() *edge.Refusal {
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
	if got.Opaque == prompt.UnreadEncoding {
		x.p.metrics.Unread()
	}
	x.describe(got)
	return x.rewrite(got)
}

// read reads the body that is to be sent.
func (x *exchange) read() (*prompt.Reading, *edge.Refusal) {
	var raw []byte
	if x.body != nil {
		raw = x.body.data
	}
	got, err := x.p.parser.Read(prompt.Input{
		Path: x.r.URL.Path, Body: raw, ContentType: x.r.Header.Get("Content-Type"),
		ContentEncoding: strings.Join(x.r.Header["Content-Encoding"], ","),
	})
	return got, edge.OfReading(got, err)
}

// describe takes over what was read.
func (x *exchange) describe(got *prompt.Reading) {
	r := x.request
	r.Model, r.Adapter, r.SessionKey = got.Model, got.Adapter, got.SessionKey
	r.PromptTokens, r.MaxOutputTokens, r.Media, r.Streams = got.PromptTokens, got.MaxOutputTokens, got.Media, got.Stream
	if got.Prompt != nil {
		r.Prompt, x.prompt = got.Prompt, got.Prompt
	}
	if r.SessionKey == "" {
		if s := x.r.Header.Get("X-Session-Id"); edge.UsableID(s) {
			r.SessionKey = s
		}
	}
}

// fail answers with a failure of our own, unless the client has gone.
func (x *exchange) fail(f *edge.Refusal) {
	x.why = f.Reason
	// net/http cancels the context when reading fails, also for a body that is late.
	if x.ctx.Err() != nil && f.Reason != edge.BodyTimeout {
		x.why = edge.Cancelled
		return
	}
	x.p.log.Debug("request refused", "request_id", x.id, "status", f.Status, "reason", f.Reason.String())
	x.status = f.Status
	x.sent += int64(x.write(f))
}

// drop lets go of the body, which is not needed once an answer has begun.
func (x *exchange) drop() {
	x.prompt.Release()
	for _, b := range [...]**buffer{&x.body, &x.asked} {
		if *b != nil {
			(*b).release()
			*b = nil
		}
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
		x.why = edge.Internal
		x.p.log.Error("panic in the HTTP front", "request_id", x.id, "panic", run.PanicText(fault), "stack", string(debug.Stack()))
		if x.status == 0 {
			x.status = http.StatusInternalServerError
			x.write(&edge.Refusal{Status: x.status, Reason: edge.Internal, Message: "internal error"})
			fault = nil
		} else {
			fault = http.ErrAbortHandler
		}
	}
	x.p.metrics.End(x.status, x.why, time.Since(x.began), x.received, x.sent)
	if fault != nil {
		panic(fault)
	}
}
