package disagg

import (
	"crypto/rand"
	"encoding/hex"
)

// newUUID returns a random UUID (RFC 9562, version 4), as engines have them in the ids of
// transfers.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	out := make([]byte, 0, 36)
	for i, n := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			out = append(out, '-')
		}
		at := (len(out) - i) / 2
		out = hex.AppendEncode(out, b[at:at+n])
	}
	return string(out)
}
