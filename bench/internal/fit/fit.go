package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Point is one measured figure: the value of each term there, and the figure, above zero.
type Point struct {
	// Name says where it was measured.
	Name  string
	Terms []float64
	Value float64
}

// Term is a term with the constant that was found.
type Term struct {
	// Name is what the constant is multiplied by; "1" for the one that stands alone.
	Name string `json:"name"`
	// Constant is not below zero, and 0 of a term that was left out.
	Constant float64 `json:"constant"`
	// Error is its standard error; 0 of a term that was left out, and of all if there
	// are no more points than terms.
	Error float64 `json:"standard_error"`
}

// Model is a formula: the sum of its terms.
type Model struct {
	Terms []Term `json:"terms"`
	// Points is how many it was fitted to. MedianError and WorstError are how far it is
	// from them, as shares of what was measured, and Worst is where it is farthest.
	Points      int     `json:"points"`
	MedianError float64 `json:"median_error"`
	WorstError  float64 `json:"worst_error"`
	Worst       string  `json:"worst"`
	// covariance of the constants, by terms; 0 for those left out.
	covariance [][]float64
}

// At is the formula's value where the terms have these values.
func (m Model) At(terms ...float64) float64 {
	sum := 0.0
	for i, t := range m.Terms {
		sum += t.Constant * terms[i]
	}
	return sum
}

// ErrorAt is the standard error of At: what constants have too much together, as far as
// the points tell, is in it, and what the formula itself leaves out is not.
func (m Model) ErrorAt(terms ...float64) float64 {
	sum := 0.0
	for i, row := range m.covariance {
		for j, c := range row {
			sum += terms[i] * c * terms[j]
		}
	}
	return math.Sqrt(max(0, sum))
}

// Constant is that of a term; 0 if there is none of the name.
func (m Model) Constant(name string) float64 {
	for _, t := range m.Terms {
		if t.Name == name {
			return t.Constant
		}
	}
	return 0
}

// Fit fits a formula with these terms to points. There must be as many as terms at
// least, and they must tell the terms apart.
func Fit(terms []string, points []Point) (Model, error) {
	for _, p := range points {
		if len(p.Terms) != len(terms) {
			return Model{}, fmt.Errorf("fit: %s has %d terms, want %d", p.Name, len(p.Terms), len(terms))
		}
		if !(p.Value > 0) || math.IsInf(p.Value, 0) {
			return Model{}, fmt.Errorf("fit: %s is %v, must be above zero", p.Name, p.Value)
		}
	}
	m := Model{Points: len(points)}
	for _, t := range terms {
		m.Terms = append(m.Terms, Term{Name: t})
	}
	used := make([]int, len(terms)) // terms that are in
	for i := range used {
		used[i] = i
	}
	for len(used) > 0 {
		constants, covariance, err := solve(used, points)
		if err != nil {
			return Model{}, err
		}
		least := 0
		for i := range constants {
			if constants[i] < constants[least] {
				least = i
			}
		}
		if constants[least] < 0 {
			used = slices.Delete(used, least, least+1)
			continue
		}
		m.covariance = make([][]float64, len(terms))
		for i := range m.covariance {
			m.covariance[i] = make([]float64, len(terms))
		}
		for i, t := range used {
			m.Terms[t].Constant, m.Terms[t].Error = constants[i], math.Sqrt(covariance.At(i, i))
			for j, u := range used {
				m.covariance[t][u] = covariance.At(i, j)
			}
		}
		break
	}
	m.judge(points)
	return m, nil
}

// solve finds the constants of the terms that are used, with their covariance.
func solve(used []int, points []Point) (constants []float64, covariance *mat.Dense, err error) {
	n, k := len(points), len(used)
	if n < k {
		return nil, nil, fmt.Errorf("fit: %d points are too few for %d terms", n, k)
	}
	// Each equation is divided by its value, for relative errors, and each column by its
	// length, so that terms of microseconds and of megabytes are solved equally well.
	x, y := mat.NewDense(n, k, nil), mat.NewVecDense(n, nil)
	for i, p := range points {
		y.SetVec(i, 1)
		for j, t := range used {
			x.Set(i, j, p.Terms[t]/p.Value)
		}
	}
	lengths := make([]float64, k)
	for j := range used {
		lengths[j] = mat.Norm(x.ColView(j), 2)
		if lengths[j] == 0 {
			return nil, nil, errors.New("fit: a term is zero at all points")
		}
		for i := range n {
			x.Set(i, j, x.At(i, j)/lengths[j])
		}
	}
	var qr mat.QR
	qr.Factorize(x) //nolint:misspell // its name
	var b mat.VecDense
	if err := qr.SolveVecTo(&b, false, y); err != nil {
		return nil, nil, fmt.Errorf("fit: the points do not tell the terms apart: %w", err)
	}
	var rest mat.VecDense
	rest.MulVec(x, &b)
	rest.SubVec(y, &rest)
	var square mat.Dense
	var inverse mat.Dense
	square.Mul(x.T(), x)
	if err := inverse.Inverse(&square); err != nil {
		return nil, nil, fmt.Errorf("fit: the points do not tell the terms apart: %w", err)
	}
	variance := 0.0
	if n > k {
		variance = mat.Dot(&rest, &rest) / float64(n-k)
	}
	for j := range used {
		constants = append(constants, b.AtVec(j)/lengths[j])
	}
	inverse.Apply(func(i, j int, v float64) float64 { return variance * v / lengths[i] / lengths[j] }, &inverse)
	return constants, &inverse, nil
}

// judge notes how far the formula is from the points.
func (m *Model) judge(points []Point) {
	off := make([]float64, len(points))
	for i, p := range points {
		off[i] = math.Abs(m.At(p.Terms...)/p.Value - 1)
		if m.Worst == "" || off[i] > m.WorstError {
			m.WorstError, m.Worst = off[i], p.Name
		}
	}
	slices.Sort(off)
	if n := len(off); n > 0 {
		m.MedianError = (off[(n-1)/2] + off[n/2]) / 2
	}
}
