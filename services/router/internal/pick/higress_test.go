package pick

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Rows of Higress's cluster_metrics, which chooses among services: here it is refused, and
// what the rows are about, the better score against the load, is the picker's.
func TestHigressScoreAgainstLoad(t *testing.T) {
	weighed := GlobalLeastRequestConfig{ScoreSlack: 1, ByScore: true}
	limited := GlobalLeastRequestConfig{Limit: 7}
	for _, c := range []struct {
		name     string
		cfg      GlobalLeastRequestConfig
		totals   []float64 // of a and b
		inFlight []int64
		want     []int32
		tie      string
	}{
		{"F7 b is faster", weighed, []float64{.2, .8}, []int64{0, 0}, []int32{1, 0}, ByTotal},
		{"F7 b is faster, and has 100 in flight", weighed, []float64{.2, .8}, []int64{0, 100}, []int32{0, 1}, ByInFlight},
		{"F19 a is better, and has 10 in flight to b's 1", weighed, []float64{.8, .6}, []int64{10, 1}, []int32{1, 0}, ByInFlight},
		{"F20 nobody has any: the better score", weighed, []float64{.6, .5}, []int64{0, 0}, []int32{0, 1}, ByTotal},
		// The reference takes shares of all requests since it began. Here the limit is of
		// requests in flight, however they came to be.
		{"F10 a is much faster, and has its share", limited, []float64{.9, .1}, []int64{7, 3}, []int32{1}, ""},
		{"F10 a has ended one", limited, []float64{.9, .1}, []int64{6, 3}, []int32{0, 1}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, tie := global(c.cfg).Pick(cycle(), make([]int32, 2), c.totals, c.inFlight, 2, nil)
			if d := cmp.Diff(c.want, got); d != "" || tie != c.tie {
				t.Errorf("tie %q, want %q; %s", tie, c.tie, d)
			}
		})
	}
}

// Higress H5: two equals, and the generator says which; the reason is told as chance.
func TestHigressH5TheGeneratorBreaksTies(t *testing.T) {
	for _, p := range []route.Picker{NewMaxScore("max", 1), global(GlobalLeastRequestConfig{})} {
		came := map[int32]int{}
		for drawn := range 64 {
			c := &route.Cycle{Request: &route.Request{}, Rand: func(int) int { return drawn }}
			first := int32(-1)
			for range 2 {
				got, tie := p.Pick(c, make([]int32, 2), []float64{1, 1}, []int64{0, 0}, 1, nil)
				if len(got) != 1 || tie != ByChance || first >= 0 && got[0] != first {
					t.Fatalf("%s, %d drawn: picked %v after %d, tie %q", p.Name(), drawn, got, first, tie)
				}
				first = got[0]
			}
			came[first]++
		}
		if came[0] == 0 || came[1] == 0 {
			t.Errorf("%s: picked %v", p.Name(), came)
		}
	}
}
