package recency

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRanks(t *testing.T) {
	var o Order
	ids := []string{"a", "b", "c", "d"}
	ranks := func(limit int) []uint64 {
		r := o.Ranks(nil, limit, slices.Values(ids))
		for i := range r {
			if r[i] != 0 {
				r[i] -= firstUse - 1
			}
		}
		return r
	}
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

func TestAnOrderIsCopiedAsOlder(t *testing.T) {
	var theirs, ours Order
	for _, id := range []string{"a", "b", "c", "d", "b"} {
		theirs.Touch(id)
	}
	if diff := cmp.Diff([]string{"b", "d", "c", "a"}, theirs.Recent()); diff != "" {
		t.Fatal(diff)
	}
	ours.Touch("e") // heard before the copy
	ours.Touch("c")
	for i, id := range theirs.Recent() {
		ours.Adopt(id)
		if i == 1 {
			ours.Touch("f") // heard during the copy
		}
	}
	if diff := cmp.Diff([]string{"f", "c", "e", "b", "d", "a"}, ours.Recent()); diff != "" {
		t.Error(diff)
	}
	if got := (&Order{}).Recent(); len(got) != 0 {
		t.Errorf("%v in an empty order", got)
	}
	var zero Order
	zero.Adopt("x")
	if diff := cmp.Diff([]string{"x"}, zero.Recent()); diff != "" {
		t.Error(diff)
	}
}
