package disagg

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/pointsman/pointsman/disagg/body"
)

// verdictWait is how long a prefill leg is waited for after the decode leg has answered
// with a failure: whose fault it is the prefill leg knows, and it is about to say so.
const verdictWait = 250 * time.Millisecond

// together runs both legs at once. When one of them fails the other is cancelled.
func (x *Run) together(ctx context.Context, decode Endpoint) (*http.Response, error) {
	x.start()
	for {
		p := x.pair(ctx, x.plan.Prefill[x.at])
		resp, err := p.answer(decode)
		if resp != nil && err == nil {
			return resp, nil
		}
		r := p.end()
		x.note(&r)
		x.report.Served, x.report.AnsweredBy = Nobody, Endpoint{}
		if !failure(r.Reason) {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
		resp, err = x.settle(ctx, &r)
		if resp != nil || err != nil {
			return resp, err
		}
		if x.local {
			x.renumber() // the engine has seen the other one
			return x.decodeAlone(ctx, decode)
		}
	}
}

// pair is a prefill leg that runs beside a decode leg.
type pair struct {
	x             *Run
	ctx           context.Context // of both; its cause may be a *PrefillError
	cancel        context.CancelCauseFunc
	cancelPrefill context.CancelCauseFunc
	meeting       body.Bootstrap
	done          chan result
	ended         *result
}

// pair begins a prefill leg.
func (x *Run) pair(ctx context.Context, from Endpoint) *pair {
	port := x.plan.BootstrapPort
	if port == 0 {
		port = DefaultBootstrapPort
	}
	host, _, err := net.SplitHostPort(from.Address)
	if err != nil {
		host = from.Address
	}
	p := &pair{x: x, meeting: body.Bootstrap{Host: host, Port: port, Room: x.r.room()}, done: make(chan result, 1)}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	var leg context.Context
	leg, p.cancelPrefill = context.WithCancelCause(p.ctx)
	b, h := x.o.SGLangPrefill(x.api, p.meeting), x.prefillHeader()
	release := func() {}
	if x.req.Retain != nil {
		release = x.req.Retain() // it may be sent again when the caller needs the body no more
	}
	go func() {
		defer release()
		r := x.prefill(leg, from, b, h, false)
		if failure(r.Reason) {
			p.cancel(&PrefillError{r.Attempt})
		}
		p.done <- r
	}()
	return p
}

// answer runs the decode leg up to the first byte of its answer. With an error nothing
// is open but the prefill leg.
func (p *pair) answer(decode Endpoint) (*http.Response, error) {
	resp, err := p.x.decode(p.ctx, decode, p.x.o.SGLangDecode(p.meeting), true)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode > 299 {
		if resp.StatusCode >= 500 && p.wait(verdictWait) && failure(p.ended.Reason) {
			_ = resp.Body.Close()
			return nil, &PrefillError{p.ended.Attempt}
		}
		p.cancelPrefill(errDecodeOver)
		resp.Body = &joined{ReadCloser: resp.Body, p: p}
		return resp, nil
	}
	first := make([]byte, 4<<10)
	n := 0
	for n == 0 && err == nil {
		n, err = resp.Body.Read(first)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		_ = resp.Body.Close()
		return nil, err
	}
	resp.Body = &joined{ReadCloser: resp.Body, p: p, first: first[:n], over: err}
	return resp, nil
}

// wait waits for the prefill leg to end and returns whether it has.
func (p *pair) wait(most time.Duration) bool {
	if p.ended != nil {
		return true
	}
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case r := <-p.done:
		p.ended = &r
	case <-t.C:
	}
	return p.ended != nil
}

// end ends the prefill leg, if it has not, and returns how it went.
func (p *pair) end() result {
	p.cancelPrefill(errDecodeOver)
	if p.ended == nil {
		r := <-p.done
		p.ended = &r
	}
	p.cancel(errDecodeOver)
	return *p.ended
}

// joined is the body of a decode leg's answer, with which the prefill leg ends.
type joined struct {
	io.ReadCloser
	p      *pair
	first  []byte // what was read
	over   error  // after it
	closed bool
}

// Read reads on. A stream that is cut because the prefill leg has failed says so.
func (j *joined) Read(b []byte) (int, error) {
	if len(j.first) > 0 {
		n := copy(b, j.first)
		j.first = j.first[n:]
		return n, nil
	}
	if j.over != nil {
		return 0, j.over
	}
	n, err := j.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		var failed *PrefillError
		if errors.As(context.Cause(j.p.ctx), &failed) {
			err = failed
		}
	}
	return n, err
}

// Close ends both legs.
func (j *joined) Close() error {
	if j.closed {
		return nil
	}
	j.closed = true
	err := j.ReadCloser.Close()
	r := j.p.end()
	j.p.x.note(&r)
	if failure(r.Reason) {
		j.p.x.report.Reason = r.Reason
	}
	return err
}
