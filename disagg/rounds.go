package disagg

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"

	"github.com/pointsman/pointsman/disagg/answer"
	"github.com/pointsman/pointsman/disagg/body"
)

// Chunks is a chat request whose answer is decoded in rounds: each is a request of its own,
// for a limited number of tokens, which goes on with the text of those before.
type Chunks struct {
	req    *Request
	rounds *body.Rounds
	size   int64
	first  *Request
	watch  func(Reason)
}

// Sender sends one round and waits for the head of its answer.
type Sender func(ctx context.Context, req *Request) (*http.Response, error)

// NewChunks divides the answer of a request into rounds of size tokens. The obstacle is why
// it cannot be, or need not: the request is to be served as it is then. watch is told how
// each round has ended; nil: nobody is. The error is what is wrong with the body, as with
// Begin.
func NewChunks(req *Request, size int64, watch func(Reason)) (*Chunks, body.Obstacle, error) {
	api := body.APIOf(req.URL.Path)
	if api != body.Chat {
		return nil, body.NotChat, nil
	}
	o, err := body.Read(req.Body)
	if err != nil {
		return nil, "", err
	}
	rounds, why := o.Rounds(api, size)
	if why != "" {
		return nil, why, nil
	}
	if watch == nil {
		watch = func(Reason) {}
	}
	c := &Chunks{req: req, rounds: rounds, size: size, watch: watch}
	c.first = c.request("", rounds.First(c.limit(0)))
	return c, "", nil
}

// First is the request of the first round. It can be carried out in any way, as the
// client's could: what is handed over, the first round has. Its answer is not streamed.
func (c *Chunks) First() *Request { return c.first }

// request makes the request of a round.
func (c *Chunks) request(suffix string, b body.Body) *Request {
	out := *c.req
	out.ID += suffix
	out.Body, out.Retain = b.Bytes(), nil
	out.Header = maps.Clone(c.req.Header)
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	out.Header["Accept"], out.Header["Accept-Encoding"] = []string{"application/json"}, []string{"identity"}
	for _, name := range digests {
		delete(out.Header, name)
	}
	return &out
}

// whole makes the request for the answer at once, as the client wants it.
func (c *Chunks) whole() *Request {
	out := c.request("-whole", c.rounds.Whole())
	out.Header["Accept"] = c.req.Header["Accept"]
	return out
}

// limit is how many tokens the next round may have, after so many.
func (c *Chunks) limit(generated int64) int64 {
	if c.rounds.Budget < 0 {
		return c.size
	}
	return max(0, min(c.size, c.rounds.Budget-generated))
}

// Failed tells that nobody has answered the first round.
func (c *Chunks) Failed(err error) {
	if errors.Is(err, context.Canceled) {
		c.watch(Cancelled)
		return
	}
	c.watch(roundBrokenBy(err))
}

// roundBrokenBy tells how a round broke before the head of its answer.
func roundBrokenBy(err error) Reason {
	if errors.Is(err, ErrDecodeTimeout) {
		return Timeout
	}
	return brokenBy(err)
}

// Alone sends a request as it is to one endpoint, which does everything by itself.
func (r *Runner) Alone(ctx context.Context, req *Request, to Endpoint) (*http.Response, error) {
	x := &Run{r: r, plan: &Plan{}, req: req, w: Unwatched{}, id: req.ID, cached: -1}
	return x.decode(ctx, to, body.Raw(req.Body), false)
}

// RoundError is why an answer breaks off between rounds: the engine has refused to go on.
type RoundError struct {
	// Round counts from 1.
	Round int
	// Answer is the engine's, whole; nil if it could not be read.
	Answer *http.Response
	// Body is its body, JSON; nil if it is something else.
	Body []byte
	// Reason is how the round ended.
	Reason Reason
}

// Error tells the round and how it ended.
func (e *RoundError) Error() string {
	text := fmt.Sprintf("round %d of decoding: %s", e.Round, e.Reason)
	if e.Answer != nil {
		text += ": answered " + strconv.Itoa(e.Answer.StatusCode)
	}
	return text
}

// Rounds goes on from the answer of the first round, which it closes, and returns the
// client's. Where the client wants a stream, it has an event for each round, and rounds are
// run while it is read; else all are run before.
//
// A first answer that is none, and one that cannot be gone on with because the model has
// done something else than write text, is not the client's: the former is returned as it
// is, for the latter the client's own request is sent. NotContinued is told then.
//
// The error is the context's, or that of sending a round. What an engine answers instead of
// a round is the client's answer; within a stream it is a *RoundError of reading.
func (r *Runner) Rounds(ctx context.Context, c *Chunks, first *http.Response, send Sender) (*http.Response, error) {
	if first.StatusCode < 200 || first.StatusCode > 299 {
		c.watch(byStatus(first.StatusCode))
		return first, nil
	}
	p := &progress{r: r, ctx: ctx, c: c, send: send, sent: 1, limit: c.limit(0)}
	got, raw, err := p.read(first)
	if err != nil {
		return nil, err
	}
	if got == nil || !p.take(got) {
		c.watch(NotContinued)
		return send(ctx, c.whole())
	}
	c.watch(OK)
	if c.rounds.Streams {
		return p.stream(first), nil
	}
	for !p.ended {
		if err := p.next(); err != nil {
			var failed *RoundError
			if errors.As(err, &failed) && failed.Answer != nil {
				return failed.Answer, nil
			}
			return nil, err
		}
	}
	if len(p.rounds) > 1 {
		raw = answer.Merge(p.rounds)
		for _, name := range digests {
			delete(first.Header, name)
		}
	}
	return whole(first, raw), nil
}

// progress is how far the rounds have come.
type progress struct {
	r    *Runner
	ctx  context.Context
	c    *Chunks
	send Sender

	rounds    []*answer.Round
	text      []byte // of all rounds, as within a JSON string
	generated int64
	limit     int64 // of the round under way; 0: none
	sent      int
	ended     bool
}

// read reads the answer of a round. Without a Round and an error it is none that can be
// read. raw is what was read.
func (p *progress) read(resp *http.Response) (got *answer.Round, raw []byte, err error) {
	defer func() { _ = resp.Body.Close() }()
	most := p.r.cfg.MaxPrefillBytes
	if raw, err = io.ReadAll(io.LimitReader(resp.Body, most+1)); err != nil {
		p.c.watch(p.broken(Reset))
		return nil, nil, err
	}
	if int64(len(raw)) > most || kindOf(resp) != document {
		return nil, raw, nil
	}
	got, err = answer.ReadRound(raw)
	if err != nil {
		return nil, raw, nil // it is none
	}
	return got, raw, nil
}

// broken is the reason of a round that was cut off.
func (p *progress) broken(r Reason) Reason {
	if p.ctx.Err() != nil {
		return Cancelled
	}
	return r
}

// take takes a round over. It returns false if there ought to be a next one, and cannot be.
func (p *progress) take(got *answer.Round) bool {
	n := got.Generated
	if n < 1 { // not told
		n = p.limit
	}
	p.generated += n
	// An engine that stops short of the limit has no room for more.
	p.ended = !got.Cut || p.limit == 0 || n < p.limit || p.c.limit(p.generated) == 0 || got.Only && len(got.Text) == 0
	if !p.ended {
		if !got.Only {
			return false
		}
		got.Mend()
	}
	p.text = append(p.text, got.Text...)
	p.rounds = append(p.rounds, got)
	return true
}

// next runs the next round.
func (p *progress) next() error {
	p.limit = p.c.limit(p.generated)
	if int64(len(p.text)) > p.r.cfg.MaxPrefillBytes {
		return p.fail(TooLarge, nil, nil)
	}
	resp, err := p.round()
	if err == nil && resp.StatusCode == http.StatusBadRequest && p.c.rounds.Budget < 0 {
		// Whoever sets no limit has as much as the model has room for; the round's limit may be
		// more than that.
		_ = resp.Body.Close()
		p.limit = 0
		resp, err = p.round() //nolint:bodyclose // read closes it
	}
	if err != nil {
		p.c.watch(p.broken(roundBrokenBy(err)))
		return err
	}
	got, raw, err := p.read(resp)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusBadRequest && p.limit == 0 && full(raw):
		p.c.watch(NoRoom)
		p.ended = true
		return nil
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return p.fail(byStatus(resp.StatusCode), resp, raw)
	case got == nil:
		return p.fail(Unreadable, nil, nil)
	case !p.take(got):
		return p.fail(NotContinued, nil, nil)
	}
	p.c.watch(OK)
	return nil
}

// full is true for an answer that refuses a prompt because the model has no room for it. All
// engines speak of the context's length, and give it no code. What else is refused, such as a
// chat template that cannot go on with a message, is not how an answer ends.
func full(raw []byte) bool {
	return bytes.Contains(bytes.ToLower(raw), []byte("context length"))
}

// round sends a round.
func (p *progress) round() (*http.Response, error) {
	p.sent++
	return p.send(p.ctx, p.c.request("-chunk-"+strconv.Itoa(p.sent), p.c.rounds.Next(p.limit, p.generated, p.text)))
}

func (p *progress) fail(why Reason, resp *http.Response, raw []byte) error {
	p.c.watch(why)
	e := &RoundError{Round: len(p.rounds) + 1, Reason: why}
	if resp != nil {
		e.Answer = whole(resp, raw) //nolint:bodyclose // it is bytes
		if json.Valid(raw) {
			e.Body = raw
		}
	}
	return e
}

// byStatus is the reason of a round that was answered with the status.
func byStatus(status int) Reason {
	if status >= 400 && status <= 499 {
		return Refused
	}
	return BadStatus
}

// stream returns the answer as events.
func (p *progress) stream(first *http.Response) *http.Response {
	out := whole(first, nil)
	for _, name := range digests {
		delete(out.Header, name)
	}
	delete(out.Header, headerLength)
	out.Header["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
	s := &told{p: p}
	s.tell()
	out.ContentLength, out.Body = -1, s
	return out
}

// told is the body of an answer in events.
type told struct {
	p      *progress
	ready  []byte
	err    error // after it
	closed bool
}

// tell makes the events of the last round.
func (s *told) tell() {
	all := s.p.rounds
	usage := s.p.c.rounds.Usage
	s.ready = all[len(all)-1].Event(s.ready[:0], all[0], s.p.ended, usage)
	if s.p.ended {
		s.finish()
	}
}

// finish makes the events that come after the last round.
func (s *told) finish() {
	if s.p.c.rounds.Usage {
		s.ready = answer.UsageEvent(s.ready, s.p.rounds)
	}
	s.ready = append(s.ready, answer.Done...)
	s.err = io.EOF
}

// Read reads on, and runs the next round if all was read.
func (s *told) Read(b []byte) (int, error) {
	if len(s.ready) == 0 && s.err == nil && !s.closed {
		before := len(s.p.rounds)
		switch err := s.p.next(); {
		case err != nil:
			s.err = err
		case len(s.p.rounds) > before:
			s.tell()
		default: // the model had no room for another
			s.ready = s.p.rounds[before-1].End(s.ready[:0], s.p.rounds[0], s.p.c.rounds.Usage)
			s.finish()
		}
	}
	n := copy(b, s.ready)
	if s.ready = s.ready[n:]; n > 0 {
		return n, nil
	}
	return 0, s.err
}

// Close ends the rounds.
func (s *told) Close() error {
	s.closed = true
	if s.err == nil {
		s.err = io.ErrClosedPipe
	}
	return nil
}
