package route_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// holders is a filter that keeps whoever holds so much of the prompt.
type holders struct {
	name  string
	share float64
}

func (f holders) Name() string                              { return f.name }
func (f holders) Filter(_ *route.Cycle, in []int32) []int32 { return in }
func (f holders) FilterScored(_ *route.Cycle, said route.Said, in []int32) []int32 {
	return slices.DeleteFunc(in, func(pos int32) bool {
		share, known := said.Matched(pos)
		return !known || share < f.share
	})
}

// only is a filter that keeps some positions, and notes who it was asked about.
type only struct {
	name string
	keep []int32
	saw  *[]int32
}

func (f only) Name() string { return f.name }
func (f only) Filter(_ *route.Cycle, in []int32) []int32 {
	if f.saw != nil {
		*f.saw = slices.Clone(in)
	}
	return slices.DeleteFunc(in, func(pos int32) bool { return !slices.Contains(f.keep, pos) })
}

type onlyLoad struct{ only }

func (onlyLoad) FiltersLoad() {}

// matches answers as a prefix scorer does.
func matches(values []float32, matched ...uint32) func(*route.Cycle, []int32) route.Scores {
	return func(*route.Cycle, []int32) route.Scores {
		return route.Scores{
			Verdict: route.Scored, Values: slices.Clone(values), Matched: matched, Blocks: 10, AbstainedOn: []uint32{1, 3},
			Texts: map[uint32]string{0: "zero", 3: "three"},
		}
	}
}

// A filter that goes by scores, and all that stand after it, run after scoring; those
// before it run before. Scorers are asked once.
func TestFiltersAfterScoring(t *testing.T) {
	var early, late []int32
	f := &fan{answers: answers{matches([]float32{.1, 0, .3, 0}, 9, 1, 9, 9), gives(.5, .9, .7, .8)}}
	g := newRig(t, f, with{scorers: scorers(2, 1), filters: []route.Filter{
		only{name: "early", keep: []int32{0, 1, 3, 4}, saw: &early}, holders{"holders", .8}, only{name: "late", keep: []int32{3, 4}, saw: &late},
	}}, make([]pod, 5)...)
	d := g.Explain(t.Context(), request())
	if d.Err != nil {
		t.Fatal(d.Err)
	}
	if diff := cmp.Diff([][]int32{{0, 1, 2, 3, 4}, {0, 3, 4}}, [][]int32{early, late}); diff != "" {
		t.Error(diff)
	}
	if n := f.asked.Load(); n != 1 {
		t.Errorf("scorers were asked %d times", n)
	}
	res := d.Results[0]
	if diff := cmp.Diff([]int32{3, 4}, res.Candidates); diff != "" {
		t.Error(diff)
	}
	// Candidate 3 is abstained on, so it has the mean of .1 and .3, as before.
	if diff := cmp.Diff([]float64{2*.3 + .7, 2*.2 + .8}, res.Totals, approx()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint32{9, 9}, res.Scores[0].Matched); diff != "" {
		t.Error(diff)
	}
	if _, ok := res.Scores[0].Of(1); ok || res.Scores[0].Texts[1] != "three" || len(res.Scores[0].Texts) != 1 {
		t.Errorf("scores %+v", res.Scores[0])
	}
	if d.Endpoint.ID != "pod-0003" {
		t.Errorf("picked %v", d.Endpoint.ID)
	}
	if diff := cmp.Diff([]string{"late", "holders", "early", "", ""}, res.DroppedBy); diff != "" {
		t.Error(diff)
	}
}

// What is corrected for picks made meanwhile is of those who stay.
func TestFiltersAfterScoringAndTheCorrection(t *testing.T) {
	var g *rig
	f := &fan{answers: answers{func(*route.Cycle, []int32) route.Scores {
		g.r.Pick("other", 1, "pod-0002", 0, g.r.Now())
		return route.Scores{Verdict: route.Scored, Values: []float32{0, 1, 1, 1}, RequestsPerPoint: 4}
	}, matches([]float32{0, 0, 0, 0}, 0, 9, 9, 0)}}
	g = newRig(t, f, with{scorers: scorers(1, 0), filters: []route.Filter{holders{"holders", .8}}}, make([]pod, 4)...)
	d := g.Decide(t.Context(), request())
	res := d.Results[0]
	if diff := cmp.Diff([]float64{1, .75}, res.Totals, approx()); diff != "" || !res.Corrected || d.Endpoint.ID != "pod-0001" {
		t.Errorf("picked %v, corrected %t, %s", d.Endpoint.ID, res.Corrected, diff)
	}
	if diff := cmp.Diff([]int64{0, 1}, res.InFlight); diff != "" {
		t.Error(diff)
	}
}

func TestALateFilterThatLeavesNobody(t *testing.T) {
	none := only{name: "none"}
	for name, c := range map[string]struct {
		filters []route.Filter
		want    error
	}{
		"not for load": {[]route.Filter{holders{"h", 0}, none}, route.ErrNoEndpoint},
		"for load":     {[]route.Filter{holders{"h", 0}, onlyLoad{none}}, route.ErrShed},
	} {
		g := newRig(t, &fan{answers: answers{matches([]float32{1, 1, 1, 1}, 9, 9, 9, 9)}}, with{scorers: scorers(1), filters: c.filters}, make([]pod, 4)...)
		if d := g.Decide(t.Context(), request()); !errors.Is(d.Err, c.want) || len(g.l.all) != 0 {
			t.Errorf("%s: error %v, reservations %v", name, d.Err, g.l.all)
		}
	}
}

// An answer that breaks the rules is not believed in part either.
func TestFiltersAfterScoringGoByAnswersThatCount(t *testing.T) {
	broken := float32(math.NaN())
	f := &fan{answers: answers{matches([]float32{broken, 0, broken, 0}, 9, 9, 9, 9), matches([]float32{1, 0, 1, 0}, 0, 0, 9, 0)}}
	g := newRig(t, f, with{scorers: scorers(1, 1), filters: []route.Filter{holders{"holders", .8}}}, make([]pod, 4)...)
	d := g.Decide(t.Context(), request())
	if d.Err != nil || d.Results[0].Scores[0].Verdict != route.Failed {
		t.Fatalf("error %v, decision %+v", d.Err, d.Results[0])
	}
	if diff := cmp.Diff([]int32{2}, d.Results[0].Candidates); diff != "" {
		t.Error(diff)
	}
}
