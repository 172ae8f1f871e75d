package filter

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Higress D1, D2: the predicates and bands of its least_busy, each by itself. The tree of
// them is the router's TestLeastBusy.
func TestHigressD1D2Predicates(t *testing.T) {
	a := pod{Waiting: 1, KV: .2, Active: []string{"adapter-a"}, Max: 2}
	b := pod{Waiting: 4, KV: .7, Max: 2}
	c := pod{Waiting: 9, KV: .9, Active: []string{"other", "x"}, Max: 2}
	for _, r := range []struct {
		name string
		f    route.Filter
		pods []pod
		want []int32
	}{
		{"D1 low cost: a has it, b has room, c neither", NewLoRACost("cost"), []pod{a, b, c}, []int32{0, 1}},
		{"D1 a free slot: b has, c has not", must(NewLoRAAffinity("lora", 1)), []pod{b, c}, []int32{0}},
		{"D1 fewer than 50 wait", must(NewLowQueue("low", 49)), []pod{a, b, c}, []int32{0, 1, 2}},
		{"D1 at most 1 waits and .3 is in use", must(NewSheddableCapacity("room", nil, 1, .3)), []pod{a, b, c}, []int32{0}},
		{"D2 the least queue", NewLeastQueue("lq"), []pod{a, b, c}, []int32{0}},
		{"D2 the least KV cache", NewLeastKV("lk"), []pod{a, b, c}, []int32{0}},
		{"D2 who has the adapter", must(NewLoRAAffinity("lora", 1)), []pod{a, b, c}, []int32{0}},
		// The reference redirects whoever is above a share of the last 100 picks. Here picks
		// since the scrape count, so nobody gets above it.
		{"D16 a had all picks since the scrape", NewLeastQueue("lq"), []pod{{InFlight: 5}, {}}, []int32{1}},
		{"D17 both had as many", NewLeastQueue("lq"), []pod{{InFlight: 5}, {InFlight: 5}}, []int32{0, 1}},
	} {
		t.Run(r.name, func(t *testing.T) {
			if d := cmp.Diff(r.want, run(t, r.f, "adapter-a", r.pods...)); d != "" {
				t.Error(d)
			}
		})
	}
}
