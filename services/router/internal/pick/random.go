package pick

import (
	"slices"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Random orders candidates by chance alone; totals are ignored.
type Random struct {
	name string
	max  int
}

// NewRandom returns a picker that asks for up to n endpoints, at least one.
func NewRandom(name string, n int) *Random { return &Random{name: name, max: max(n, 1)} }

// Name returns the plug-in's name in the configuration.
func (p *Random) Name() string { return p.name }

// Max returns how many endpoints the configuration asks for.
func (p *Random) Max() int { return p.max }

// Pick implements route.Picker. There are no ties to break.
func (p *Random) Pick(c *route.Cycle, candidates []int32, _ []float64, _ []int64, n int, dst []int32) ([]int32, string) {
	n = min(n, len(candidates))
	if 4*n >= len(candidates) {
		return shuffle(c, len(candidates), n, dst), ""
	}
	// Few of many: draw until enough different ones have come.
	from := len(dst)
	for len(dst) < from+n {
		i := int32(c.Rand(len(candidates))) //nolint:gosec // at most roster.MaxEndpoints
		if !slices.Contains(dst[from:], i) {
			dst = append(dst, i)
		}
	}
	return dst, ""
}

// shuffle appends the first n of a random order of 0..of-1.
func shuffle(c *route.Cycle, of, n int, dst []int32) []int32 {
	from := len(dst)
	for i := range of {
		dst = append(dst, int32(i)) //nolint:gosec // at most roster.MaxEndpoints
	}
	order := dst[from:]
	for i := range n {
		j := i + c.Rand(of-i)
		order[i], order[j] = order[j], order[i]
	}
	return dst[:from+n]
}
