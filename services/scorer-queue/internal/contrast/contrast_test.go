package contrast

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func score(counts []int64) []float32 {
	scores := make([]float32, len(counts))
	for i := range scores {
		scores[i] = 9 // shows what is left alone
	}
	if least, most, ok := Range(counts); ok {
		Score(counts, least, max(most-least, 1), scores)
	}
	return scores
}

func TestScore(t *testing.T) {
	const alone = 9
	cases := map[string]struct {
		counts []int64
		want   []float32
	}{
		"F1: 10, 5, 0":                  {[]int64{10, 5, 0}, []float32{0, .5, 1}},
		"M18: 3, 0, 10":                 {[]int64{3, 0, 10}, []float32{.7, 1, 0}},
		"B133: all have 7":              {[]int64{7, 7, 7}, []float32{1, 1, 1}},
		"B133: all have 0":              {[]int64{0, 0, 0}, []float32{1, 1, 1}},
		"Higress H7: both have 3":       {[]int64{3, 3}, []float32{1, 1}},
		"Higress D13, D14: 0, 3, 10":    {[]int64{0, 3, 10}, []float32{1, .7, 0}},
		"B133: one candidate":           {[]int64{4}, []float32{1}},
		"one is not known":              {[]int64{10, Unknown, 0}, []float32{0, alone, 1}},
		"only equal ones are known":     {[]int64{Unknown, 3, 3}, []float32{alone, 1, 1}},
		"none is known":                 {[]int64{Unknown, Unknown}, []float32{alone, alone}},
		"no candidates":                 {nil, []float32{}},
		"as far apart as they can be":   {[]int64{1 << 62, 0}, []float32{0, 1}},
		"unknown is not fewer than one": {[]int64{Unknown, 1, 2}, []float32{alone, 1, 0}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, score(c.counts)); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScoreProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Int64Range(Unknown, 1<<40), 1, 50).Draw(t, "counts")
		scores := score(counts)
		for i, c := range counts {
			if c >= 0 && !(scores[i] >= 0 && scores[i] <= 1) {
				t.Fatalf("%d of %v scores %v", c, counts, scores[i])
			}
			for j, d := range counts {
				if c >= 0 && d >= 0 && c < d && scores[i] < scores[j] {
					t.Fatalf("%d scores %v, less than the %v of %d", c, scores[i], scores[j], d)
				}
			}
		}
		order := rapid.Permutation(indices(len(counts))).Draw(t, "order")
		moved, want := make([]int64, len(counts)), make([]float32, len(counts))
		for to, from := range order {
			moved[to], want[to] = counts[from], scores[from]
		}
		if diff := cmp.Diff(want, score(moved)); diff != "" {
			t.Fatalf("permuting the candidates does not permute the scores:\n%s", diff)
		}
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
