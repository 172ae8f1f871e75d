package disagg

import (
	"context"
	"errors"
	"io"
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
		resp, r, err := x.both(ctx, decode)
		if r == nil {
			return resp, nil
		}
		x.note(r)
		x.report.Served, x.report.AnsweredBy = Nobody, Endpoint{}
		if !failure(r.Reason) {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
		resp, err = x.settle(ctx, r)
		if resp != nil || err != nil {
			return resp, err
		}
		if x.local {
			x.renumber() // the engine has seen the other one
			return x.decodeAlone(ctx, decode)
		}
	}
}

// both runs the legs once, up to the first byte of the answer. Without an answer it returns
// how the prefill leg ended, and the decode leg's error.
func (x *Run) both(ctx context.Context, decode Endpoint) (*http.Response, *result, error) {
	from := x.plan.Prefill[x.at]
	x.report.HandedBy = from
	h := x.prefillHeader()
	l, failed := x.link(ctx, from, decode)
	if failed != nil {
		return nil, failed, failed.Err
	}
	p := x.pair(ctx, from, l, h)
	resp, err := p.answer(decode)
	if err == nil {
		return resp, nil, nil
	}
	r := p.end()
	if ctx.Err() == nil {
		l.broken()
	}
	return nil, &r, err
}

// link is what two legs are sent that are sent at once.
type link struct {
	prefill, decode         body.Body
	prefillRank, decodeRank string // data-parallel ranks; empty: any
	// within limits how long the answer waits for the prefill leg; 0: it does not.
	within time.Duration
	// broken is told that the engines did not do it.
	broken func()
}

// link says what the legs are sent; or why they cannot be.
func (x *Run) link(ctx context.Context, from, decode Endpoint) (link, *result) {
	switch {
	case x.plan.Connector == Mooncake:
		return x.mooncake(ctx, from)
	case x.plan.MoRIIO != nil:
		return x.writtenBeside(from, decode), nil
	}
	port := x.plan.BootstrapPort
	if port == 0 {
		port = DefaultBootstrapPort
	}
	meeting := body.Bootstrap{Host: hostOf(from.Address), Port: port, Room: x.r.room()}
	return link{prefill: x.o.SGLangPrefill(x.api, meeting), decode: x.o.SGLangDecode(meeting), broken: func() {}}, nil
}

// pair is a prefill leg that runs beside a decode leg.
type pair struct {
	x             *Run
	ctx           context.Context // of both; its cause may be a *PrefillError
	cancel        context.CancelCauseFunc
	cancelPrefill context.CancelCauseFunc
	link          link
	done          chan result
	ended         *result
}

// pair begins a prefill leg.
func (x *Run) pair(ctx context.Context, from Endpoint, l link, h http.Header) *pair {
	p := &pair{x: x, link: l, done: make(chan result, 1)}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	var leg context.Context
	leg, p.cancelPrefill = context.WithCancelCause(p.ctx)
	setRank(h, l.prefillRank)
	x.decodeRank, x.within = l.decodeRank, l.within
	release := func() {}
	if x.req.Retain != nil {
		release = x.req.Retain() // it may be sent again when the caller needs the body no more
	}
	go func() {
		defer release()
		r := x.prefill(leg, from, l.prefill, h, false)
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
	resp, err := p.x.decode(p.ctx, decode, p.link.decode, true)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode > 299 {
		if resp.StatusCode >= 500 {
			p.link.broken()
			if p.wait(verdictWait) && failure(p.ended.Reason) {
				_ = resp.Body.Close()
				return nil, &PrefillError{p.ended.Attempt}
			}
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
	if p.link.within > 0 {
		if err := p.commit(); err != nil {
			_ = resp.Body.Close()
			return nil, err
		}
	}
	resp.Body = &joined{ReadCloser: resp.Body, p: p, first: first[:n], over: err}
	if p.link.within > 0 {
		p.x.splice(resp)
	}
	return resp, nil
}

// commit waits until the prefill leg has done its work. What it should have written the
// decode engine may not have missed yet.
func (p *pair) commit() error {
	if p.ended == nil {
		r := <-p.done // it ends in time, or with the client
		p.ended = &r
	}
	if p.ended.Reason != OK {
		return &PrefillError{p.ended.Attempt}
	}
	p.x.cached = p.ended.got.Cached
	return nil
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
		switch {
		case errors.As(context.Cause(j.p.ctx), &failed):
			err = failed
		case j.p.ctx.Err() == nil:
			j.p.link.broken()
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
		j.p.link.broken()
	}
	return err
}
