package extproc

import (
	"errors"
	"strings"

	"google.golang.org/grpc/mem"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

// understand reads the body that has been collected and completes the routing request.
// part is true if more of the body may exist than was sent.
func (x *exchange) understand(part bool) *edge.Refusal {
	got, err := x.readBody()
	if part && cutShort(err) {
		if x.s.deps.Salt.Applies(x.head.path) {
			return edge.Unsalted()
		}
		x.asked.request.Model = x.modelOfPart()
		x.basis = byPart
		if model, ok := x.target(); ok && model != x.asked.request.Model {
			x.unrewritten()
		}
		return nil
	}
	if f := edge.OfReading(got, err); f != nil {
		return f
	}
	if got.Opaque == prompt.UnreadEncoding {
		x.s.metrics.Unread()
	}
	x.describe(got)
	return x.rewrite(got)
}

// cutShort is true if a body may only be unreadable because its end is missing.
func cutShort(err error) bool {
	var bad *prompt.Error
	return errors.As(err, &bad) && (bad.Reason == prompt.BadJSON || bad.Reason == prompt.BadEncoding)
}

// describe takes over what was read.
func (x *exchange) describe(got *prompt.Reading) {
	r := &x.asked.request
	r.Model, r.Adapter = got.Model, got.Adapter
	r.PromptTokens, r.MaxOutputTokens, r.Media, r.Streams = got.PromptTokens, got.MaxOutputTokens, got.Media, got.Stream
	r.Prompt, x.prompt = nil, got.Prompt
	if got.Prompt != nil {
		r.Prompt = got.Prompt
	}
	if got.SessionKey != "" {
		r.SessionKey = got.SessionKey
	}
}

// readBody reads the body that is there. It is read where it lies if it can be.
func (x *exchange) readBody() (*prompt.Reading, error) {
	if x.scanAhead(); x.scan.reader != nil {
		return x.endScan()
	}
	h := &x.head
	return x.s.parser.Read(prompt.Input{Path: h.path, ContentType: h.contentType, ContentEncoding: h.encoding, Body: x.body.whole()})
}

// scannable is true if the body is JSON as it is, whatever the rest of the request says.
func (x *exchange) scannable() bool {
	h := &x.head
	return !h.encoded() && prompt.KindOf(h.path) != prompt.Form &&
		!strings.HasPrefix(h.contentType, "multipart/") && !strings.HasPrefix(h.path, "/v2/models/")
}

// scan is the reading of a body of several parts.
type scan struct {
	reader *prompt.Reader // nil: not begun
	read   int            // parts
	err    error
}

// scanAhead reads what there is of a body while the rest is awaited.
func (x *exchange) scanAhead() {
	parts, s := x.body.parts, &x.scan
	if s.reader == nil {
		if len(parts) < 2 || !x.scannable() {
			return
		}
		s.reader = prompt.NewReader(prompt.KindOf(x.head.path), x.s.cfg.Prompt.MaxDepth)
	}
	for ; s.read < len(parts) && s.err == nil; s.read++ {
		s.err = s.reader.Write(parts[s.read].ReadOnlyData())
	}
}

// endScan returns what was read, as Parser.Read would.
func (x *exchange) endScan() (got *prompt.Reading, err error) {
	s := x.scan
	x.scan = scan{}
	if err = s.err; err == nil {
		got, err = s.reader.Close()
	}
	if kind := prompt.KindOf(x.head.path); err != nil && !kind.NeedsJSON() {
		return &prompt.Reading{Kind: kind, MaxOutputTokens: -1, Opaque: "not JSON that can be read"}, nil
	}
	return got, err
}

// whole returns the body in one slice; a copy if it is in several.
func (b *body) whole() []byte {
	switch len(b.parts) {
	case 0:
		return nil
	case 1:
		return b.parts[0].ReadOnlyData()
	}
	out := make([]byte, b.size)
	mem.BufferSlice(b.parts).CopyTo(out)
	return out
}
