package wire

import (
	"errors"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

var errMalformed = errors.New("malformed ext_proc message")

// cursor reads protobuf fields across the buffers of a message.
type cursor struct {
	data mem.BufferSlice
	rest []byte // of the buffer data[at]
	at   int
	left int // bytes to the end of the message that is being read
}

func newCursor(data mem.BufferSlice) cursor {
	c := cursor{data: data, at: -1, left: data.Len()}
	c.advance()
	return c
}

// advance goes to the next buffer that is not empty. rest stays empty at the end.
func (c *cursor) advance() {
	for len(c.rest) == 0 && c.at+1 < len(c.data) {
		c.at++
		c.rest = c.data[c.at].ReadOnlyData()
	}
}

// take moves n bytes on within rest.
func (c *cursor) take(n int) {
	c.rest = c.rest[n:]
	c.left -= n
	c.advance()
}

func (c *cursor) varint() (uint64, error) {
	var v uint64
	for shift := uint(0); shift < 64; shift += 7 {
		if c.left == 0 || len(c.rest) == 0 {
			return 0, errMalformed
		}
		b := c.rest[0]
		c.take(1)
		if shift == 63 && b > 1 {
			return 0, errMalformed
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, errMalformed
}

func (c *cursor) tag() (protowire.Number, protowire.Type, error) {
	v, err := c.varint()
	if err != nil {
		return 0, 0, err
	}
	num, typ := protowire.DecodeTag(v)
	if num < protowire.MinValidNumber {
		return 0, 0, errMalformed
	}
	return num, typ, nil
}

// length reads the length of a field and checks that so much is there.
func (c *cursor) length() (int, error) {
	v, err := c.varint()
	if err != nil || v > uint64(c.left) { //nolint:gosec // not negative
		return 0, errMalformed
	}
	return int(v), nil //nolint:gosec // at most left
}

// bytes reads a field of bytes: a slice of the buffer if one holds all of it, else a
// copy. It is not to be changed.
func (c *cursor) bytes() ([]byte, error) {
	n, err := c.length()
	if err != nil {
		return nil, err
	}
	if n <= len(c.rest) {
		out := c.rest[:n:n]
		c.take(n)
		return out, nil
	}
	out := make([]byte, 0, n)
	for n > 0 {
		m := min(n, len(c.rest))
		out = append(out, c.rest[:m]...)
		c.take(m)
		n -= m
	}
	return out, nil
}

// slices reads a field of bytes as parts of the buffers, appended to dst. Each is a
// reference that is to be freed.
func (c *cursor) slices(dst []mem.Buffer) ([]mem.Buffer, int, error) {
	total, err := c.length()
	if err != nil {
		return dst, 0, err
	}
	for n := total; n > 0; {
		m := min(n, len(c.rest))
		b := c.data[c.at]
		start := b.Len() - len(c.rest)
		dst = append(dst, b.Slice(start, start+m))
		c.take(m)
		n -= m
	}
	return dst, total, nil
}

// skip passes over the value of a field.
func (c *cursor) skip(num protowire.Number, typ protowire.Type) error {
	var n int
	switch typ {
	case protowire.VarintType:
		_, err := c.varint()
		return err
	case protowire.Fixed32Type:
		n = 4
	case protowire.Fixed64Type:
		n = 8
	case protowire.BytesType:
		size, err := c.length()
		if err != nil {
			return err
		}
		n = size
	case protowire.StartGroupType:
		return c.skipGroup(num)
	default:
		return errMalformed
	}
	if n > c.left {
		return errMalformed
	}
	for n > 0 {
		m := min(n, len(c.rest))
		c.take(m)
		n -= m
	}
	return nil
}

// maxGroups is how deep groups, which nobody sends, may be nested.
const maxGroups = 16

// skipGroup passes over a group and those in it.
func (c *cursor) skipGroup(num protowire.Number) error {
	open := append(make([]protowire.Number, 0, maxGroups), num)
	for len(open) > 0 {
		num, typ, err := c.tag()
		switch {
		case err != nil:
			return err
		case typ == protowire.EndGroupType:
			if num != open[len(open)-1] {
				return errMalformed
			}
			open = open[:len(open)-1]
		case typ == protowire.StartGroupType:
			if len(open) == maxGroups {
				return errMalformed
			}
			open = append(open, num)
		default:
			if err := c.skip(num, typ); err != nil {
				return err
			}
		}
	}
	return nil
}
