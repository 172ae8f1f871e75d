package extproc

import (
	"google.golang.org/grpc/mem"

	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
)

// maxChunk is how many bytes of a body go into one message: proxies refuse messages
// above 64 KiB.
const maxChunk = 62000

const (
	// tiny is the size below which the body of a message is copied: a buffer for each
	// would take many times the room of what it holds.
	tiny = 128
	// tinyRoom is the room for those that come one after another.
	tinyRoom = 4096
)

// body is a request's body in the buffers in which it came.
type body struct {
	parts []mem.Buffer // none is empty
	size  int
	small []byte // what came last, in tiny pieces; not yet among parts
	ends  []int  // where each message ended, if that matters
}

// add takes over the body of a message.
func (b *body) add(in *wire.Request) {
	size := in.Size()
	if size >= tiny {
		b.gather()
		b.parts = in.TakeBody(b.parts)
	} else if size > 0 {
		if len(b.small)+size > tinyRoom {
			b.gather()
		}
		for _, p := range in.Body() {
			b.small = append(b.small, p.ReadOnlyData()...)
		}
	}
	b.size += size
}

// gather makes a part of the tiny pieces that have come.
func (b *body) gather() {
	if len(b.small) > 0 {
		b.parts = append(b.parts, mem.SliceBuffer(b.small))
		b.small = nil
	}
}

// free lets go of the bytes.
func (b *body) free() {
	for _, p := range b.parts {
		p.Free()
	}
	b.forget()
}

// forget leaves the bytes to whoever has taken them.
func (b *body) forget() {
	clear(b.parts)
	b.parts, b.size, b.small = b.parts[:0], 0, nil
}

// empty returns an empty body that uses the arrays again.
func (b *body) empty() body {
	return body{parts: b.parts[:0], ends: b.ends[:0]}
}

// chunk splits what goes into the next message off the parts. Both results are to be
// sent or freed.
func chunk(parts []mem.Buffer) (next, rest []mem.Buffer) { return split(parts, maxChunk) }

// sendStreamed sends parts of a body in full duplex, in messages that are not too
// large, with end-of-stream on the last if it is the end. The parts are sent or freed,
// whatever happens. m goes with the first message.
func (x *exchange) sendStreamed(k wire.Kind, parts []mem.Buffer, end bool, m wire.Metadata) error {
	for {
		next, rest := chunk(parts)
		if len(next) == 0 && !end && m.Namespace == "" {
			return nil
		}
		x.out.Streamed(k, next, end && len(rest) == 0, m)
		if err := x.send(); err != nil {
			for _, p := range rest {
				p.Free()
			}
			return err
		}
		if len(rest) == 0 {
			return nil
		}
		parts, m = rest, wire.Metadata{}
	}
}

// replace puts text in the place of the bytes from start to end.
func (b *body) replace(start, end int, text []byte) {
	head, rest := split(b.parts, start)
	cut, tail := split(rest, end-start)
	for _, p := range cut {
		p.Free()
	}
	parts := make([]mem.Buffer, 0, len(head)+1+len(tail))
	parts = append(append(append(parts, head...), mem.SliceBuffer(text)), tail...)
	b.parts, b.size = parts, b.size-(end-start)+len(text)
	for i, e := range b.ends {
		switch {
		case e >= end:
			b.ends[i] = e - (end - start) + len(text)
		case e > start:
			b.ends[i] = start + len(text) // all of it goes into the message where it begins
		}
	}
}

// split splits parts after n bytes. It may write into parts.
func split(parts []mem.Buffer, n int) (left, right []mem.Buffer) {
	for i, p := range parts {
		size := p.Len()
		switch {
		case n == 0 && size > 0:
			return parts[:i:i], parts[i:]
		case n < size:
			a, b := p.Slice(0, n), p.Slice(n, size)
			p.Free()
			left = append(append(make([]mem.Buffer, 0, i+1), parts[:i]...), a)
			parts[i] = b
			return left, parts[i:]
		}
		n -= size
	}
	return parts, nil
}
