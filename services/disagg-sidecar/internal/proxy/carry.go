package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/disagg/body"
)

// carry has media encoded by the encoders and the prompt prefilled by one of the targets,
// if there are any, and passes the answer on. source is whom the engine that prefills pulls
// from what is cached of it; "": nobody.
func (x *exchange) carry(targets, encoders []disagg.Endpoint, source string) *refusal {
	raw, f := x.read()
	if f != nil {
		return f
	}
	defer x.p.held.Add(-int64(cap(raw)))
	req := &disagg.Request{URL: x.r.URL, Header: onwards(x.r.Header), ID: requestID(x.r.Header), Body: raw}
	if len(encoders) > 0 {
		if f := x.encode(req, encoders); f != nil {
			return f
		}
	}
	if chunks := x.chunks(req); chunks != nil {
		return x.inRounds(chunks, targets, source)
	}
	if len(targets) == 0 {
		return x.passAlone(req, source)
	}
	run, err := x.p.runner.Begin(x.p.plan(targets, source), req, x.p.metrics)
	if errors.Is(err, disagg.ErrSeveral) {
		x.p.metrics.alone(several)
		return x.passAlone(req, source)
	}
	if err != nil {
		return &refusal{http.StatusBadRequest, BadBody, err.Error()}
	}
	if source != "" {
		x.p.metrics.source(sourceUsed)
	}
	resp, err := x.send(run)
	if err != nil {
		return refuse(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return x.relay(resp)
}

// send runs the legs.
func (x *exchange) send(run *disagg.Run) (*http.Response, error) {
	resp, err := run.Send(x.r.Context(), x.rank.endpoint)
	if err != nil {
		return nil, err
	}
	switch said := run.Report(); {
	case said.Served == disagg.ByDecodeAlone && said.Reason == disagg.Cached:
		x.p.metrics.alone(string(disagg.Cached))
	case said.Served == disagg.ByPrefillAlone && resp.StatusCode >= 500:
		resp.Header.Set("X-Pointsman-Reason", string(PrefillFailed)) // so that the router does not blame who decodes
	}
	return resp, nil
}

// passAlone sends a body that was read to the model server, without what clients must not
// say: whom it should fetch a KV cache from. It may be told to pull from the source. A body
// that cannot be read is refused: engines read more than JSON, such as NaN and UTF-16, and
// would find in it what cannot be removed here.
func (x *exchange) passAlone(req *disagg.Request, source string) *refusal {
	raw := req.Body
	o, err := body.Read(raw)
	if err != nil && source != "" {
		x.p.metrics.source(sourceUnreadable)
	}
	switch {
	case errors.Is(err, body.ErrNotObject): // it has no members; the model server says what is wrong
	case err != nil:
		return &refusal{http.StatusBadRequest, BadBody, err.Error()}
	default:
		if alone, changed := x.alone(o.Encoded(req.Encoded), source); changed {
			raw = alone.Bytes()
			for _, name := range [...]string{"Content-Digest", "Repr-Digest", "Digest", "Content-Md5", "Content-Length"} {
				x.r.Header.Del(name)
			}
		}
	}
	x.r.Body, x.r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return x.pass()
}

// passCompressed sends a body that is said to be compressed to the model server. One that is
// not would be read there, with what clients must not say.
func (x *exchange) passCompressed() *refusal {
	if !x.p.cfg.Allow.Pool {
		return x.pass()
	}
	raw, f := x.read()
	if f != nil {
		return f
	}
	defer x.p.held.Add(-int64(cap(raw)))
	if err := body.Compressed(raw); err != nil {
		return &refusal{http.StatusBadRequest, BadBody, err.Error()}
	}
	x.r.Body, x.r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return x.pass()
}

// alone makes the body for the model server that prefills by itself. It is true if that is
// not the client's.
func (x *exchange) alone(o *body.Outline, source string) (body.Body, bool) {
	switch {
	case source == "":
	case o.Several(body.APIOf(x.r.URL.Path)):
		x.p.metrics.source(sourceSeveral)
	default:
		x.p.metrics.source(sourceUsed)
		return o.NIXLDecode(x.p.p2p().Pull(source)), true
	}
	return o.Alone()
}

// encode has the request's media encoded.
func (x *exchange) encode(req *disagg.Request, encoders []disagg.Endpoint) *refusal {
	c := x.p.cfg.Encode
	said, err := x.p.encoder.Encode(x.r.Context(), &disagg.EncodePlan{
		Encoders: encoders, Shared: len(encoders), Demand: c.Connector == ecNIXL,
		Policy: disagg.Policy{OnFailure: x.p.encodes, Timeout: c.Timeout.D(), Budget: c.Budget.D()},
	}, req)
	for _, a := range said.Calls {
		x.p.metrics.encoded(string(a.Reason))
	}
	req.Encoded = said.Transfer
	switch {
	case err == nil, errors.Is(err, disagg.ErrNotDivisible):
		return nil
	case errIs[*disagg.EncodeError](err), x.r.Context().Err() != nil:
		return &refusal{http.StatusBadGateway, EncodeFailed, "the model server that was to encode the media did not"}
	}
	return &refusal{http.StatusBadRequest, BadBody, err.Error()}
}

var errFull = errors.New("too many bytes of bodies are held")

// read reads the body; what it is held in is counted.
func (x *exchange) read() ([]byte, *refusal) {
	limit := x.p.cfg.MaxRequestBytes
	if x.r.ContentLength > limit {
		return nil, x.tooLarge()
	}
	out := http.NewResponseController(x.w)
	var b bytes.Buffer
	counted := 0
	grow := func(n int) error {
		b.Grow(n)
		more := b.Cap() - counted
		counted = b.Cap()
		if x.p.held.Add(int64(more)) > x.p.cfg.MaxBufferedBytes {
			return errFull
		}
		return nil
	}
	err := grow(int(max(4096, min(x.r.ContentLength+1, 256<<10))))
	for err == nil {
		if b.Available() == 0 {
			if err = grow(b.Cap()); err != nil {
				break
			}
		}
		_ = out.SetReadDeadline(time.Now().Add(x.p.cfg.BodyTimeout.D())) // not all writers can
		var n int
		n, err = x.r.Body.Read(b.AvailableBuffer()[:b.Available()])
		b.Write(b.AvailableBuffer()[:n])
		if int64(b.Len()) > limit {
			err = new(http.MaxBytesError)
		}
	}
	if errors.Is(err, io.EOF) {
		_ = out.SetReadDeadline(time.Time{})
		x.p.held.Add(int64(cap(b.Bytes()) - counted)) // what is given back is what is held
		return b.Bytes(), nil
	}
	x.p.held.Add(-int64(counted))
	switch {
	case errors.Is(err, errFull):
		x.leave()
		return nil, &refusal{http.StatusServiceUnavailable, BuffersFull, "the sidecar holds as many bytes of request bodies as it may"}
	case errIs[*http.MaxBytesError](err):
		return nil, x.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.leave()
		return nil, &refusal{http.StatusRequestTimeout, BodyTimeout, "the body did not come in time"}
	}
	x.leave()
	return nil, &refusal{http.StatusBadRequest, BadBody, "the body could not be read to its end"}
}

func (x *exchange) tooLarge() *refusal {
	x.leave()
	return &refusal{http.StatusRequestEntityTooLarge, TooLarge, "the body is larger than the sidecar may hold"}
}

// leave gives up on the rest of the body.
func (x *exchange) leave() {
	x.w.Header().Set("Connection", "close")
	out := http.NewResponseController(x.w)
	_ = out.EnableFullDuplex() // only HTTP/1.1 needs it
	_ = out.SetReadDeadline(time.Now().Add(time.Second))
}

// refuse answers for a leg that failed.
func refuse(err error) *refusal {
	var prefill *disagg.PrefillError
	var op *net.OpError
	switch {
	case errors.As(err, &prefill) && prefill.Attempt.Reason == disagg.Timeout:
		return &refusal{http.StatusGatewayTimeout, PrefillFailed, "the model server that was to prefill the prompt did not in time"}
	case errors.As(err, &prefill):
		return &refusal{http.StatusBadGateway, PrefillFailed, "the model server that was to prefill the prompt did not (" + string(prefill.Attempt.Reason) + ")"}
	case errIs[*disagg.RoundError](err):
		return &refusal{http.StatusBadGateway, DecodeFailed, "the model server did not go on with its answer: " + err.Error()}
	case errors.Is(err, disagg.ErrDecodeTimeout):
		return &refusal{http.StatusGatewayTimeout, DecodeTimeout, "the model server did not begin to answer in time"}
	case errors.As(err, &op) && op.Op == "dial":
		return &refusal{http.StatusServiceUnavailable, NotReady, "the model server cannot be reached; it may not be ready yet"}
	}
	return &refusal{http.StatusBadGateway, DecodeFailed, "the model server broke the connection before it answered"}
}
