package pins

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

// fine is how many first blocks have a key each. Every doubling beyond has half as many.
const fine = 16

// marks appends which prefixes of a prompt of n blocks have a key, by their length,
// ascending. Those of a prompt that begins the same are the same, up to the last.
func marks(dst []int, n int) []int {
	for at := 1; at < n; at += step(at) {
		dst = append(dst, at)
	}
	if n > 0 {
		dst = append(dst, n)
	}
	return dst
}

// step is how far the next mark is from a mark.
func step(at int) int { return max(1, 1<<bits.Len(uint(at))/fine) } //nolint:gosec // above 0

// tag writes a name so that it can be a part of a key: what is no letter, digit, '.',
// '_' or '-' as %XX.
func tag(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// keys writes the keys of a prompt.
func (s *Store) keys(dst []string, k index.Key, chain []uint64, at []int) []string {
	head := s.prefix + tag(k.Scheme) + ":" + strconv.FormatUint(uint64(k.BlockSize), 10) + ":"
	buf := make([]byte, 0, len(head)+16)
	for _, n := range at {
		buf = append(buf[:0], head...)
		buf = strconv.AppendUint(buf, chain[n-1], 16)
		dst = append(dst, string(buf))
	}
	return dst
}
