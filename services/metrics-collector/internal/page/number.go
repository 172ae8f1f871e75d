package page

import (
	"bytes"
	"strconv"
)

// exact are the powers of ten that a float64 holds exactly.
var exact = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// number reads a sample's value as strconv.ParseFloat does. Hexadecimal and
// underscores, which Go knows and the format does not, are refused.
func number(b []byte) (float64, bool) {
	if v, ok := plain(b); ok {
		return v, true
	}
	if len(b) == 0 || bytes.ContainsAny(b, "xXpP_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(b), 64)
	return v, err == nil
}

// plain reads digits with an optional fraction, few enough to be exact.
func plain(b []byte) (float64, bool) {
	if len(b) == 0 || len(b) > 16 {
		return 0, false
	}
	var mantissa uint64
	point := -1
	for i, c := range b {
		switch {
		case '0' <= c && c <= '9':
			mantissa = mantissa*10 + uint64(c-'0')
		case c == '.' && point < 0:
			point = i
		default:
			return 0, false
		}
	}
	if point < 0 {
		return float64(mantissa), true
	}
	if len(b) == 1 {
		return 0, false
	}
	return float64(mantissa) / exact[len(b)-1-point], true
}
