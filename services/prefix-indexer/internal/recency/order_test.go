package recency

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRanks(t *testing.T) {
	var o Order
	ids := []string{"a", "b", "c", "d"}
	ranks := func(limit int) []uint64 { return o.Ranks(nil, limit, slices.Values(ids)) }
	o.Keep(ids)
	for _, c := range []struct {
		touch string
		limit int
		want  []uint64
	}{
		{"", 9, []uint64{0, 0, 0, 0}},
		{"a", 9, []uint64{1, 0, 0, 0}},
		{"c", 9, []uint64{1, 0, 2, 0}},
		{"a", 9, []uint64{3, 0, 2, 0}},
		{"b", 2, []uint64{3, 4, 0, 0}}, // c was used before the last two
		{"", 1, []uint64{0, 4, 0, 0}},
	} {
		if c.touch != "" {
			o.Touch(c.touch)
		}
		if diff := cmp.Diff(c.want, ranks(c.limit)); diff != "" {
			t.Errorf("after %q, limit %d: %s", c.touch, c.limit, diff)
		}
	}
	o.Keep([]string{"a", "c"})
	if diff := cmp.Diff([]uint64{3, 0, 2, 0}, ranks(9)); diff != "" {
		t.Error(diff)
	}
}
