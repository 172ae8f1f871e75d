package answer

import (
	"bytes"
	"strconv"
)

// Splicer changes one answer.
type Splicer struct {
	doc    document
	events bool
	state  lineState
	n      int // bytes of "data:" that were read
}

// NewSplicer returns a Splicer that tells clients of cached tokens. details is the key
// that the API has for the details of a prompt's tokens; events is true for server-sent
// events, else the answer is one JSON value.
func NewSplicer(cached int64, details string, events bool) *Splicer {
	s := &Splicer{events: events}
	s.doc.details, s.doc.cached = details, strconv.AppendInt(nil, cached, 10)
	s.doc.begin()
	return s
}

// Changed returns how many usages were changed so far.
func (s *Splicer) Changed() int { return s.doc.changed }

// Splice appends to dst what is to be passed on for p. It may hold back some bytes for
// the next call.
func (s *Splicer) Splice(dst, p []byte) []byte {
	if !s.events {
		return s.doc.feed(dst, p)
	}
	for len(p) > 0 {
		if s.state == atStart {
			dst = append(dst, p[0])
			s.start(p[0])
			p = p[1:]
			continue
		}
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		p = rest
		if s.state == inData {
			dst = s.doc.feed(dst, line)
		} else {
			dst = append(dst, line...)
		}
		if ended {
			dst = append(s.doc.flush(dst), '\n')
			s.state, s.n = atStart, 0
		}
	}
	return dst
}

// End appends to dst what is still held back.
func (s *Splicer) End(dst []byte) []byte { return s.doc.flush(dst) }

// lineState is where in a line a stream of events is.
type lineState uint8

const (
	atStart  lineState = iota // in what may be "data:"
	inData                    // after it
	inOthers                  // in a line of another field
)

const dataField = "data:"

// start takes a byte from the beginning of a line.
func (s *Splicer) start(c byte) {
	switch c {
	case dataField[s.n]:
		if s.n++; s.n == len(dataField) {
			s.state = inData
			s.doc.begin()
		}
	case '\n':
		s.n = 0
	default:
		s.state = inOthers
	}
}
