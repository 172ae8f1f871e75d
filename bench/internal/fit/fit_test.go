package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// cells are 36 points of a formula with the constants 100, 2.5, 0 and 0.05, each off by
// up to noise of its value.
func cells(noise float64) (terms []string, points []Point) {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable on purpose
	for _, k := range []float64{1, 8, 64} {
		for _, others := range []float64{0, 1, 3} {
			for _, e := range []float64{10, 100, 500, 1000} {
				p := Point{Name: fmt.Sprint(k, others, e), Terms: []float64{1, k, others, e}, Value: 100 + 2.5*k + 0.05*e}
				p.Value *= 1 + noise*(2*rng.Float64()-1)
				points = append(points, p)
			}
		}
	}
	return []string{"1", "k", "others", "e"}, points
}

func TestFindsTheConstants(t *testing.T) {
	want := []float64{100, 2.5, 0, 0.05}
	for _, noise := range []float64{0, 0.02, 0.1} {
		terms, points := cells(noise)
		m, err := Fit(terms, points)
		if err != nil {
			t.Fatal(err)
		}
		for i, term := range m.Terms {
			if off := math.Abs(term.Constant - want[i]); off > 4*term.Error+1e-9*want[i]+1e-9 {
				t.Errorf("noise %v: %s is %v ± %v, want %v", noise, term.Name, term.Constant, term.Error, want[i])
			}
			if noise > 0 && term.Constant > 0 && (term.Error <= 0 || term.Name != "others" && term.Error > noise*term.Constant) {
				t.Errorf("noise %v: the error of %s is given as %v", noise, term.Name, term.Error)
			}
		}
		if m.WorstError > 2*noise+1e-9 || m.MedianError > m.WorstError || m.Worst == "" || m.Points != 36 {
			t.Errorf("noise %v: %+v", noise, m)
		}
		if got := m.At(1, 8, 0, 100); math.Abs(got/125-1) > noise+1e-9 {
			t.Errorf("noise %v: 8 KB and 100 endpoints cost %v, want 125", noise, got)
		}
		if one := m.ErrorAt(0, 1, 0, 0); math.Abs(one-m.Terms[1].Error) > 1e-9*one {
			t.Errorf("noise %v: the error of one k is %v, of its constant %v", noise, one, m.Terms[1].Error)
		}
		if m.Constant("k") != m.Terms[1].Constant || m.Constant("none") != 0 {
			t.Errorf("constants by name: %v, %v", m.Constant("k"), m.Constant("none"))
		}
	}
}

// What falls with a term is no cost of that term: it is left out, and the rest is fitted
// without it.
func TestNoCostBelowZero(t *testing.T) {
	var points []Point
	for _, k := range []float64{1, 2, 3, 4} {
		points = append(points, Point{Name: fmt.Sprint(k), Terms: []float64{1, k}, Value: 10 - k})
	}
	m, err := Fit([]string{"1", "k"}, points)
	if err != nil {
		t.Fatal(err)
	}
	if m.Constant("k") != 0 || m.Terms[1].Error != 0 || m.Constant("1") < 6 || m.Constant("1") > 9 {
		t.Errorf("%+v", m.Terms)
	}
	if m.Worst != "1" || m.WorstError < 0.1 {
		t.Errorf("a formula that does not fit says so: %+v", m)
	}
}

// Two constants that are only known together are known together.
func TestErrorsTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // repeatable on purpose
	var points []Point
	for i := range 40 {
		x := float64(i % 7)
		y := x + 0.1*rng.Float64() // nearly the same
		points = append(points, Point{Name: fmt.Sprint(i), Terms: []float64{1, x, y}, Value: (10 + 2*x + 3*y) * (1 + 0.02*(2*rng.Float64()-1))})
	}
	m, err := Fit([]string{"1", "x", "y"}, points)
	if err != nil {
		t.Fatal(err)
	}
	together := m.ErrorAt(0, 1, 1)
	if together <= 0 || together > m.Terms[1].Error/5 {
		t.Errorf("x alone ± %v, y alone ± %v, both ± %v", m.Terms[1].Error, m.Terms[2].Error, together)
	}
	if both := m.At(0, 1, 1); math.Abs(both-5) > 5*together {
		t.Errorf("both are %v ± %v, want 5", both, together)
	}
}

// Small figures count as much as large ones.
func TestRelative(t *testing.T) {
	m, err := Fit([]string{"1"}, []Point{{"small", []float64{1}, 1}, {"large", []float64{1}, 1000}})
	if err != nil {
		t.Fatal(err)
	}
	if m.Worst != "large" || m.Constant("1") > 2 {
		t.Errorf("%+v", m)
	}
}

func TestRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		points []Point
		word   string
	}{
		"too few points":    {[]Point{{"a", []float64{1, 2}, 1}}, "too few"},
		"terms of one kind": {[]Point{{"a", []float64{1, 2}, 1}, {"b", []float64{2, 4}, 2}, {"c", []float64{3, 6}, 4}}, "apart"},
		"no such term":      {[]Point{{"a", []float64{1, 0}, 1}, {"b", []float64{1, 0}, 2}}, "zero at all points"},
		"terms missing":     {[]Point{{"cell a", []float64{1}, 1}}, "cell a has 1 terms"},
		"nothing measured":  {[]Point{{"cell a", []float64{1, 2}, 0}}, "cell a is 0"},
		"not a number":      {[]Point{{"cell a", []float64{1, 2}, math.NaN()}}, "cell a is NaN"},
	} {
		if _, err := Fit([]string{"x", "y"}, tc.points); err == nil || !strings.Contains(err.Error(), tc.word) {
			t.Errorf("%s: %v, want a word of %q", name, err, tc.word)
		}
	}
}
