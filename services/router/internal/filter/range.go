package filter

import (
	"strconv"
	"strings"
)

// lengths reads "min-max", whole numbers of tokens with min ≤ max.
func lengths(text string) (least, most uint32, ok bool) {
	low, high, found := strings.Cut(text, "-")
	a, err1 := strconv.ParseUint(strings.TrimSpace(low), 10, 32)
	b, err2 := strconv.ParseUint(strings.TrimSpace(high), 10, 32)
	return uint32(a), uint32(b), found && err1 == nil && err2 == nil && a <= b
}
