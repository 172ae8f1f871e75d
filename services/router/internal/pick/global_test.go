package pick

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func global(cfg GlobalLeastRequestConfig) *GlobalLeastRequest {
	return NewGlobalLeastRequest("global", cfg)
}

func TestGlobalLeastRequestByWhatTheRouterKnows(t *testing.T) {
	for _, c := range []struct {
		name     string
		cfg      GlobalLeastRequestConfig
		totals   []float64
		inFlight []int64
		want     []int32
		tie      string
	}{
		{"the fewest of the best", GlobalLeastRequestConfig{}, []float64{1, 1, 0}, []int64{4, 2, 0}, []int32{1, 0, 2}, ByInFlight},
		{"one is best", GlobalLeastRequestConfig{}, []float64{1, 2, 0}, []int64{4, 9, 0}, []int32{1, 0, 2}, ""},
		{"within the slack", GlobalLeastRequestConfig{ScoreSlack: .5}, []float64{1, .6, .4}, []int64{4, 2, 0}, []int32{1, 0, 2}, ByInFlight},
		{"just within the slack", GlobalLeastRequestConfig{ScoreSlack: .5}, []float64{1, .5, .25}, []int64{4, 2, 0}, []int32{1, 0, 2}, ByInFlight},
		{"the greater total of those with equally few", GlobalLeastRequestConfig{ScoreSlack: 1, ByScore: true}, []float64{.1, .7, .9}, []int64{1, 1, 2}, []int32{1, 0, 2}, ByTotal},
		{"at the limit", GlobalLeastRequestConfig{Limit: 2}, []float64{1, 1, 0}, []int64{2, 1, 3}, []int32{1}, ""},
		{"all at the limit", GlobalLeastRequestConfig{Limit: 2}, []float64{1, 1, 0}, []int64{2, 2, 3}, []int32{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, tie := global(c.cfg).Pick(cycle(), make([]int32, len(c.totals)), c.totals, c.inFlight, 3, nil)
			if diff := cmp.Diff(c.want, got); diff != "" || tie != c.tie {
				t.Errorf("tie %q, want %q; %s", tie, c.tie, diff)
			}
		})
	}
}

func TestGlobalLeastRequestTiesAreUniform(t *testing.T) { // P8: not .07/.13/.275/.52
	for _, byScore := range []bool{false, true} {
		for _, of := range []int{2, 4, 9} {
			t.Run(fmt.Sprint(of, byScore), func(t *testing.T) {
				p, totals := global(GlobalLeastRequestConfig{ByScore: byScore}), make([]float64, of)
				chiSquare(t, of, func() int32 { return do(p, 1, totals...)[0] })
			})
		}
	}
}

func TestShortlist(t *testing.T) {
	totals := []float64{.5, 1, .9, 1, 0}
	for _, c := range []struct {
		cfg  GlobalLeastRequestConfig
		want []int32 // by score: the first two may change places
	}{
		{GlobalLeastRequestConfig{}, []int32{1, 3}},
		{GlobalLeastRequestConfig{ScoreSlack: .25}, []int32{1, 2, 3}},
		{GlobalLeastRequestConfig{ScoreSlack: 9}, []int32{0, 1, 2, 3, 4}},
		{GlobalLeastRequestConfig{ScoreSlack: .75, ByScore: true}, []int32{1, 3, 2, 0}},
	} {
		got, first := global(c.cfg).Shortlist(cycle(), totals, nil)
		if first != c.cfg.ByScore {
			t.Errorf("%+v: first %t", c.cfg, first)
		}
		if c.cfg.ByScore {
			slices.Sort(got[:2])
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v: %s", c.cfg, diff)
		}
	}
	if p := global(GlobalLeastRequestConfig{Limit: 7, Max: -1}); p.Max() != 1 || p.Limit() != 7 || p.Name() != "global" || p.SharedWords() != ByGlobal {
		t.Errorf("%+v", p)
	}
}
