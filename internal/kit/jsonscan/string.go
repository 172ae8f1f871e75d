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
			s.state = inEscape
			if n := s.wholeEscape(p[i:], i); n > 0 {
				i += n
				s.state = inString
			}
		default:
			return s.fail(i, "a control character in a string")
		}
	}
}

// wholeEscape takes what follows a backslash at p[i-1], if it is all there, and returns
// its length. Line breaks are in every prompt, and text in other scripts often comes
// as nothing but \u.
func (s *Scanner) wholeEscape(rest []byte, i int) int {
	switch {
	case len(rest) > 0 && rest[0] == 'n':
		s.shrink++
		return 1
	case len(rest) >= 5 && rest[0] == 'u':
		if r := hex4(rest[1:]); r >= 0 {
			s.unicode(r, i+5)
			return 5
		}
	}
	return 0
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
	i := 0
	for ; i+32 <= len(p); i += 32 {
		q := p[i : i+32 : i+32]
		a, b := special(binary.LittleEndian.Uint64(q)), special(binary.LittleEndian.Uint64(q[8:]))
		c, d := special(binary.LittleEndian.Uint64(q[16:])), special(binary.LittleEndian.Uint64(q[24:]))
		if a|b|c|d == 0 {
			continue
		}
		switch {
		case a != 0:
			return i + bits.TrailingZeros64(a)/8
		case b != 0:
			return i + 8 + bits.TrailingZeros64(b)/8
		case c != 0:
			return i + 16 + bits.TrailingZeros64(c)/8
		default:
			return i + 24 + bits.TrailingZeros64(d)/8
		}
	}
	for ; i+8 <= len(p); i += 8 {
		if m := special(binary.LittleEndian.Uint64(p[i:])); m != 0 {
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

// special marks the quotes, backslashes and control characters among eight bytes in
// their highest bits. The lowest mark is always a true one: the borrows that could
// make false ones come from true ones below.
func special(w uint64) uint64 {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return ((w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
}
