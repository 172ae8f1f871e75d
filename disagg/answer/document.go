package answer

import (
	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// maxDepth is how deep answers may be nested to be changed.
const maxDepth = 128

// maxHeld is how many bytes are held back at most, white space in front of a number
// mostly.
const maxHeld = 256

// place is where in a value the scanner is.
type place uint8

const (
	atTop     place = iota
	inRoot          // in the value
	inAnswer        // in the object "response" in it
	inUsage         // in "usage" of one of them
	inDetails       // in the details of the prompt's tokens in it
)

// document changes one JSON value after the other.
type document struct {
	details string // the key of the details
	cached  []byte // the number, as text
	changed int    // how many usages were changed

	scan    jsonscan.Scanner
	place   place
	outer   place // where the usage stands
	skipped bool  // what begins next ends at once: it is passed over
	key     docKey
	members int  // of the usage so far
	inner   int  // of the details so far
	given   bool // the number is in its place
	wait    bool // the value of the last key is to be changed, if it is a scalar

	base    int64  // offset of the chunk in the value
	emitted int64  // offset up to which bytes were passed on, or left out
	held    []byte // bytes of earlier chunks from there on
}

// docKey is a key that means something to a document.
type docKey uint8

const (
	otherKey docKey = iota
	usageKey
	responseKey
	detailsKey
	cachedKey
)

// begin makes it ready for a value.
func (d *document) begin() {
	d.scan.Reset(maxDepth)
	d.place, d.key, d.skipped, d.wait = atTop, otherKey, false, false
	d.base, d.emitted, d.held = 0, 0, d.held[:0]
}

// feed appends to dst what is to be passed on for p.
func (d *document) feed(dst, p []byte) []byte {
	if d.scan.Err() != nil {
		return append(dst, p...)
	}
	d.scan.Feed(p)
	for d.scan.Next() {
		dst = d.token(dst, p, &d.scan.Token)
	}
	end := d.base + int64(len(p))
	switch {
	case d.scan.Err() == nil && d.wait && end-d.emitted <= maxHeld:
		from := max(d.emitted, d.base)
		d.held = append(d.held, p[from-d.base:]...)
	default:
		if d.wait { // too much white space: it stays as it is
			d.wait, d.given = false, true
		}
		dst = d.pass(dst, p, end)
	}
	d.base = end
	return dst
}

// flush appends to dst what was held back.
func (d *document) flush(dst []byte) []byte {
	dst = append(dst, d.held...)
	d.emitted += int64(len(d.held))
	d.held, d.wait = d.held[:0], false
	return dst
}

// pass appends the bytes up to the offset.
func (d *document) pass(dst, p []byte, to int64) []byte {
	if n := int64(len(d.held)); n > 0 {
		n = min(n, to-d.emitted)
		dst = append(dst, d.held[:n]...)
		d.held = append(d.held[:0], d.held[n:]...)
		d.emitted += n
	}
	if from := max(d.emitted, d.base); to > from {
		dst = append(dst, p[from-d.base:to-d.base]...)
		d.emitted = to
	}
	return dst
}

// leave leaves out the bytes up to the offset.
func (d *document) leave(to int64) {
	if n := min(int64(len(d.held)), to-d.emitted); n > 0 {
		d.held = append(d.held[:0], d.held[n:]...)
	}
	d.emitted = max(d.emitted, to)
}

func (d *document) token(dst, p []byte, t *jsonscan.Token) []byte {
	switch {
	case t.Kind == jsonscan.Key:
		if d.named(t); d.wait {
			dst = d.pass(dst, p, t.End) // hold back what comes after it, and no more
		}
	case t.Begins():
		d.wait = false
		d.enter(t.Kind == jsonscan.ObjectBegin)
	case t.Ends() && d.skipped:
		d.skipped = false
	case t.Ends():
		return d.end(dst, p, t)
	case d.wait: // a scalar that is to be changed
		d.wait = false
		from := t.Start
		if t.Kind == jsonscan.String {
			from--
			t.End++
		}
		dst = d.pass(dst, p, from)
		dst = d.value(dst, d.place == inUsage)
		d.leave(t.End)
	}
	return dst
}

// value appends the number, or the details with it.
func (d *document) value(dst []byte, details bool) []byte {
	d.given = true
	d.changed++
	if !details {
		return append(dst, d.cached...)
	}
	dst = append(append(dst, `{"cached_tokens":`...), d.cached...)
	return append(dst, '}')
}

func (d *document) named(t *jsonscan.Token) {
	switch d.place {
	case inUsage:
		d.members++
	case inDetails:
		d.inner++
	}
	d.key = otherKey
	switch {
	case t.Is("usage"):
		d.key = usageKey
	case t.Is("response"):
		d.key = responseKey
	case t.Is(d.details):
		d.key = detailsKey
	case t.Is("cached_tokens"):
		d.key = cachedKey
	}
	d.wait = d.place == inUsage && d.key == detailsKey || d.place == inDetails && d.key == cachedKey
}

// enter decides whether the array or object that begins is looked into.
func (d *document) enter(object bool) {
	next := atTop
	switch {
	case !object:
	case d.place == atTop:
		next = inRoot
	case (d.place == inRoot || d.place == inAnswer) && d.key == usageKey:
		d.outer, d.members, d.given = d.place, 0, false
		next = inUsage
	case d.place == inRoot && d.key == responseKey:
		next = inAnswer
	case d.place == inUsage && d.key == detailsKey:
		d.inner = 0
		next = inDetails
	}
	if next == atTop {
		d.skipped = true
		d.scan.Skip()
		return
	}
	d.place = next
}

// end takes the end of an object that was looked into.
func (d *document) end(dst, p []byte, t *jsonscan.Token) []byte {
	switch d.place {
	case inDetails:
		d.place = inUsage
		if !d.given {
			dst = d.insert(dst, p, t.Start, d.inner > 0, false)
		}
	case inUsage:
		d.place = d.outer
		if !d.given {
			dst = d.insert(dst, p, t.Start, d.members > 0, true)
		}
	case inAnswer:
		d.place = inRoot
	default:
		d.place = atTop
	}
	return dst
}

// insert adds a member to an object that ends at the offset.
func (d *document) insert(dst, p []byte, at int64, comma, details bool) []byte {
	dst = d.pass(dst, p, at)
	if comma {
		dst = append(dst, ',')
	}
	name := "cached_tokens"
	if details {
		name = d.details
	}
	dst = append(append(append(dst, '"'), name...), '"', ':')
	return d.value(dst, details)
}
