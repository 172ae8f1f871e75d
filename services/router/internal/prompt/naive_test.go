package prompt_test

import (
	"encoding/binary"
	"unicode/utf16"

	"github.com/cespare/xxhash/v2"
)

// naiveChain is the chain, as the scheme's definition reads.
func naiveChain(model, canonical string, size int) []uint64 {
	var out []uint64
	last := xxhash.Sum64String(model)
	for ; len(canonical) >= size; canonical = canonical[size:] {
		block := binary.LittleEndian.AppendUint64([]byte(canonical[:size]), last)
		last = xxhash.Sum64(block)
		out = append(out, last)
	}
	return out
}

func utf16Of(s string) []uint16 { return utf16.Encode([]rune(s)) }
