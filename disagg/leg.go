package disagg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/pointsman/pointsman/disagg/answer"
	"github.com/pointsman/pointsman/disagg/body"
)

// Headers, in canonical form.
const (
	headerRequestID = "X-Request-Id"
	headerLength    = "Content-Length"
	headerEncoding  = "Content-Encoding"
	headerRank      = "X-Data-Parallel-Rank"
)

// digests are the headers that say what the bytes of a body are.
var digests = [...]string{"Content-Digest", "Repr-Digest", "Digest", "Content-Md5"}

// Causes for which legs are cancelled.
var (
	errLegTimeout = errors.New("the leg took too long")
	errDecodeOver = errors.New("the decode leg has ended")
)

// send sends one leg and waits for the head of its answer.
func (x *Run) send(ctx context.Context, to Endpoint, b body.Body, h http.Header) (*http.Response, error) {
	u := *x.req.URL
	u.Scheme, u.Host, u.User = to.Scheme, to.Address, nil
	out := &http.Request{Method: http.MethodPost, URL: &u, Host: to.Address, Header: h, ContentLength: b.Size(), Body: x.reader(b)}
	out.GetBody = func() (io.ReadCloser, error) { return x.reader(b), nil }
	return x.r.transport.RoundTrip(out.WithContext(ctx))
}

func (x *Run) reader(b body.Body) io.ReadCloser {
	if x.req.Retain == nil {
		return b.Reader(nil)
	}
	return b.Reader(x.req.Retain())
}

// header returns the headers of a leg: those of the request with one id, the same on both
// legs, because vLLM's engines tell each other by it what was fetched; and, where the body
// is another, without digests.
func (x *Run) header(changed bool) http.Header {
	h := make(http.Header, len(x.req.Header)+2)
	for name, values := range x.req.Header {
		h[name] = values
	}
	if changed {
		for _, name := range digests {
			delete(h, name)
		}
	}
	delete(h, headerLength)
	h[headerRequestID] = []string{x.id}
	return h
}

// setRank names the data-parallel rank that an engine is to do a leg by; "": any.
func setRank(h http.Header, rank string) {
	if rank != "" {
		h[headerRank] = []string{rank}
	}
}

// renumber gives the legs that come next an id of their own: engines do not take an id
// twice. The first ones have the request's.
func (x *Run) renumber() {
	if x.sent++; x.sent > 1 {
		x.id = x.req.ID + "-" + strconv.Itoa(x.sent)
	}
}

// prefillHeader returns the headers of a prefill leg, whose answer is read here.
func (x *Run) prefillHeader() http.Header {
	x.renumber()
	h := x.header(true)
	h["Accept"] = []string{"application/json"}
	h["Accept-Encoding"] = []string{"identity"}
	return h
}

// limited returns a context for a leg that begins now, of which the first began before.
func (p *Policy) limited(ctx context.Context, first time.Time) (context.Context, context.CancelFunc) {
	limit := p.Timeout
	if b := p.Budget; b > 0 {
		if rest := max(b-time.Since(first), time.Millisecond); limit <= 0 || rest < limit {
			limit = rest
		}
	}
	if limit <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, errLegTimeout)
}

// result is how a prefill leg went.
type result struct {
	Attempt
	answer *http.Response // whole, if it is one that can be passed on
	got    answer.Prefill
}

// prefill sends a prefill leg and reads its answer. want says whether it must hand
// something over.
func (x *Run) prefill(ctx context.Context, to Endpoint, b body.Body, h http.Header, want bool) result {
	r := result{Attempt: Attempt{Endpoint: to, PromptTokens: -1, CachedTokens: -1}}
	began := time.Now()
	patience := x.plan.Policy
	if x.within > 0 && (patience.Timeout <= 0 || x.within < patience.Timeout) {
		patience.Timeout = x.within
	}
	leg, cancel := patience.limited(ctx, x.began)
	defer cancel()
	x.w.PrefillBegins(to)
	r.Reason, r.Err = x.prefillLeg(leg, &r, b, h, want)
	r.Took = time.Since(began)
	switch {
	case r.Reason == OK || r.Reason == Refused || r.Reason == BadStatus:
	case errors.Is(context.Cause(leg), errDecodeOver):
		r.Reason = Abandoned
	case ctx.Err() != nil:
		r.Reason = Cancelled
	case errors.Is(context.Cause(leg), errLegTimeout):
		r.Reason = Timeout
	}
	x.w.PrefillEnds(r.Attempt)
	return r
}

func (x *Run) prefillLeg(ctx context.Context, r *result, b body.Body, h http.Header, want bool) (Reason, error) {
	resp, err := x.send(ctx, r.Endpoint, b, h)
	if err != nil {
		return brokenBy(err), err
	}
	defer func() { _ = resp.Body.Close() }()
	r.Status = resp.StatusCode
	raw, err := io.ReadAll(io.LimitReader(resp.Body, x.r.cfg.MaxPrefillBytes+1))
	switch {
	case err != nil:
		return Reset, err
	case int64(len(raw)) > x.r.cfg.MaxPrefillBytes && !want && resp.StatusCode <= 299:
		if _, err = io.Copy(io.Discard, resp.Body); err != nil { // nobody needs it
			return Reset, err
		}
		return OK, nil
	case int64(len(raw)) > x.r.cfg.MaxPrefillBytes:
		return TooLarge, fmt.Errorf("the answer is larger than %d bytes", x.r.cfg.MaxPrefillBytes)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		r.answer = whole(resp, raw) //nolint:bodyclose // it is bytes
		if resp.StatusCode >= 400 && resp.StatusCode <= 499 {
			return Refused, fmt.Errorf("answered %d", resp.StatusCode)
		}
		return BadStatus, fmt.Errorf("answered %d", resp.StatusCode)
	}
	if !want && resp.Header.Get("Content-Type") == "text/event-stream" {
		return OK, nil
	}
	r.got, err = answer.Read(raw)
	r.PromptTokens, r.CachedTokens = r.got.Prompt, r.got.Cached
	switch {
	case err != nil && want:
		return Unreadable, err
	case r.got.Failed:
		return ReportedError, errors.New("the answer reports an error")
	case want && r.got.Transfer == nil:
		return NoTransfer, errors.New("the answer has no kv_transfer_params")
	}
	return OK, nil
}

// brokenBy tells how a leg broke before the head of its answer.
func brokenBy(err error) Reason {
	if unsent(err) {
		return ConnectFailed
	}
	return Reset
}

// unsent is true for an error before anything was sent.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// whole makes an answer of bytes that were read.
func whole(resp *http.Response, raw []byte) *http.Response {
	out := &http.Response{
		Status: resp.Status, StatusCode: resp.StatusCode, Proto: resp.Proto, ProtoMajor: resp.ProtoMajor, ProtoMinor: resp.ProtoMinor,
		Header: resp.Header, Request: resp.Request, ContentLength: int64(len(raw)), Body: io.NopCloser(bytes.NewReader(raw)),
	}
	out.Header[headerLength] = []string{strconv.Itoa(len(raw))}
	return out
}
