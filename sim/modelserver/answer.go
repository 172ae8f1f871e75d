package modelserver

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/token"
)

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	var q chatRequest
	if fault := readJSON(w, r, &q); fault != nil {
		fault.write(w)
		return
	}
	if len(q.Messages) == 0 {
		badRequest("messages", "messages must have at least one message.").write(w)
		return
	}
	if fault := q.begun(); fault != nil {
		fault.write(w)
		return
	}
	q.sampling.media = q.media()
	s.answer(w, r, &q.sampling, [][]token.Token{q.tokens()}, true)
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	var q completionRequest
	if fault := readJSON(w, r, &q); fault != nil {
		fault.write(w)
		return
	}
	if len(q.Prompt) == 0 {
		badRequest("prompt", "prompt must not be empty.").write(w)
		return
	}
	s.answer(w, r, &q.sampling, q.Prompt, false)
}

// answer generates for prompts and writes what comes.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, p *sampling, prompts [][]token.Token, chat bool) {
	adapter, fault := s.adapter(p.Model)
	if fault != nil {
		fault.write(w)
		return
	}
	head, prefix := token.Line, "cmpl-"
	if chat {
		head, prefix = token.Sentence, "chatcmpl-"
	}
	h := &shape{chat: chat, id: prefix + requestID(w), created: time.Now().Unix(), model: p.Model, dialect: s.cfg.Dialect, usage: p.Stream && p.includeUsage()}
	if h.model == "" {
		h.model = s.cfg.Model
	}
	if fault = s.roomFault(p, len(prompts)); fault == nil {
		fault = s.linkFault(r, p, adapter, prompts)
	}
	if fault == nil {
		fault = s.fetchMedia(r.Context(), p)
	}
	begin := func() (*generation, *apiError) { return s.begin(p, h.id, adapter, prompts, head) }
	var g *generation
	switch {
	case fault != nil:
	case s.cfg.Transfer.Mode == PrefillMode:
		g, fault = s.prefill(r.Context(), p, begin)
	default:
		g, fault = begin()
	}
	if fault != nil {
		fault.write(w)
		return
	}
	if p.Stream {
		s.stream(w, r, g, h)
		return
	}
	if !s.wait(r.Context(), g) {
		return
	}
	if g.failed() {
		lostPrompt().write(w)
		return
	}
	if c := g.calls[0]; c.keepAs != "" && planOf(r.Context()).empty {
		s.driver.forget(c.keepAs)
		h.failed = true
	} else {
		h.transfer = s.transferParams(c, g.sizes[0], p.rank)
		h.encoded = s.encoded(p)
	}
	writeWhole(w, r, h.whole(g))
}

// writeWhole writes a body, with the faults that hit it half-way.
func writeWhole(w http.ResponseWriter, r *http.Request, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if p := planOf(r.Context()); p.midway() {
		w.Write(body[:len(body)/2])
		flush(w)
		if !p.interrupt(r.Context()) {
			return
		}
		body = body[len(body)/2:]
	}
	w.Write(body)
}

// stream writes the answers of g token by token as server-sent events.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, g *generation, h *shape) {
	// Whatever ends this, a panic that drops the connection included, the engine must not work on.
	defer func() {
		if !g.over() {
			s.driver.abort(g.calls)
		}
	}()
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	flush(w)
	t := &telling{g: g, h: h, sent: make([]int, len(g.calls)), ended: make([]bool, len(g.calls)), plan: planOf(r.Context())}
	for {
		over := g.over() // asked first: then all tokens of those that are over are known
		complete := t.more(over)
		if len(t.buf) > 0 {
			w.Write(t.buf)
			flush(w)
			t.buf = t.buf[:0]
		}
		if !complete {
			if !t.plan.interrupt(r.Context()) {
				return
			}
			t.plan = plan{}
			continue
		}
		if over {
			return
		}
		select {
		case <-g.wake:
		case <-r.Context().Done():
			return
		}
	}
}

// telling is how far a stream has come.
type telling struct {
	g     *generation
	h     *shape
	sent  []int  // tokens, by call
	ended []bool // by call
	total int    // tokens of all calls
	buf   []byte
	plan  plan
}

// more appends to buf what is new, with the end of the stream if all is over. It returns false when the planned fault is
// due before all was appended.
func (t *telling) more(over bool) bool {
	due := func() bool { return t.plan.midway() && t.total >= t.plan.after }
	if t.plan.after == 0 && due() {
		return false
	}
	for i, c := range t.g.calls {
		ended := c.over.Load()
		produced := int(c.produced.Load())
		for ; t.sent[i] < produced; t.sent[i]++ {
			if due() {
				return false
			}
			if t.sent[i] == 0 && t.h.chat {
				t.buf = t.h.appendRole(t.buf, i)
			}
			t.buf = t.h.appendPiece(t.buf, i, t.g.seeds[i], t.g.said+t.sent[i], t.g.head)
			t.total++
		}
		if ended && !t.ended[i] {
			t.ended[i] = true
			if c.reason == engine.Failed {
				t.buf = append(append(append(t.buf, "data: "...), lostPrompt().body()...), "\n\n"...)
				continue
			}
			t.buf = t.h.appendFinish(t.buf, i, c.reason.String())
		}
	}
	if over {
		if t.plan.midway() {
			return false // the answer was too short for the place that was planned
		}
		t.buf = t.h.appendEnd(t.buf, t.g)
	}
	return true
}

// interrupt carries out the fault that was planned for the middle of an answer. It returns true when the answer should
// go on, and does not return when the connection is dropped.
func (p plan) interrupt(ctx context.Context) bool {
	if p.streamDrop {
		panic(http.ErrAbortHandler) // net/http's way to close the connection
	}
	return p.wait(ctx)
}

// wait blocks until the faults change, and returns true, or until ctx ends.
func (p plan) wait(ctx context.Context) bool {
	select {
	case <-p.changed:
		return true
	case <-ctx.Done():
		return false
	}
}

func flush(w http.ResponseWriter) {
	// An error means that the client is gone; the request's context tells that too.
	_ = http.NewResponseController(w).Flush()
}
