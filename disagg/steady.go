package disagg

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// maxStale is how many connections that turn out to be closed are tried at most.
const maxStale = 8

// Steady is a RoundTripper that survives stale connections. One that was kept may have
// been closed by the engine in the meantime; if no byte of an answer has come over it
// the request is sent again, for it cannot have been answered. Requests with a body need
// GetBody.
type Steady struct {
	// Transport sends the requests.
	Transport http.RoundTripper
	// OnStale is called for every connection that was stale. Nil: nobody is told.
	OnStale func()
}

// RoundTrip sends the request and waits for the head of an answer.
func (s *Steady) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	for stale := 0; ; stale++ {
		var c connection
		resp, err := s.Transport.RoundTrip(r.WithContext(c.traced(ctx)))
		if err == nil || ctx.Err() != nil || !c.stale() || stale == maxStale || r.Body != nil && r.GetBody == nil {
			return resp, err
		}
		if s.OnStale != nil {
			s.OnStale()
		}
		if r.Body != nil {
			again := *r
			if again.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
			r = &again
		}
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
