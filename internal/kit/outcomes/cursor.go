package outcomes

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

var (
	errWireType  = errors.New("a field of an outcome batch has the wrong wire type")
	errTruncated = errors.New("an outcome batch is cut off")
)

// cursor goes through the fields of one message, which is data[at:end] of a batch.
type cursor struct {
	data    []byte
	at, end int
	err     error // set once, and then there are no more fields

	num protowire.Number
	typ protowire.Type
}

// next goes to the next field. Its value is still to be read, or skipped.
func (c *cursor) next() bool {
	if c.err != nil || c.at >= c.end {
		return false
	}
	if t := c.data[c.at]; t < 0x80 && t >= 8 {
		c.num, c.typ = protowire.Number(t>>3), protowire.Type(t&7)
		c.at++
		return true
	}
	num, typ, n := protowire.ConsumeTag(c.data[c.at:c.end])
	if n < 0 {
		c.err = protowire.ParseError(n)
		return false
	}
	c.num, c.typ, c.at = num, typ, c.at+n
	return true
}

// number reads the value, which must be a varint.
func (c *cursor) number() uint64 {
	if c.typ != protowire.VarintType {
		c.err = errWireType
		return 0
	}
	if c.at < c.end && c.data[c.at] < 0x80 {
		c.at++
		return uint64(c.data[c.at-1])
	}
	v, n := protowire.ConsumeVarint(c.data[c.at:c.end])
	if n < 0 {
		c.err = protowire.ParseError(n)
		return 0
	}
	c.at += n
	return v
}

// inner reads the value, which must be bytes, and returns a cursor within it.
func (c *cursor) inner() cursor {
	if c.typ != protowire.BytesType {
		c.err = errWireType
		return cursor{}
	}
	c.typ = protowire.VarintType // as the length is
	n := c.number()
	if c.err == nil && n > uint64(c.end-c.at) { //nolint:gosec // never negative
		c.err = errTruncated
	}
	if c.err != nil {
		return cursor{}
	}
	from := c.at
	c.at += int(n) //nolint:gosec // at most the length of the data
	return cursor{data: c.data, at: from, end: c.at}
}

// fail takes over what went wrong within a value.
func (c *cursor) fail(inner *cursor) {
	if inner.err != nil {
		c.err = inner.err
	}
}

// skip goes past the value.
func (c *cursor) skip() {
	n := protowire.ConsumeFieldValue(c.num, c.typ, c.data[c.at:c.end])
	if n < 0 {
		c.err = protowire.ParseError(n)
		return
	}
	c.at += n
}
