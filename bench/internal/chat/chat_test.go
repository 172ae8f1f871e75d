package chat

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestBodiesHaveTheirSize(t *testing.T) {
	for _, size := range []int{300, 1 << 10, 8 << 10, 64 << 10} {
		seen := make(map[string]bool)
		for i, b := range Bodies(20, size) {
			if len(b) != size || !json.Valid(b) {
				t.Errorf("body %d of %d bytes has %d, valid %t", i, size, len(b), json.Valid(b))
			}
			seen[string(b)] = true
		}
		if len(seen) != 20 {
			t.Errorf("%d different bodies of %d bytes, want 20", len(seen), size)
		}
	}
	a, b := Bodies(17, 1024), Bodies(17, 1024)
	if !bytes.Equal(a[16], b[16]) {
		t.Error("the same numbers make different bodies")
	}
	if !bytes.Equal(a[0][:300], a[16][:300]) {
		t.Error("bodies 0 and 16 do not share a system prompt")
	}
}
