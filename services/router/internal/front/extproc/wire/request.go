package wire

import (
	"errors"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Request is a ProcessingRequest. What it holds is valid until the next message is
// received into it or Reset is called.
type Request struct {
	// Kind is what it is about.
	Kind Kind
	// EndOfStream is true if neither body nor trailers follow.
	EndOfStream bool
	// Headers are those of a message of headers. They stay valid.
	Headers Headers
	// Observe is true if the proxy does not want to be answered.
	Observe bool
	// Protocol is what the first message tells of the proxy.
	Protocol Protocol

	body       []mem.Buffer
	size       int // of body
	metadata   []byte
	hasMeta    bool
	attributes [][]byte
	held       mem.BufferSlice
	malformed  bool
}

// Reset lets go of the message.
func (r *Request) Reset() {
	free(r.body)
	r.held.Free()
	clear(r.attributes)
	*r = Request{body: r.body[:0], attributes: r.attributes[:0]}
}

// Malformed is true if the last message could not be read.
func (r *Request) Malformed() bool { return r.malformed }

// Size returns the number of bytes of the body.
func (r *Request) Size() int { return r.size }

// Body returns the body in parts, none of them empty. They are the Request's.
func (r *Request) Body() []mem.Buffer { return r.body }

// TakeBody appends the parts of the body to dst. They are the caller's from then on:
// each is to be sent or freed once.
func (r *Request) TakeBody(dst []mem.Buffer) []mem.Buffer {
	dst = append(dst, r.body...)
	clear(r.body)
	r.body, r.size = r.body[:0], 0
	return dst
}

func free(parts []mem.Buffer) {
	for i, b := range parts {
		b.Free()
		parts[i] = nil
	}
}

// errRepeated says that fields have to be merged.
var errRepeated = errors.New("a field is there twice")

// unmarshal reads a message.
func (r *Request) unmarshal(data mem.BufferSlice) error {
	r.Reset()
	err := r.read(data)
	if errors.Is(err, errRepeated) {
		r.Reset()
		var merged []byte
		if merged, err = merge(data); err == nil {
			err = r.read(mem.BufferSlice{mem.SliceBuffer(merged)})
		}
	}
	if err != nil {
		r.Reset()
		r.malformed = true
	}
	return err
}

// merge encodes a message anew, so that no field is there twice.
func merge(data mem.BufferSlice) ([]byte, error) {
	var m extproc.ProcessingRequest
	whole := make([]byte, data.Len())
	data.CopyTo(whole)
	if err := proto.Unmarshal(whole, &m); err != nil {
		return nil, err
	}
	m.ProtoReflect().SetUnknown(nil)
	return proto.Marshal(&m)
}

// Fields of ProcessingRequest.
const (
	fieldMetadata   = 8
	fieldAttributes = 9
	fieldObserve    = 10
	fieldProtocol   = 11
)

func (r *Request) read(data mem.BufferSlice) error {
	data.Ref()
	r.held = data
	c := newCursor(data)
	for c.left > 0 {
		num, typ, err := c.tag()
		if err != nil {
			return err
		}
		if err := r.field(&c, num, typ); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) field(c *cursor, num protowire.Number, typ protowire.Type) (err error) {
	switch {
	case num >= 2 && num <= 7 && typ == protowire.BytesType:
		if r.Kind != Nothing {
			return errRepeated
		}
		r.Kind = Kind(num) //nolint:gosec // at most 7
		return r.part(c)
	case num == fieldMetadata && typ == protowire.BytesType:
		if r.hasMeta {
			return errRepeated
		}
		r.hasMeta = true
		r.metadata, err = c.bytes()
	case num == fieldAttributes && typ == protowire.BytesType:
		var entry []byte
		if entry, err = c.bytes(); err == nil {
			r.attributes = append(r.attributes, entry)
		}
	case num == fieldObserve && typ == protowire.VarintType:
		r.Observe, err = c.bool()
	case num == fieldProtocol && typ == protowire.BytesType:
		if r.Protocol.Known {
			return errRepeated
		}
		r.Protocol.Known = true
		var b []byte
		if b, err = c.bytes(); err == nil {
			err = r.Protocol.read(b)
		}
	default:
		err = c.skip(num, typ)
	}
	return err
}

func (c *cursor) bool() (bool, error) {
	v, err := c.varint()
	return v != 0, err
}

// part reads what the message is about.
func (r *Request) part(c *cursor) error {
	switch r.Kind {
	case RequestBody, ResponseBody:
		return r.readBody(c)
	case RequestHeaders, ResponseHeaders:
		b, err := c.bytes()
		if err != nil {
			return err
		}
		return r.readHeaders(b)
	default:
		return c.skip(protowire.Number(r.Kind), protowire.BytesType)
	}
}

// readBody reads an HttpBody.
func (r *Request) readBody(c *cursor) error {
	n, err := c.length()
	if err != nil {
		return err
	}
	after := c.left - n
	c.left = n
	for c.left > 0 {
		num, typ, err := c.tag()
		switch {
		case err != nil:
		case num == 1 && typ == protowire.BytesType:
			free(r.body) // the last of several counts
			r.body, r.size, err = c.slices(r.body[:0])
		case num == 2 && typ == protowire.VarintType:
			r.EndOfStream, err = c.bool()
		default:
			err = c.skip(num, typ)
		}
		if err != nil {
			return err
		}
	}
	c.left = after
	return nil
}

// readHeaders reads an HttpHeaders.
func (r *Request) readHeaders(b []byte) error {
	found := false
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		switch {
		case num == 1 && typ == protowire.BytesType:
			v, m := protowire.ConsumeBytes(b)
			if m < 0 {
				return errMalformed
			}
			if found {
				return errRepeated
			}
			found = true
			r.Headers = Headers{string(v)}
			n = m
		case num == 3 && typ == protowire.VarintType:
			v, m := protowire.ConsumeVarint(b)
			r.EndOfStream, n = v != 0, m
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
	}
	return nil
}

// read reads a ProtocolConfiguration.
func (p *Protocol) read(b []byte) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		if typ != protowire.VarintType {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return errMalformed
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		switch num {
		case 1:
			p.Request = modeOf(v)
		case 2:
			p.Response = modeOf(v)
		case 3:
			p.NoWait = v != 0
		}
	}
	return nil
}

// modeOf returns a mode; all that are not known are alike.
func modeOf(v uint64) Mode {
	return Mode(min(v, uint64(modes))) //nolint:gosec // at most modes
}
