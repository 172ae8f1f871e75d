package prompt

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"unicode/utf8"

	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// rs begins every frame.
const rs = 0x1E

// form says how a segment's raw bytes become canonical.
type form uint8

const (
	verbatim form = iota // as they are: a JSON string without escapes
	escaped              // a JSON string with escapes
	compact              // a JSON value
	tokenIDs             // a JSON array of token ids, or of such arrays
)

// segment is a piece of the canonical prompt.
type segment struct {
	raw  []byte
	size uint32 // canonical length without the frame
	form form
	tag  byte // letter of the frame before it, 0: none
}

// sink takes canonical bytes. It returns false when it wants no more.
type sink interface {
	write(p []byte) bool
}

// length is the segment's canonical length.
func (g *segment) length() int64 {
	if g.tag != 0 {
		return int64(g.size) + 2
	}
	return int64(g.size)
}

// emitter writes canonical bytes to a sink.
type emitter struct {
	sink
	small [4]byte // for what stands nowhere in the body
}

// segment writes a segment's canonical bytes.
func (e *emitter) segment(g *segment) bool {
	if g.tag != 0 && !e.write(append(e.small[:0], rs, g.tag)) {
		return false
	}
	switch g.form {
	case escaped:
		return e.escaped(g.raw)
	case compact:
		return e.compact(g.raw)
	case tokenIDs:
		return e.tokenIDs(g.raw)
	default:
		return e.write(g.raw)
	}
}

func (e *emitter) escaped(raw []byte) bool {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return e.write(raw)
		}
		if !e.write(raw[:i]) {
			return false
		}
		r, n := jsonscan.Escape(raw[i:])
		raw = raw[i+n:]
		small := utf8.AppendRune(e.small[:0], r)
		if r == rs {
			small = append(small, rs)
		}
		if !e.write(small) {
			return false
		}
	}
}

func (e *emitter) word(v uint32) bool {
	return e.write(binary.LittleEndian.AppendUint32(e.small[:0], v))
}

// tokenBoundary is written before each list of token ids; it is no id.
const tokenBoundary = 1<<32 - 1

func (e *emitter) tokenIDs(raw []byte) bool {
	begins := false
	for i := 0; i < len(raw); {
		c := raw[i]
		if c < '0' || c > '9' {
			begins = begins || c == '['
			i++
			continue
		}
		if begins {
			begins = false
			if !e.word(tokenBoundary) {
				return false
			}
		}
		var id uint32
		for ; i < len(raw) && raw[i] >= '0' && raw[i] <= '9'; i++ {
			id = id*10 + uint32(raw[i]-'0')
		}
		if !e.word(id) {
			return false
		}
	}
	return true
}

// tokenID returns the token id that a JSON number stands for, and false if it
// stands for none.
func tokenID(raw []byte) (uint32, bool) {
	if len(raw) > 10 {
		return 0, false
	}
	id, err := strconv.ParseUint(string(raw), 10, 32)
	return uint32(id), err == nil && id != tokenBoundary
}
