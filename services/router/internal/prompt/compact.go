package prompt

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/cespare/xxhash/v2"
	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// mediaMin is how long a string in compact JSON must be to be taken for media.
const mediaMin = 256

// compact writes a JSON value without white space between tokens and with media
// replaced by their digests.
func (e *emitter) compact(raw []byte) bool {
	from := 0
	for i := 0; i < len(raw); {
		switch raw[i] {
		case '"':
			end := i + 1 + stringEnd(raw[i+1:])
			if text := raw[i+1 : end]; isMedia(text) {
				if !e.write(raw[from:i]) || !e.write(mediaDigest(text)) {
					return false
				}
				from = end + 1
			}
			i = end + 1
		case ' ', '\n', '\r', '\t':
			if !e.write(raw[from:i]) {
				return false
			}
			for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\r' || raw[i] == '\t') {
				i++
			}
			from = i
		default:
			i++
		}
	}
	return e.write(raw[from:])
}

// stringEnd returns where the closing quote is.
func stringEnd(p []byte) int {
	i := 0
	for {
		i += jsonscan.Plain(p[i:])
		if p[i] == '"' {
			return i
		}
		i += 2 // an escape
	}
}

// isMedia is true for a long string without any of the characters that make text:
// a URL or base64.
func isMedia(text []byte) bool {
	if len(text) < mediaMin {
		return false
	}
	for _, c := range text[:mediaMin] {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c >= '#' && c <= '/', c == ':', c == ';', c == '=', c == '?', c == '@', c == '_', c == '~', c == '\\':
		default:
			return false
		}
	}
	return true
}

// mediaDigest stands for media: full width, over all bytes, with the length.
func mediaDigest(text []byte) []byte {
	var sum [8]byte
	binary.BigEndian.PutUint64(sum[:], xxhash.Sum64(text))
	d := hex.AppendEncode([]byte{rs, 'd'}, sum[:])
	return strconv.AppendInt(append(d, '.'), int64(len(text)), 10)
}

// counter is a sink that counts.
type counter int64

func (c *counter) write(p []byte) bool {
	*c += counter(len(p))
	return true
}

// compactLength returns the canonical length of a JSON value.
func compactLength(raw []byte) int64 {
	var n counter
	e := emitter{sink: &n}
	e.compact(raw)
	return int64(n)
}
