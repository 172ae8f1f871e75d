package prompt

import "github.com/pointsman/pointsman/internal/kit/jsonscan"

// elements is what a list of prompts is made of.
type elements uint8

const (
	noElements    elements = iota
	texts                  // strings
	ids                    // token ids: one prompt
	idLists                // lists of token ids
	mixedElements          // something else
)

// promptList is the list of prompts that is being read.
type promptList struct {
	shape elements
	start int64 // where the list of ids begins
	count int64 // token ids
	lists int64 // lists of ids that are not empty
	empty bool  // the inner list has none yet
}

// nested takes the beginning of an inner list.
func (l *promptList) nested() bool {
	if l.shape != noElements && l.shape != idLists {
		l.shape = mixedElements
		return false
	}
	l.shape, l.empty = idLists, true
	return true
}

// promptValue takes an element of a list of prompts, or of a list in it.
func (r *Reader) promptValue(t *jsonscan.Token) {
	l := &r.list
	switch {
	case t.Kind == jsonscan.String && r.place == inPrompts && (l.shape == noElements || l.shape == texts):
		var tag byte
		if l.shape == texts {
			tag = 'p'
		}
		l.shape = texts
		switch {
		case t.End > t.Start:
			r.text(t, tag)
		case tag != 0:
			r.add(segment{tag: tag})
		}
	case t.Kind == jsonscan.Number && r.place == inPrompts && (l.shape == noElements || l.shape == ids):
		if l.shape == noElements {
			l.shape, l.lists = ids, 1
		}
		r.tokenID(t)
	case t.Kind == jsonscan.Number && r.place == inIDs:
		if l.empty {
			l.empty = false
			l.lists++
		}
		r.tokenID(t)
	default:
		l.shape = mixedElements
	}
}

func (r *Reader) tokenID(t *jsonscan.Token) {
	if _, ok := tokenID(t.Bytes); !ok {
		r.list.shape = mixedElements
		return
	}
	r.list.count++
}

// endPrompts takes the end of the list of prompts.
func (r *Reader) endPrompts(end int64) {
	l, s := &r.list, r.section()
	switch {
	case l.shape == mixedElements:
		s.bad = true
	case (l.shape == ids || l.shape == idLists) && l.count > 0:
		size := uint32(4 * (l.count + l.lists))
		r.add(segment{raw: r.src.span(l.start, end), size: size, form: tokenIDs})
		s.ids = l.count
	}
}
