package pick

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

func cycle() *route.Cycle { return &route.Cycle{Request: &route.Request{}, Rand: rand.IntN} }

// do picks n of candidates with the totals, nothing in flight.
func do(p route.Picker, n int, totals ...float64) []int32 {
	picked, _ := p.Pick(cycle(), make([]int32, len(totals)), totals, make([]int64, len(totals)), n, nil)
	return picked
}

func totalsOf(picked []int32, totals []float64) []float64 {
	var out []float64
	for _, i := range picked {
		out = append(out, totals[i])
	}
	return out
}

func TestMaxScoreOrders(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int
		totals []float64
		want   []float64
	}{
		{"G2 two of 50,50,30", 2, []float64{50, 50, 30}, []float64{50, 50}},
		{"G3 two of 20,25,30", 2, []float64{20, 25, 30}, []float64{30, 25}},
		{"G5 three of 30,25,30", 3, []float64{30, 25, 30}, []float64{30, 30, 25}},
		{"fewer than asked for", 9, []float64{1, 2}, []float64{2, 1}},
		{"one", 1, []float64{1, 3, 2}, []float64{3}},
		{"negative totals", 2, []float64{-3, -1, -2}, []float64{-1, -2}},
		{"none", 1, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, totalsOf(do(NewMaxScore("p", 1), c.n, c.totals...), c.totals)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestMaxScoreSaysHowItBrokeATie(t *testing.T) {
	for _, c := range []struct {
		totals   []float64
		inFlight []int64
		first    int32 // -1: either
		want     string
	}{
		{[]float64{1, 2}, []int64{0, 0}, 1, ""},
		{[]float64{2, 2}, []int64{3, 1}, 1, ByInFlight},
		{[]float64{2, 2}, []int64{1, 1}, -1, ByChance},
		{[]float64{2, 1, 1}, []int64{9, 0, 0}, 0, ""},
		{[]float64{5}, []int64{0}, 0, ""},
	} {
		picked, tie := NewMaxScore("p", 1).Pick(cycle(), make([]int32, len(c.totals)), c.totals, c.inFlight, 1, nil)
		if len(picked) != 1 || c.first >= 0 && picked[0] != c.first || tie != c.want {
			t.Errorf("%v, %v in flight: picked %v, tie %q", c.totals, c.inFlight, picked, tie)
		}
	}
}

// The list is the same as that of sorting all, with ties as they fall.
func TestMaxScoreRanksAsSortingDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 40).Draw(rt, "size")
		totals := rapid.SliceOfN(rapid.Map(rapid.IntRange(-3, 3), func(i int) float64 { return float64(i) / 2 }), size, size).Draw(rt, "totals")
		flight := rapid.SliceOfN(rapid.Int64Range(0, 2), size, size).Draw(rt, "in flight")
		n := rapid.IntRange(1, 45).Draw(rt, "n")
		dst := []int32{7, 7} // what is there already must stay
		picked, _ := NewMaxScore("p", 1).Pick(cycle(), make([]int32, size), totals, flight, n, dst)
		if len(picked) != 2+min(n, size) || picked[0] != 7 || picked[1] != 7 {
			rt.Fatalf("picked %v", picked)
		}
		type rankedBy struct {
			total float64
			load  int64
		}
		var got, want []rankedBy
		seen := map[int32]bool{}
		for _, i := range picked[2:] {
			if seen[i] {
				rt.Fatalf("%d is there twice", i)
			}
			seen[i] = true
			got = append(got, rankedBy{totals[i], flight[i]})
		}
		for i := range size {
			want = append(want, rankedBy{totals[i], flight[i]})
		}
		slices.SortFunc(want, func(a, b rankedBy) int {
			if a.total != b.total {
				return int(2 * (b.total - a.total))
			}
			return int(a.load - b.load)
		})
		if d := cmp.Diff(want[:len(got)], got, cmp.AllowUnexported(rankedBy{})); d != "" {
			rt.Fatal(d)
		}
	})
}

// chiSquare counts who came at a place and compares with all being equally likely.
func chiSquare(t *testing.T, of int, draw func() int32) {
	t.Helper()
	const each = 2000
	counts := make([]int, of)
	for range each * of {
		counts[draw()]++
	}
	chi := 0.0
	for _, n := range counts {
		d := float64(n - each)
		chi += d * d / each
	}
	// Beyond mean + 5 standard deviations of χ²: about one run in a million.
	if df := float64(of - 1); chi > df+5*math.Sqrt(2*df)+10 {
		t.Errorf("χ² = %.1f with %d degrees of freedom: %v", chi, of-1, counts)
	}
}

func TestTiesAreUniform(t *testing.T) {
	for _, of := range []int{2, 3, 8, 50} {
		for _, p := range []route.Picker{NewMaxScore("max", 1), NewRandom("random", 1), NewWeightedRandom("weighted", 1)} {
			for place := range min(of, 2) {
				t.Run(fmt.Sprintf("%s of %d, place %d", p.Name(), of, place), func(t *testing.T) {
					totals := make([]float64, of)
					for i := range totals {
						totals[i] = .5
					}
					chiSquare(t, of, func() int32 { return do(p, 4, totals...)[place] })
				})
			}
		}
	}
}

// Which candidates are tied must not matter: here they are not next to each other.
func TestTiesAreUniformWhereverTheyStand(t *testing.T) {
	totals := []float64{1, 1, 0, 0, 0, 0, 1, 0}
	index := map[int32]int32{0: 0, 1: 1, 6: 2}
	chiSquare(t, 3, func() int32 { return index[do(NewMaxScore("max", 1), 4, totals...)[0]] })
}

func TestRandomIgnoresTotals(t *testing.T) { // G6
	for _, n := range []int{1, 2, 3, 5, 40, 100} {
		totals := make([]float64, 40)
		totals[0] = 1e9
		picked := do(NewRandom("random", 1), n, totals...)
		unique := slices.Compact(slices.Sorted(slices.Values(picked)))
		if len(picked) != min(n, 40) || len(unique) != len(picked) {
			t.Errorf("n=%d: %v", n, picked)
		}
	}
	chiSquare(t, 4, func() int32 { return do(NewRandom("random", 1), 1, 9, 0, 0, 0)[0] })
}

func TestWeightedRandomDrawsInProportion(t *testing.T) {
	p := NewWeightedRandom("weighted", 1)
	share := func(totals ...float64) []float64 {
		const rounds = 20000
		got := make([]float64, len(totals))
		for range rounds {
			got[do(p, 1, totals...)[0]] += 1. / rounds
		}
		return got
	}
	for _, c := range []struct {
		name         string
		totals, want []float64
	}{
		{"G8 100 ×3", []float64{100, 100, 100}, []float64{1. / 3, 1. / 3, 1. / 3}},
		{"G9 30 and 0", []float64{30, 0}, []float64{1, 0}},
		{"3 to 1", []float64{3, 1}, []float64{.75, .25}},
		{"tiny totals", []float64{3e-300, 1e-300}, []float64{.75, .25}},
		{"all 0", []float64{0, 0}, []float64{.5, .5}},
		{"negative is like 0", []float64{-1, 0, 0}, []float64{1. / 3, 1. / 3, 1. / 3}},
		{"B131 a constant that says nothing leaves a uniform draw", []float64{.5, .5}, []float64{.5, .5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, got := range share(c.totals...) {
				if math.Abs(got-c.want[i]) > .02 {
					t.Errorf("candidate %d drawn %.3f of the time, want %.3f", i, got, c.want[i])
				}
			}
		})
	}
	if picked := do(p, 2, 30, 0); picked[0] != 0 || picked[1] != 1 {
		t.Errorf("a total of 0 must come last, and come: %v", picked)
	}
}

func TestMaxIsAtLeastOne(t *testing.T) {
	for _, p := range []route.Picker{NewMaxScore("a", 0), NewRandom("b", -3), NewWeightedRandom("c", 0)} {
		if p.Max() != 1 {
			t.Errorf("%s: %d", p.Name(), p.Max())
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{10, 1000} {
		distinct, tied := make([]float64, n), make([]float64, n)
		for i := range distinct {
			distinct[i] = rand.Float64()
		}
		for _, c := range []struct {
			name   string
			p      route.Picker
			totals []float64
		}{
			{"max", NewMaxScore("p", 1), distinct}, {"max-tied", NewMaxScore("p", 1), tied},
			{"random", NewRandom("p", 1), distinct}, {"weighted", NewWeightedRandom("p", 1), distinct},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				cy, candidates, flight, dst := cycle(), make([]int32, n), make([]int64, n), make([]int32, 0, 4)
				b.ReportAllocs()
				for b.Loop() {
					c.p.Pick(cy, candidates, c.totals, flight, 4, dst)
				}
			})
		}
	}
}
