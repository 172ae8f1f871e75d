package prompt

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// copyChunk is the size of the pieces of a decoded copy.
const copyChunk = 64 << 10

var (
	errTooLarge = errors.New("too large when decoded")
	errNoRoom   = errors.New("no room to decode")
	errUnread   = errors.New("a form of the encoding that is not read")
)

// decoders make decoded copies of bodies, of which all together have a limit.
type decoders struct {
	each, all int64        // the most bytes of one copy, and of all
	held      atomic.Int64 // by copies
	chunks    sync.Pool    // of *[copyChunk]byte
	idle      [encodings]sync.Pool
}

// decodedCopy is a decoded body in pieces.
type decodedCopy struct {
	of     *decoders
	chunks []*[copyChunk]byte
}

// free gives the pieces back, which nobody may use then.
func (c *decodedCopy) free() {
	for i, chunk := range c.chunks {
		c.of.chunks.Put(chunk)
		c.chunks[i] = nil
	}
	c.of.held.Add(-int64(len(c.chunks)) * copyChunk)
	c.chunks = nil
}

// grow adds a piece.
func (c *decodedCopy) grow() ([]byte, error) {
	if c.of.held.Add(copyChunk) > c.of.all {
		c.of.held.Add(-copyChunk)
		return nil, errNoRoom
	}
	chunk, _ := c.of.chunks.Get().(*[copyChunk]byte)
	if chunk == nil {
		chunk = new([copyChunk]byte)
	}
	c.chunks = append(c.chunks, chunk)
	return chunk[:], nil
}

// decode decodes raw and gives it to take in pieces, which stay until the copy is freed.
// An error of take ends it.
func (c *decodedCopy) decode(e encoding, raw []byte, take func(p []byte) error) error {
	window := e.window(raw)
	defer c.of.held.Add(-window)
	if c.of.held.Add(window) > c.of.all {
		return errNoRoom
	}
	z, err := c.of.open(e, raw)
	if err != nil {
		return unreadable{err}
	}
	defer c.of.close(e, z)
	for size := int64(0); ; {
		chunk, err := c.grow()
		if err != nil {
			return err
		}
		n, err := fill(z, chunk)
		if size += int64(n); size > c.of.each || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return errTooLarge
		}
		if errors.Is(err, zstd.ErrWindowSizeExceeded) {
			return errUnread
		}
		if n > 0 {
			if err := take(chunk[:n:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return unreadable{err}
		}
	}
}

// fill reads until p is full or there is an error, which is io.EOF at the end of the body.
func fill(z io.Reader, p []byte) (n int, err error) {
	for idle := 0; n < len(p) && err == nil; idle++ {
		var m int
		if m, err = z.Read(p[n:]); m > 0 {
			idle = 0
		}
		if n += m; idle == 100 {
			return n, io.ErrNoProgress
		}
	}
	return n, err
}

// unreadable is the error of a body that is not what its encoding says.
type unreadable struct{ error }

// readEncoded reads a body through a decoded copy. The copy lives as long as the prompt
// that refers to it.
func (p *Parser) readEncoded(in Input, kind Kind, e encoding) (*Reading, error) {
	c := &decodedCopy{of: &p.decoders}
	var out *Reading
	var err error
	var refused *Error
	switch {
	case isForm(in.ContentType):
		out, err = p.encodedForm(in, kind, e, c)
	case kind == Form:
		return nothing(in, kind, notForm), nil
	default:
		out, err = p.readJSON(in.Path, kind, func(write func([]byte) error) error {
			empty := true
			err := c.decode(e, in.Body, func(p []byte) error { empty = false; return write(p) })
			if err == nil && empty && !kind.NeedsJSON() {
				return errEmpty
			}
			return err
		}, nil)
		if errors.As(err, &refused) && !kind.NeedsJSON() {
			out, err = nothing(in, kind, notJSON), nil
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, errEmpty):
		out, err = nothing(in, kind, ""), nil
	case errors.Is(err, errUnread):
		out, err = nothing(in, kind, UnreadEncoding), nil
	case errors.Is(err, errNoRoom):
		out, err = nothing(in, kind, "as many bytes are decoded as may be"), nil
	case errors.Is(err, errTooLarge) && kind.NeedsJSON():
		err = refuse(TooLarge, "", "the body is larger than %d bytes when decoded", p.cfg.MaxDecodedBytes)
	case errors.As(err, &refused):
	case errors.Is(err, errTooLarge):
		out, err = nothing(in, kind, "larger than may be decoded"), nil
	case kind.NeedsJSON():
		err = refuse(BadEncoding, "", "the body is not %s: %w", e, err)
	default:
		out, err = nothing(in, kind, "the body is not what its content encoding says"), nil
	}
	if err != nil || out.Prompt == nil {
		c.free()
		return out, err
	}
	out.ModelStart, out.ModelEnd, out.body = 0, 0, extent{} // they are of the copy
	out.Prompt.done = c.free
	return out, nil
}

var errEmpty = errors.New("an empty body")

func (p *Parser) encodedForm(in Input, kind Kind, e encoding, c *decodedCopy) (*Reading, error) {
	var whole []byte
	if err := c.decode(e, in.Body, func(p []byte) error { whole = append(whole, p...); return nil }); err != nil {
		return nil, err
	}
	out := nothing(in, kind, "")
	return out, readForm(out, whole, boundaryOf(in.ContentType))
}
