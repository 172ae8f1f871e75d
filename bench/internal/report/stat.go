package report

import (
	"fmt"
	"slices"
)

// Stat is one figure over several rounds.
type Stat struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// NewStat sums up a figure's values, of which there must be one at least.
func NewStat(values []float64) Stat {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Stat{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1]}
}

// Text writes the median and, in brackets, least and most, with so many decimals.
func (s Stat) Text(decimals int) string {
	return fmt.Sprintf("%.*f (%.*f–%.*f)", decimals, s.Median, decimals, s.Min, decimals, s.Max)
}
