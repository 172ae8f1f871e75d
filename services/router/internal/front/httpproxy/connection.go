package httpproxy

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// send sends the request and waits for the head of an answer, whatever connections turn out
// to be stale.
func (x *exchange) send(ctx context.Context, e *roster.Endpoint) (*http.Response, error) {
	return x.p.steady.RoundTrip(x.outgoing(ctx, e))
}

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
