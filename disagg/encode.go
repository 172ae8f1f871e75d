package disagg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/pointsman/pointsman/disagg/answer"
	"github.com/pointsman/pointsman/disagg/body"
)

// encodePath is where engines encode: a chat with nothing but the item.
const encodePath = "/v1/chat/completions"

// maxEncodes is how many items of one request are encoded at once.
const maxEncodes = 16

// EncodePlan is how the media of a request are encoded before it is sent.
type EncodePlan struct {
	// Encoders are the endpoints, best first; at least one. The first Shared take turns,
	// the others are to fall back on.
	Encoders []Endpoint
	Shared   int
	// Demand makes a call fail whose answer has no ec_transfer_params: nobody would find what
	// was encoded. Else they are for a storage that the engines share, or handed over, as the
	// encoders have it.
	Demand bool
	// Policy is what to do when a call fails: RetryOther, LocalPrefill (the engine that
	// decodes encodes too), Fail. Its Attempts are for each item.
	Policy Policy
}

// Encoded is what has come of it.
type Encoded struct {
	// Items is how many there are: images, audio and video, the same URL counted once.
	Items int
	// Calls are all that were made, in no order.
	Calls []Attempt
	// Local is why the engine that decodes has to encode; OK if it has not.
	Local Reason
	// Transfer are the ec_transfer_params of all answers, as one object: for Request.Encoded.
	// Nil: there are none.
	Transfer []byte
}

// EncodeError is why a request failed whose media were to be encoded elsewhere.
type EncodeError struct{ Attempt Attempt }

// Error returns the endpoint and how its call ended.
func (e *EncodeError) Error() string {
	text := "encode at " + e.Attempt.Endpoint.Address + ": " + string(e.Attempt.Reason)
	if e.Attempt.Err != nil {
		text += ": " + e.Attempt.Err.Error()
	}
	return text
}

// Unwrap returns what was behind it.
func (e *EncodeError) Unwrap() error { return e.Attempt.Err }

// Encode has each item of a chat request encoded by one of the endpoints, all at once, into
// whatever storage the engines share, or to be fetched from the encoders. Of the client's
// headers Authorization goes along.
// The error is ErrNotDivisible or what is wrong with the body, as with Begin; an
// *EncodeError if the policy says so; or the context's.
func (r *Runner) Encode(ctx context.Context, plan *EncodePlan, req *Request) (Encoded, error) {
	out := Encoded{Local: OK}
	if len(plan.Encoders) == 0 {
		return out, errors.New("the plan names no endpoint to encode")
	}
	if body.APIOf(req.URL.Path) != body.Chat {
		return out, ErrNotDivisible
	}
	o, err := body.Read(req.Body)
	if err != nil {
		return out, err
	}
	items := o.Media()
	out.Items = len(items)
	if len(items) == 0 {
		return out, nil
	}
	e := &encoding{r: r, plan: plan, req: req, o: o, began: time.Now(), out: &out, handed: make([][]byte, len(items))}
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	defer e.cancel(context.Canceled)
	slots := make(chan struct{}, maxEncodes)
	var wait sync.WaitGroup
	for i, item := range items {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			e.item(i, item)
		})
	}
	wait.Wait()
	out.Transfer = answer.Union(e.handed)
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	var failed *EncodeError
	if errors.As(context.Cause(e.ctx), &failed) {
		return out, failed
	}
	return out, nil
}

// encoding is the encoding of one request's items.
type encoding struct {
	r      *Runner
	plan   *EncodePlan
	req    *Request
	o      *body.Outline
	began  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	out    *Encoded
	handed [][]byte // ec_transfer_params, by item; nil: none
}

// item has one item encoded.
func (e *encoding) item(i int, item []byte) {
	shared := max(1, min(e.plan.Shared, len(e.plan.Encoders)))
	for failed := 0; e.ctx.Err() == nil; {
		at := (i%shared + failed) % len(e.plan.Encoders)
		a := e.call(e.plan.Encoders[at], i, failed, item)
		e.mu.Lock()
		e.out.Calls = append(e.out.Calls, a)
		e.mu.Unlock()
		if a.Reason == OK || e.ctx.Err() != nil {
			return
		}
		failed++
		switch e.plan.Policy.after(failed, time.Since(e.began), failed < len(e.plan.Encoders)) {
		case RetryOther:
			continue
		case LocalPrefill:
			e.mu.Lock()
			e.out.Local = a.Reason
			e.mu.Unlock()
			if !e.plan.Demand {
				e.cancel(errDecodeOver) // no other item has to be
			}
		default:
			e.cancel(&EncodeError{a})
		}
		return
	}
}

// call makes one call.
func (e *encoding) call(to Endpoint, i, failed int, item []byte) Attempt {
	a := Attempt{Endpoint: to, PromptTokens: -1, CachedTokens: -1}
	began := time.Now()
	ctx, cancel := e.plan.Policy.limited(e.ctx, e.began)
	defer cancel()
	var handed []byte
	handed, a.Reason, a.Err = e.send(ctx, &a, e.header(i, failed), e.o.Encode(item))
	if a.Reason == OK {
		e.handed[i] = handed // each item has one goroutine
	}
	a.Took = time.Since(began)
	switch {
	case a.Reason == OK || a.Status != 0 && a.Reason != Reset:
	case errors.Is(context.Cause(ctx), errLegTimeout):
		a.Reason = Timeout
	case e.ctx.Err() != nil:
		a.Reason = Cancelled
	}
	return a
}

// header returns the headers of a call for item i.
func (e *encoding) header(i, failed int) http.Header {
	id := e.req.ID + "-enc-" + strconv.Itoa(i)
	if failed > 0 {
		id += "-" + strconv.Itoa(failed+1)
	}
	h := http.Header{headerRequestID: {id}, "Content-Type": {"application/json"}, "Accept": {"application/json"}, "Accept-Encoding": {"identity"}, "User-Agent": nil}
	if v, ok := e.req.Header["Authorization"]; ok {
		h["Authorization"] = v
	}
	return h
}

// send makes a call and returns the ec_transfer_params of its answer, nil if it has none.
func (e *encoding) send(ctx context.Context, a *Attempt, h http.Header, b body.Body) ([]byte, Reason, error) {
	reader := func() io.ReadCloser {
		if e.req.Retain == nil {
			return b.Reader(nil)
		}
		return b.Reader(e.req.Retain())
	}
	out := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Scheme: a.Endpoint.Scheme, Host: a.Endpoint.Address, Path: encodePath}, Host: a.Endpoint.Address,
		Header: h, ContentLength: b.Size(), Body: reader(), GetBody: func() (io.ReadCloser, error) { return reader(), nil },
	}
	resp, err := e.r.transport.RoundTrip(out.WithContext(ctx))
	if err != nil {
		return nil, brokenBy(err), err
	}
	defer func() { _ = resp.Body.Close() }()
	a.Status = resp.StatusCode
	raw, err := io.ReadAll(io.LimitReader(resp.Body, e.r.cfg.MaxPrefillBytes))
	if err != nil {
		return nil, Reset, err
	}
	switch {
	case resp.StatusCode >= 400 && resp.StatusCode <= 499:
		return nil, Refused, fmt.Errorf("answered %d", resp.StatusCode)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, BadStatus, fmt.Errorf("answered %d", resp.StatusCode)
	}
	got, err := answer.Read(raw)
	switch {
	case err == nil && got.Failed:
		return nil, ReportedError, errors.New("the answer reports an error")
	case !e.plan.Demand:
	case err != nil:
		return nil, Unreadable, err
	case got.Encoded == nil:
		return nil, NoTransfer, errors.New("the answer has no ec_transfer_params")
	}
	return got.Encoded, OK, nil
}
