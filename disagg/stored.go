package disagg

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/pointsman/pointsman/disagg/answer"
)

// stored runs the legs of engines that share a storage. A client that says which part
// of the prompt must be cached is asked for by the decode leg first.
func (x *Run) stored(ctx context.Context, decode Endpoint) (*http.Response, error) {
	if x.o.Threshold() && !x.prefilled {
		resp, err := x.cachedOnly(ctx, decode)
		if resp != nil || err != nil {
			return resp, err
		}
	}
	if !x.prefilled {
		b := x.o.SharedPrefill(x.api)
		resp, err := x.ensure(ctx, func(Endpoint) asked { return asked{body: b} })
		if resp != nil || err != nil {
			return resp, err
		}
		if x.local {
			return x.decodeAlone(ctx, decode)
		}
	}
	return x.decode(ctx, decode, x.o.SharedDecode(), true)
}

// cachedOnly sends the client's own request to the engine that decodes. With neither an
// answer nor an error too little was cached.
func (x *Run) cachedOnly(ctx context.Context, decode Endpoint) (*http.Response, error) {
	b, changed := x.o.Alone()
	resp, err := x.decode(ctx, decode, b, changed)
	if err != nil {
		return nil, err
	}
	kind := kindOf(resp)
	if resp.StatusCode > 299 || kind == opaque {
		return x.unneeded(resp), nil
	}
	p := answer.NewPeek(kind == events)
	chunk := make([]byte, 4<<10)
	for {
		n, err := resp.Body.Read(chunk)
		if err != nil && !errors.Is(err, io.EOF) {
			_ = resp.Body.Close()
			return nil, err
		}
		switch p.Feed(chunk[:n], err != nil) {
		case answer.Declined:
			_ = resp.Body.Close()
			x.report.Served, x.report.AnsweredBy = Nobody, Endpoint{}
			return nil, nil
		case answer.Accepted:
			resp.Body = &prefixed{seen: p.Seen, ReadCloser: resp.Body}
			return x.unneeded(resp), nil
		}
	}
}

// unneeded notes that no prefill leg is needed.
func (x *Run) unneeded(resp *http.Response) *http.Response {
	x.report.Served, x.report.Reason = ByDecodeAlone, Cached
	return resp
}

// prefixed is a body of which the beginning was read.
type prefixed struct {
	seen []byte
	io.ReadCloser
}

// Read reads on.
func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.seen) > 0 {
		n := copy(b, p.seen)
		p.seen = p.seen[n:]
		return n, nil
	}
	return p.ReadCloser.Read(b)
}
