package prompt

import (
	"errors"

	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// place is where in a body the scanner is.
type place uint8

const (
	atTop      place = iota // before and after the value
	inRoot                  // in the object that is the body
	inMessages              // in the list of messages or items
	inMessage               // in one of them
	inContent               // in a list of content parts
	inPart                  // in one of them
	inPrompts               // in a list of prompts
	inIDs                   // in a list of token ids that is one of them
)

// Reader reads one JSON body whose chunks are given to Write. Chunks may be cut
// anywhere and must stay as they are until Prompt.Release.
type Reader struct {
	kind  Kind
	depth int
	scan  jsonscan.Scanner
	src   source

	place     place
	field     field // the key in the body
	unescaped []byte
	seen      uint32 // fields that may be there once
	start     int64  // where the skipped array or object began
	root      int64  // what comes after the body's opening brace; 0: nothing yet
	keys      bool   // the body has a key

	message message
	part    contentPart
	list    promptList

	segments []segment
	joined   [len(preamble) + 1]field // the memory of fields
	sections [fieldCount - firstSection]section
	scalars  scalars
}

// section is the segments that one field of the body has made.
type section struct {
	from, to int
	ids      int64 // token ids in it
	bad      bool  // the shape is not known
}

// NewReader returns a Reader for a body of the kind, nested at most depth deep.
func NewReader(k Kind, depth int) *Reader {
	r := new(Reader)
	r.reset(k, depth)
	return r
}

func (r *Reader) reset(k Kind, depth int) {
	r.kind, r.depth = k, depth
	r.scan.Reset(depth)
	r.src.reset()
	r.place, r.field, r.seen, r.start = atTop, other, 0, -1
	r.root, r.keys = 0, false
	clear(r.segments)
	r.segments = r.segments[:0]
	r.sections = [fieldCount - firstSection]section{}
	r.scalars = scalars{maxTokens: [3]int64{-1, -1, -1}}
}

// Write reads the next chunk. Its error is an *Error.
func (r *Reader) Write(p []byte) error {
	r.src.add(p)
	r.scan.Feed(p)
	for r.scan.Next() {
		t := &r.scan.Token
		if err := r.token(t); err != nil {
			return err
		}
	}
	return r.syntax(r.scan.Err())
}

// Close says that the body has ended and returns what was read. Its error is an
// *Error.
func (r *Reader) Close() (*Reading, error) {
	if err := r.syntax(r.scan.End()); err != nil {
		return nil, err
	}
	return r.reading(), nil
}

func (r *Reader) syntax(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jsonscan.ErrTooDeep):
		return refuse(TooDeep, "", "the body is nested deeper than %d", r.depth)
	default:
		return &Error{Reason: BadJSON, Err: err}
	}
}

// token takes the next token. An array or object that is of no interest inside
// comes as a whole, as its end with the start of its beginning.
func (r *Reader) token(t *jsonscan.Token) error {
	switch {
	case t.Kind == jsonscan.Key:
		return r.key(t)
	case t.Begins():
		if !r.enter(t) {
			r.start = t.Start
			r.scan.Skip()
		}
		return nil
	case t.Ends() && r.start < 0:
		r.leave(t)
		return nil
	case t.Ends():
		t.Start, r.start = r.start, -1
	}
	return r.value(t)
}

func (r *Reader) key(t *jsonscan.Token) error {
	switch r.place {
	case inRoot:
		r.keys = true
		r.field = r.fieldOf(t)
		if r.field >= firstSection {
			// The last of several counts, as in the engines.
			s := r.section()
			*s = section{from: len(r.segments), to: len(r.segments)}
		}
		return r.once(t)
	case inMessage:
		r.message.key = r.partOf(t)
	case inPart:
		r.part.key = r.partOf(t)
	}
	return nil
}

// once refuses a second key of those on which everything depends.
func (r *Reader) once(t *jsonscan.Token) error {
	switch r.field {
	case fieldModel, fieldMessages, fieldPrompt, fieldInput:
	default:
		return nil
	}
	bit := uint32(1) << r.field
	if r.seen&bit != 0 && r.kind != Generate {
		return refuse(DuplicateKey, string(t.Bytes), "the key %q is there twice", t.Bytes)
	}
	r.seen |= bit
	return nil
}

// enter decides whether the array or object that begins is looked into.
func (r *Reader) enter(t *jsonscan.Token) bool {
	array := t.Kind == jsonscan.ArrayBegin
	switch r.place {
	case atTop:
		if array {
			return false
		}
		r.place, r.root = inRoot, t.Start+1
	case inRoot:
		return r.enterField(t, array)
	case inMessages, inPrompts:
		return r.enterElement(t, array)
	case inMessage:
		if !array || r.message.key != partContent {
			return false
		}
		r.segments = r.segments[:r.message.first+2] // the last of several counts
		r.place = inContent
	case inContent:
		if array {
			return false
		}
		r.place = inPart
		r.part = contentPart{start: t.Start}
	default:
		return false
	}
	return true
}

func (r *Reader) enterField(t *jsonscan.Token, array bool) bool {
	if !array || r.kind == Unknown || r.kind == Tokenize {
		return false
	}
	switch r.field {
	case fieldMessages:
		r.place = inMessages
	case fieldPrompt, fieldInput:
		r.place = inPrompts
		r.list = promptList{start: t.Start}
	case fieldSystem:
		r.system()
		r.place = inContent
	default:
		return false
	}
	return true
}

// leave takes the end of an array or object that was looked into.
func (r *Reader) leave(t *jsonscan.Token) {
	switch r.place {
	case inRoot:
		r.place = atTop
	case inMessage:
		r.endMessage(t.End)
		r.place = inMessages
	case inPart:
		r.endPart(t.End)
		r.place = inContent
	case inContent:
		if t.Depth > 1 {
			r.place = inMessage
			return
		}
		r.place = inRoot
		r.endSection()
	case inIDs:
		r.place = inPrompts
	case inPrompts:
		r.endPrompts(t.End)
		r.place = inRoot
		r.endSection()
	default:
		r.place = inRoot
		r.endSection()
	}
}

// value takes a scalar, or an array or object as a whole.
func (r *Reader) value(t *jsonscan.Token) error {
	switch r.place {
	case inRoot:
		return r.rootValue(t)
	case inMessages:
		r.item(t)
	case inMessage:
		r.messageValue(t)
	case inContent:
		r.contentValue(t)
	case inPart:
		r.partValue(t)
	case inPrompts, inIDs:
		r.promptValue(t)
	}
	return nil
}

func (r *Reader) section() *section { return &r.sections[r.field-firstSection] }

func (r *Reader) endSection() {
	s := r.section()
	s.to = len(r.segments)
}
