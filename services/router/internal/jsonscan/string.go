package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// readString reads on in a key or string. It returns true at the closing quote.
func (s *Scanner) readString() bool {
	p, i := s.p, s.i
	for {
		switch s.state {
		case inEscape:
			if i == len(p) {
				s.hold()
				return false
			}
			if !s.escape(p[i], i) {
				return false
			}
			i++
			continue
		case inHex:
			if i == len(p) {
				s.hold()
				return false
			}
			v, ok := hexDigit(p[i])
			if !ok {
				return s.fail(i, "a hexadecimal digit was expected")
			}
			i++
			s.hexDigit(v, i)
			continue
		}
		i += Plain(p[i:])
		if i == len(p) {
			s.hold()
			return false
		}
		switch p[i] {
		case '"':
			s.i = i + 1
			if s.key {
				s.state = wantColon
				return s.emit(Key, i)
			}
			s.afterValue()
			return s.emit(String, i)
		case '\\':
			s.escaped = true
			i++
			// Text in other scripts often comes as nothing but these.
			if i+5 <= len(p) && p[i] == 'u' {
				if r := hex4(p[i+1:]); r >= 0 {
					i += 5
					s.unicode(r, i)
					continue
				}
			}
			s.state = inEscape
		default:
			return s.fail(i, "a control character in a string")
		}
	}
}

// escape takes the byte after a backslash, which is p[i].
func (s *Scanner) escape(c byte, i int) bool {
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.shrink++
		s.state = inString
	case 'u':
		s.state, s.hex, s.digits = inHex, 0, 0
	default:
		return s.fail(i, "an unknown escape")
	}
	return true
}

// hexDigit takes one digit of a \u escape; the next byte is p[i].
func (s *Scanner) hexDigit(v rune, i int) {
	s.hex = s.hex<<4 | v
	s.digits++
	if s.digits == 4 {
		s.state = inString
		s.unicode(s.hex, i)
	}
}

// unicode takes the value of a \u escape; the next byte is p[i].
func (s *Scanner) unicode(r rune, i int) {
	end := s.base + int64(i)
	paired := s.hiEnd == end-6
	s.hiEnd = -1
	switch {
	case r < 0x80:
		s.shrink += 5
	case r < 0x800:
		s.shrink += 4
	case paired && r >= 0xDC00 && r < 0xE000:
		s.shrink += 5 // four bytes for twelve; three were granted to the first half
	default:
		if r >= 0xD800 && r < 0xDC00 {
			s.hiEnd = end
		}
		s.shrink += 3
	}
}

func hexDigit(c byte) (rune, bool) {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0'), true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10, true
	}
	return -1, false
}

// hex4 returns the value of the first four digits of p, negative if they are none.
func hex4(p []byte) rune {
	a, _ := hexDigit(p[0])
	b, _ := hexDigit(p[1])
	c, _ := hexDigit(p[2])
	d, _ := hexDigit(p[3])
	if a|b|c|d < 0 {
		return -1
	}
	return a<<12 | b<<8 | c<<4 | d
}

// Plain returns how many bytes of p come before the first quote, backslash or
// control character.
func Plain(p []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; i+8 <= len(p); i += 8 {
		w := binary.LittleEndian.Uint64(p[i:])
		// The lowest marked byte is always a true one: the borrows that could
		// mark others wrongly come from true ones below.
		quote := w ^ ones*'"'
		slash := w ^ ones*'\\'
		m := (w - ones*0x20) & ^w
		m |= (quote - ones) & ^quote
		m |= (slash - ones) & ^slash
		if m &= highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(p); i++ {
		if c := p[i]; c == '"' || c == '\\' || c < 0x20 {
			break
		}
	}
	return i
}
