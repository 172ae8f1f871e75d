package wire

import "strings"

// Headers are an encoded HeaderMap. The zero value has none.
type Headers struct{ raw string }

// All calls yield with the headers in their order, until it returns false.
func (h Headers) All(yield func(name, value string) bool) {
	for s := h.raw; s != ""; {
		num, v, rest, ok := nextField(s)
		if !ok {
			return
		}
		s = rest
		if num != 1 {
			continue
		}
		name, value, ok := headerValue(v)
		if !ok || !yield(name, value) {
			return
		}
	}
}

// Get returns the first value of the header, "" if it is not there. Case is ignored.
func (h Headers) Get(name string) string {
	for n, v := range h.All {
		if len(n) == len(name) && strings.EqualFold(n, name) {
			return v
		}
	}
	return ""
}

// headerValue reads a HeaderValue. Proxies put the value into one of two fields.
func headerValue(s string) (name, value string, ok bool) {
	raw := ""
	for s != "" {
		num, v, rest, ok := nextField(s)
		if !ok {
			return "", "", false
		}
		s = rest
		switch num {
		case 1:
			name = v
		case 2:
			value = v
		case 3:
			raw = v
		}
	}
	if raw != "" {
		value = raw
	}
	return name, value, true
}

// nextField reads a field of bytes; one of another type has the number 0.
func nextField(s string) (num uint64, value, rest string, ok bool) {
	tag, n := uvarint(s)
	if n <= 0 {
		return 0, "", "", false
	}
	s = s[n:]
	switch tag & 7 {
	case 2:
		size, n := uvarint(s)
		if n <= 0 || size > uint64(len(s)-n) { //nolint:gosec // not negative
			return 0, "", "", false
		}
		end := n + int(size) //nolint:gosec // at most len(s)
		return tag >> 3, s[n:end], s[end:], true
	case 0:
		_, n = uvarint(s)
	case 1:
		n = 8
	case 5:
		n = 4
	default:
		n = 0
	}
	if n <= 0 || n > len(s) {
		return 0, "", "", false
	}
	return 0, "", s[n:], true
}

// uvarint reads a varint and returns how many bytes it takes, 0 if it is none.
func uvarint(s string) (uint64, int) {
	if s != "" && s[0] < 0x80 {
		return uint64(s[0]), 1
	}
	var v uint64
	for i := 0; i < len(s) && i < 10; i++ {
		b := s[i]
		if i == 9 && b > 1 {
			return 0, 0
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}
