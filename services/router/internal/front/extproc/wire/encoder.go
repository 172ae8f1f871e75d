package wire

import (
	"math/bits"

	"google.golang.org/grpc/mem"
)

// encoder writes a message from its end to its beginning, so that lengths are known
// when they are to be written.
type encoder struct {
	frame *frame
	buf   []byte
	at    int // the message begins at buf[at]
	tail  int // bytes that come after those in buf and are not in it
}

// frame is a message and the room for its usual size, in one allocation.
type frame struct {
	head  mem.SliceBuffer
	parts [3]mem.Buffer // the head, and a body in one or two buffers
	room  [96]byte
}

// newEncoder returns an encoder with room for about size bytes, before tail bytes
// that follow.
func newEncoder(size, tail int) encoder {
	f := new(frame)
	e := encoder{frame: f, buf: f.room[:], tail: tail}
	if size > len(f.room) {
		e.buf = make([]byte, size)
	}
	e.at = len(e.buf)
	return e
}

// finish returns what was written and the body that comes after it.
func (e *encoder) finish(body []mem.Buffer) mem.BufferSlice {
	f := e.frame
	f.head = e.buf[e.at:]
	return append(append(mem.BufferSlice(f.parts[:0]), &f.head), body...)
}

// end returns a mark for the bytes written from here on.
func (e *encoder) end() int { return len(e.buf) - e.at + e.tail }

// grow makes room for n bytes.
func (e *encoder) grow(n int) {
	if e.at >= n {
		return
	}
	used := len(e.buf) - e.at
	made := make([]byte, max(2*len(e.buf), used+n))
	copy(made[len(made)-used:], e.buf[e.at:])
	e.buf, e.at = made, len(made)-used
}

func (e *encoder) varint(v uint64) {
	n := (bits.Len64(v|1) + 6) / 7
	e.grow(n)
	e.at -= n
	i := e.at
	for ; v >= 0x80; i++ {
		e.buf[i] = byte(v) | 0x80
		v >>= 7
	}
	e.buf[i] = byte(v)
}

// number writes a field that holds a number.
func (e *encoder) number(field int, v uint64) {
	e.varint(v)
	e.varint(uint64(field) << 3) //nolint:gosec // a field number
}

// text writes a field of bytes.
func (e *encoder) text(field int, v string) {
	e.grow(len(v))
	e.at -= len(v)
	copy(e.buf[e.at:], v)
	e.begin(field, e.end()-len(v))
}

// begin writes the beginning of a field that holds what was written since the mark.
func (e *encoder) begin(field, end int) {
	e.varint(uint64(e.end() - end)) //nolint:gosec // not negative
	e.varint(uint64(field)<<3 | 2)  //nolint:gosec // a field number
}
