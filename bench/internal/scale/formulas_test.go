package scale

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// The cells of the run of record tell all terms apart: what they were made of is found.
func TestTheRunOfRecordSufficesForAllFormulas(t *testing.T) {
	want, found := truth(), 0
	for _, f := range Formulas(synthetic()) {
		name := f.Of + ": " + string(f.Unit)
		if f.Reason != "" || f.WorstError > 1e-6 || f.Points != f.Cells || f.Points == 0 {
			t.Errorf("%s, %s: %q, worst error %v at %s, %d of %d cells", name, f.Load, f.Reason, f.WorstError, f.Worst, f.Points, f.Cells)
		}
		for _, term := range f.Terms {
			w := want[name][term.Name]
			if math.Abs(term.Constant-w) > 1e-6*(1+w) {
				t.Errorf("%s, %s: %s is %v, want %v", name, f.Load, term.Name, term.Constant, w)
			}
		}
		found++
	}
	if found < len(want) {
		t.Errorf("%d formulas, want one for each of %d figures at least", found, len(want))
	}
}

// A pick that went without scores is cheaper; a difference of windows can be below zero.
// Neither is fitted to, and what is left tells.
func TestCellsThatAreLeftOut(t *testing.T) {
	rows := synthetic()
	i := slices.IndexFunc(rows, func(w Row) bool { return w.Load == Closed })
	rows[i].UnansweredShare = exactly(0.5)
	rows[i].Kinds[0].PickMicros = exactly(1)
	j := i + slices.IndexFunc(rows[i+1:], func(w Row) bool { return w.Load == Closed }) + 1
	rows[j].Kinds[0].PickMicros = exactly(-3)
	for _, f := range Formulas(rows) {
		if f.Of != router || f.Unit != perPick || f.Load != Closed {
			continue
		}
		if f.Points != f.Cells-2 || f.WorstError > 1e-6 {
			t.Errorf("%d of %d cells, worst error %v", f.Points, f.Cells, f.WorstError)
		}
		return
	}
	t.Error("no formula of the router")
}

// A run of too few cells has no formulas, and says why.
func TestTooFewCells(t *testing.T) {
	rows := synthetic()[:3]
	formulas := Formulas(rows)
	if i := slices.IndexFunc(formulas, func(f Formula) bool { return strings.Contains(f.Reason, "too few") }); i < 0 {
		t.Errorf("%+v", formulas)
	}
	if _, err := SumOf(formulas, Pools()[0]); err == nil || !strings.Contains(err.Error(), "too few") {
		t.Errorf("sums: %v", err)
	}
	if text := strings.Join(FormulaTable(formulas), "\n"); !strings.Contains(text, "| none: fit: ") {
		t.Errorf("the table does not say why:\n%s", text)
	}
}

func TestBatches(t *testing.T) {
	for _, tc := range []struct {
		name            string
		p               Point
		alone, together float64
	}{
		{"alone, few", Point{Picks: 100, Routers: 1}, 50, 0},
		{"alone, many wait", Point{Picks: 4000, Routers: 1}, 250, 0},
		{"alone, at the limit", Point{Picks: 1e6, Routers: 1}, 500, 0},
		{"several", Point{Picks: 2000, Routers: 2}, 0, 2 * 1000.0 / 3},
		{"several, at the limit", Point{Picks: 1e9, Routers: 4}, 0, 2000},
	} {
		if a, b := tc.p.alone(), tc.p.together(); math.Abs(a-tc.alone) > 1 || math.Abs(b-tc.together) > 1 {
			t.Errorf("%s: %v and %v, want %v and %v", tc.name, a, b, tc.alone, tc.together)
		}
	}
}
