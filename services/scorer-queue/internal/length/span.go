package length

import (
	"strconv"
	"strings"
)

// span is the range of an endpoint, in tokens.
type span struct {
	kind        kind
	least, most uint32
}

// kind is what is known of a span.
type kind uint8

const (
	missing kind = iota // no label
	bad                 // no range
	ranged
)

// read reads a label.
func read(text string, there bool) span {
	if !there {
		return span{}
	}
	low, high, found := strings.Cut(text, "-")
	a, err1 := strconv.ParseUint(strings.TrimSpace(low), 10, 32)
	b, err2 := strconv.ParseUint(strings.TrimSpace(high), 10, 32)
	if !found || err1 != nil || err2 != nil || a > b {
		return span{kind: bad}
	}
	return span{ranged, uint32(a), uint32(b)}
}

// score rates a prompt of so many tokens.
func (s span) score(tokens uint32) float32 {
	switch {
	case s.kind == missing:
		return .5
	case s.kind == bad:
		return 0
	case tokens < s.least:
		return outside(s.least - tokens)
	case tokens > s.most:
		return outside(tokens - s.most)
	case s.most == s.least:
		return 1
	}
	width, headroom := float64(s.most-s.least), float64(s.most-tokens)
	return float32(.3 + .7*(.7/(1+width/10000)+.3*headroom/width))
}

func outside(distance uint32) float32 { return float32(.3 / (1 + float64(distance)/1000)) }
