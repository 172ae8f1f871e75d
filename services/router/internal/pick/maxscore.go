package pick

import "github.com/pointsman/pointsman/services/router/internal/route"

// Picker type names.
const (
	MaxScoreType       = "max-score-picker"
	RandomType         = "random-picker"
	WeightedRandomType = "weighted-random-picker"
)

// How MaxScore says that it broke a tie for the first place.
const (
	ByInFlight = "fewest requests in flight"
	ByChance   = "uniformly at random"
)

// MaxScore orders candidates by their totals, the greatest first. Among equal
// totals the one with the fewest requests in flight comes first, and among those
// chance decides.
type MaxScore struct {
	name string
	max  int
}

// NewMaxScore returns a picker that asks for up to n endpoints, at least one.
func NewMaxScore(name string, n int) *MaxScore { return &MaxScore{name: name, max: max(n, 1)} }

// Name returns the plug-in's name in the configuration.
func (p *MaxScore) Name() string { return p.name }

// Max returns how many endpoints the configuration asks for.
func (p *MaxScore) Max() int { return p.max }

// Pick implements route.Picker.
func (p *MaxScore) Pick(c *route.Cycle, _ []int32, totals []float64, inFlight []int64, n int, dst []int32) ([]int32, string) {
	from := len(dst)
	dst = rank(c, totals, inFlight, max(n, 2), dst) // two, to see a tie
	tie := ""
	if len(dst)-from >= 2 {
		a, b := dst[from], dst[from+1]
		switch {
		case totals[a] != totals[b]:
		case inFlight[a] != inFlight[b]:
			tie = ByInFlight
		default:
			tie = ByChance
		}
	}
	return dst[:min(len(dst), from+n)], tie
}
