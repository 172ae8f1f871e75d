package httpproxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// maxStale is how many connections that turn out to be closed are tried at most.
const maxStale = 8

// send sends the request and waits for the head of an answer. A connection that was
// kept may have been closed by the endpoint in the meantime; if no byte of an answer
// has come over it the request is sent again, for it cannot have been answered.
func (x *exchange) send(ctx context.Context, e *roster.Endpoint) (*http.Response, error) {
	for stale := 0; ; stale++ {
		var c connection
		resp, err := x.p.transport.RoundTrip(x.outgoing(c.traced(ctx), e))
		if err == nil || ctx.Err() != nil || !c.stale() || stale == maxStale {
			return resp, err
		}
		x.p.metrics.retries.Add(ctx, 1, x.p.metrics.stale...)
	}
}

// connection is what is seen of the connection that a request goes over.
type connection struct{ reused, answered atomic.Bool }

func (c *connection) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(i httptrace.GotConnInfo) { c.reused.Store(i.Reused) },
		GotFirstResponseByte: func() { c.answered.Store(true) },
	})
}

func (c *connection) stale() bool { return c.reused.Load() && !c.answered.Load() }

// outgoing makes the request to the endpoint.
func (x *exchange) outgoing(ctx context.Context, e *roster.Endpoint) *http.Request {
	in := x.r.URL
	out := &http.Request{
		Method: x.r.Method,
		URL:    &url.URL{Scheme: e.Scheme, Host: e.Address, Path: in.Path, RawPath: in.RawPath, RawQuery: in.RawQuery, ForceQuery: in.ForceQuery},
		Header: x.headers(),
		Host:   e.Address,
	}
	x.address(out, e)
	if body := x.body; body != nil && len(body.data) > 0 {
		out.ContentLength = int64(len(body.data))
		out.Body = newBodyReader(body)
		out.GetBody = func() (io.ReadCloser, error) { return newBodyReader(body), nil }
	}
	return out.WithContext(ctx)
}

// headers returns the headers for endpoints, the same for all attempts.
func (x *exchange) headers() http.Header {
	if x.sending == nil {
		x.sending = requestHeaders(x.r, x.id)
		if x.request != nil && x.request.ClientModel != "" {
			dropDigests(x.sending)
		}
	}
	return x.sending
}
