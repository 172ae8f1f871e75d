package prompt

import (
	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// message is the message that is being read.
type message struct {
	start int64
	key   part
	first int  // its first segment, which is for the role; the next is for the name
	role  bool // there is one
	calls [3]segment
}

// contentPart is the content part that is being read.
type contentPart struct {
	start  int64
	key    part
	kind   partKind
	text   jsonscan.Token
	isText bool // there is a text
}

// partKind is what the type of a content part says.
type partKind uint8

const (
	partUntyped partKind = iota
	partOfText
	partOfMedia
)

// role adds the beginning of a message.
func (r *Reader) role(name string) {
	r.add(segment{raw: []byte(name), size: uint32(len(name)), tag: 'm'})
}

// system adds the beginning of the system prompt.
func (r *Reader) system() { r.role("system") }

// add adds a segment.
func (r *Reader) add(g segment) { r.segments = append(r.segments, g) }

// text adds the text of a string.
func (r *Reader) text(t *jsonscan.Token, tag byte) {
	size := uint32(t.End - t.Start - t.Shrink)
	if t.Escaped {
		r.add(segment{raw: r.src.span(t.Start, t.End), size: size, form: escaped, tag: tag})
		return
	}
	r.src.pieces(t.Start, t.End, func(p []byte) {
		r.add(segment{raw: p, size: uint32(len(p)), tag: tag})
		tag = 0
	})
}

// json adds a value as compact JSON.
func (r *Reader) json(t *jsonscan.Token, tag byte) { r.add(r.jsonSegment(t, tag)) }

func (r *Reader) jsonSegment(t *jsonscan.Token, tag byte) segment {
	start, end := t.Start, t.End
	if t.Kind == jsonscan.String {
		start, end = start-1, end+1
	}
	raw := r.src.span(start, end)
	return segment{raw: raw, size: uint32(compactLength(raw)), form: compact, tag: tag}
}

// enterElement decides whether an element of a list of messages or prompts is
// looked into.
func (r *Reader) enterElement(t *jsonscan.Token, array bool) bool {
	if r.place == inPrompts {
		if array {
			if !r.list.nested() {
				return false
			}
			r.place = inIDs
			return true
		}
		if r.field != fieldInput || r.list.shape != noElements {
			r.list.shape = mixedElements
			return false
		}
		r.place = inMessages
	}
	if array {
		return false
	}
	r.place = inMessage
	r.message = message{start: t.Start, first: len(r.segments)}
	r.add(segment{})
	r.add(segment{})
	return true
}

// item takes an element of a list of messages that is no object.
func (r *Reader) item(t *jsonscan.Token) { r.json(t, 'v') }

func (r *Reader) messageValue(t *jsonscan.Token) {
	m := &r.message
	text := t.Kind == jsonscan.String
	switch m.key {
	case partRole:
		if text {
			m.role = true
			r.fill(m.first, t, 'm')
		}
	case partName:
		if text {
			r.fill(m.first+1, t, 'n')
		}
	case partContent:
		r.segments = r.segments[:m.first+2] // the last of several counts
		switch {
		case text && t.End > t.Start:
			r.text(t, 'c')
		case t.Ends():
			r.json(t, 'x')
		}
	case partToolCalls:
		r.call(0, t, 'k')
	case partFunctionCall:
		r.call(1, t, 'f')
	case partToolCallID:
		r.call(2, t, 'i')
	}
}

// fill fills in a segment that was kept free for a string.
func (r *Reader) fill(at int, t *jsonscan.Token, tag byte) {
	g := segment{raw: r.src.span(t.Start, t.End), tag: tag}
	g.size = uint32(t.End - t.Start - t.Shrink)
	if t.Escaped {
		g.form = escaped
	}
	r.segments[at] = g
}

func (r *Reader) call(i int, t *jsonscan.Token, tag byte) {
	r.message.calls[i] = segment{}
	if t.Kind != jsonscan.Null {
		r.message.calls[i] = r.jsonSegment(t, tag)
	}
}

func (r *Reader) endMessage(end int64) {
	m := &r.message
	if !m.role {
		// Not a message but some other item: a tool's call or its output.
		r.segments = r.segments[:m.first]
		r.json(&jsonscan.Token{Kind: jsonscan.ObjectEnd, Start: m.start, End: end}, 'v')
		return
	}
	for _, g := range m.calls {
		if g.tag != 0 {
			r.add(g)
		}
	}
}

// contentValue takes a content part that is no object.
func (r *Reader) contentValue(t *jsonscan.Token) {
	if t.Kind == jsonscan.String {
		if t.End > t.Start {
			r.text(t, 'c')
		}
		return
	}
	r.json(t, 'x')
}

func (r *Reader) partValue(t *jsonscan.Token) {
	p := &r.part
	switch p.key {
	case partType:
		p.kind = partOfMedia
		if t.Kind == jsonscan.String && (t.Is("text") || t.Is("input_text") || t.Is("output_text")) {
			p.kind = partOfText
		}
		r.scalars.media = r.scalars.media || hasMedia(t)
	case partText:
		p.isText = t.Kind == jsonscan.String
		p.text = *t
		p.text.Bytes = nil
	}
}

// hasMedia is true for the types of content parts that an encoder has work with.
func hasMedia(t *jsonscan.Token) bool {
	return t.Kind == jsonscan.String && (t.Is("image_url") || t.Is("input_audio") || t.Is("video_url") || t.Is("audio_url") || t.Is("input_image"))
}

func (r *Reader) endPart(end int64) {
	p := &r.part
	if !p.isText || p.kind == partOfMedia {
		r.json(&jsonscan.Token{Kind: jsonscan.ObjectEnd, Start: p.start, End: end}, 'x')
		return
	}
	if p.text.End > p.text.Start {
		r.text(&p.text, 'c')
	}
}
