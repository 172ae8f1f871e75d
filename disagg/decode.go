package disagg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pointsman/pointsman/disagg/answer"
	"github.com/pointsman/pointsman/disagg/body"
)

// ErrDecodeTimeout says that the decode leg's answer did not begin in time.
var ErrDecodeTimeout = errors.New("the decode leg did not begin to answer in time")

// decodeAlone sends the client's request to the engine that decodes, which prefills too.
func (x *Run) decodeAlone(ctx context.Context, decode Endpoint) (*http.Response, error) {
	x.decodeRank, x.within = "", 0
	b, changed := x.o.Alone()
	if x.plan.Connector == SharedStorage && x.o.Threshold() {
		b, changed = x.o.SharedDecode(), true // else it would decline once more
	}
	x.report.HandedBy = Endpoint{}
	resp, err := x.decode(ctx, decode, b, changed)
	if err == nil {
		x.report.Served = ByDecodeAlone
	}
	return resp, err
}

// decode sends a decode leg and waits for the head of its answer. changed says that its
// body is not the client's.
func (x *Run) decode(ctx context.Context, to Endpoint, b body.Body, changed bool) (*http.Response, error) {
	leg, cancel := context.WithCancelCause(ctx)
	if d := x.r.cfg.DecodeTimeout; d > 0 {
		t := time.AfterFunc(d, func() { cancel(ErrDecodeTimeout) })
		defer t.Stop()
	}
	h := x.header(changed)
	setRank(h, x.decodeRank)
	if x.splices() {
		h["Accept-Encoding"] = []string{"identity"}
	}
	resp, err := x.send(leg, to, b, h)
	if err != nil {
		if errors.Is(context.Cause(leg), ErrDecodeTimeout) {
			err = fmt.Errorf("%w: %w", ErrDecodeTimeout, err)
		}
		cancel(context.Canceled)
		return nil, err
	}
	resp.Body = &cancelling{resp.Body, cancel}
	x.report.Served, x.report.AnsweredBy = ByDecode, to
	return resp, nil
}

// cancelling is a body whose leg ends with it.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close ends the leg.
func (c *cancelling) Close() error {
	c.cancel(context.Canceled)
	return c.ReadCloser.Close()
}

// kind is how an answer is written.
type kind uint8

const (
	opaque kind = iota
	document
	events
)

func kindOf(resp *http.Response) kind {
	if e := resp.Header.Get(headerEncoding); e != "" && !strings.EqualFold(e, "identity") {
		return opaque
	}
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch media = strings.ToLower(strings.TrimSpace(media)); {
	case media == "text/event-stream":
		return events
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		return document
	}
	return opaque
}

// details returns the key of the details of a prompt's tokens in answers, "" for APIs
// whose answers have none.
func (x *Run) details() string {
	switch x.api {
	case body.Chat, body.Completions:
		return "prompt_tokens_details"
	case body.Responses:
		return "input_tokens_details"
	}
	return ""
}

// splices is true if the next decode leg's answer is to be changed, or may be.
func (x *Run) splices() bool {
	return x.details() != "" && (x.transfer != nil && x.cached >= 0 || x.within > 0)
}

// splice puts the prefill leg's number of cached tokens into an answer.
func (x *Run) splice(resp *http.Response) {
	k := kindOf(resp)
	if x.cached < 0 || x.details() == "" || k == opaque || resp.StatusCode < 200 || resp.StatusCode > 299 {
		return
	}
	for _, name := range digests {
		delete(resp.Header, name)
	}
	delete(resp.Header, headerLength)
	resp.ContentLength = -1
	resp.Body = &splicing{ReadCloser: resp.Body, s: answer.NewSplicer(x.cached, x.details(), k == events)}
}

// splicing is a body that is changed while it is read.
type splicing struct {
	io.ReadCloser
	s     *answer.Splicer
	ready []byte // to be handed out
	made  []byte // what ready is part of
	err   error  // after it
}

// Read reads on.
func (p *splicing) Read(b []byte) (int, error) {
	for len(p.ready) == 0 && p.err == nil && len(b) > 0 {
		var n int
		n, p.err = p.ReadCloser.Read(b)
		p.made = p.s.Splice(p.made[:0], b[:n])
		if p.err != nil {
			p.made = p.s.End(p.made)
		}
		p.ready = p.made
	}
	n := copy(b, p.ready)
	p.ready = p.ready[n:]
	if len(p.ready) == 0 {
		return n, p.err
	}
	return n, nil
}
