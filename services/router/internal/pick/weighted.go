package pick

import (
	"math"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// WeightedRandom draws endpoints without replacement, each with a chance in
// proportion to its total. A total of 0 or less comes after all greater ones; if
// there are no greater ones, chance alone decides.
//
// It is A-Res (Efraimidis and Spirakis, Weighted random sampling with a reservoir,
// 2006): the candidates with the greatest U^(1/total), U uniform in (0,1).
type WeightedRandom struct {
	name string
	max  int
}

// NewWeightedRandom returns a picker that asks for up to n endpoints, at least one.
func NewWeightedRandom(name string, n int) *WeightedRandom {
	return &WeightedRandom{name: name, max: max(n, 1)}
}

// Name returns the plug-in's name in the configuration.
func (p *WeightedRandom) Name() string { return p.name }

// Max returns how many endpoints the configuration asks for.
func (p *WeightedRandom) Max() int { return p.max }

// Pick implements route.Picker. There are no ties to break.
func (p *WeightedRandom) Pick(c *route.Cycle, candidates []int32, totals []float64, inFlight []int64, n int, dst []int32) ([]int32, string) {
	keys := make([]float64, len(candidates))
	for i := range keys {
		keys[i] = key(c, totals[i])
	}
	return rank(c, keys, inFlight, n, dst), ""
}

// key is log(U)/total, which orders as U^(1/total) does without its underflow. It
// is negative; candidates with no total get keys below all of those.
func key(c *route.Cycle, total float64) float64 {
	const grain = math.MaxInt32
	u := (float64(c.Rand(grain)) + 0.5) / grain
	if !(total > 0) {
		return -math.MaxFloat64 * (1 - u/2)
	}
	return max(math.Log(u)/total, -math.MaxFloat64/4)
}
