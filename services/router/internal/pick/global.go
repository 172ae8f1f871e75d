package pick

import (
	"math"
	"slices"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// GlobalLeastRequestType is the type of GlobalLeastRequest.
const GlobalLeastRequestType = "global-least-request-picker"

// How GlobalLeastRequest says that it chose.
const (
	ByGlobal      = "fewest requests in flight over all routers"
	ByTotal       = "greater total"
	ByGlobalScore = "fewest requests in flight over all routers, then the greater total"
)

// GlobalLeastRequestConfig is the parameters of GlobalLeastRequest.
type GlobalLeastRequestConfig struct {
	// Max is how many endpoints to name; less than 1 is 1.
	Max int
	// ScoreSlack is how much less than the greatest total still counts as equal to it,
	// in points. Default 0.
	ScoreSlack float64
	// ByScore tells those with equally few requests apart by their totals; else chance
	// does.
	ByScore bool
	// Limit is the most requests in flight on an endpoint. 0: no limit.
	Limit int64
}

// GlobalLeastRequest picks, among the candidates with the greatest total, the one with
// the fewest requests in flight over all routers, as route.Counts knows them. Its own Pick
// does the same by the counts that this router knows.
type GlobalLeastRequest struct {
	name string
	cfg  GlobalLeastRequestConfig
}

var _ route.SharedPicker = (*GlobalLeastRequest)(nil)

// NewGlobalLeastRequest returns a picker.
func NewGlobalLeastRequest(name string, cfg GlobalLeastRequestConfig) *GlobalLeastRequest {
	cfg.Max = max(cfg.Max, 1)
	return &GlobalLeastRequest{name: name, cfg: cfg}
}

// Name returns the plug-in's name in the configuration.
func (p *GlobalLeastRequest) Name() string { return p.name }

// Max returns how many endpoints the configuration asks for.
func (p *GlobalLeastRequest) Max() int { return p.cfg.Max }

// Limit implements route.SharedPicker.
func (p *GlobalLeastRequest) Limit() int64 { return p.cfg.Limit }

// SharedWords implements route.SharedPicker.
func (p *GlobalLeastRequest) SharedWords() string {
	if p.cfg.ByScore {
		return ByGlobalScore
	}
	return ByGlobal
}

// floor is the least total that counts as equal to the greatest.
func (p *GlobalLeastRequest) floor(totals []float64) float64 {
	greatest := math.Inf(-1)
	for _, t := range totals {
		greatest = max(greatest, t)
	}
	return greatest - p.cfg.ScoreSlack
}

// Shortlist implements route.SharedPicker.
func (p *GlobalLeastRequest) Shortlist(c *route.Cycle, totals []float64, dst []int32) (list []int32, first bool) {
	floor := p.floor(totals)
	if p.cfg.ByScore {
		from := len(dst)
		dst = rank(c, totals, make([]int64, len(totals)), len(totals), dst)
		n := from
		for n < len(dst) && totals[dst[n]] >= floor {
			n++
		}
		return dst[:n], true
	}
	for i, t := range totals {
		if t >= floor {
			dst = append(dst, int32(i)) //nolint:gosec // at most roster.MaxEndpoints
		}
	}
	return dst, false
}

// Pick implements route.Picker by the counts that this router knows.
func (p *GlobalLeastRequest) Pick(c *route.Cycle, _ []int32, totals []float64, inFlight []int64, n int, dst []int32) ([]int32, string) {
	floor := p.floor(totals)
	// Those within the slack are equals, all above those who are not.
	keys := make([]float64, len(totals))
	for i, t := range totals {
		switch {
		case p.cfg.Limit > 0 && inFlight[i] >= p.cfg.Limit:
			keys[i] = math.Inf(-1)
		case t >= floor:
			keys[i] = math.Inf(1)
		default:
			keys[i] = t
		}
	}
	from := len(dst)
	dst = rank(c, keys, inFlight, max(n, 2), dst)
	for len(dst) > from && math.IsInf(keys[dst[len(dst)-1]], -1) {
		dst = dst[:len(dst)-1]
	}
	tie := ""
	if len(dst)-from >= 2 && keys[dst[from]] == keys[dst[from+1]] {
		tie = ByInFlight
		if inFlight[dst[from]] == inFlight[dst[from+1]] {
			tie = ByChance
			if p.cfg.ByScore {
				tie = p.greatest(totals, keys, inFlight, dst[from:])
			}
		}
	}
	return dst[:min(len(dst), from+n)], tie
}

// greatest puts the candidate with the greatest total of those who equal the first in
// front, and says how the first was found.
func (p *GlobalLeastRequest) greatest(totals, keys []float64, inFlight []int64, ranked []int32) string {
	first := ranked[0]
	best, equals := first, 0
	for i := range totals {
		switch k := int32(i); { //nolint:gosec // at most roster.MaxEndpoints
		case keys[i] != keys[first] || inFlight[i] != inFlight[first]:
		case totals[i] > totals[best]:
			best, equals = k, 0
		case totals[i] == totals[best] && k != best:
			equals++
		}
	}
	at := slices.Index(ranked, best)
	if at < 0 {
		at = len(ranked) - 1 // the last makes room
	}
	copy(ranked[1:at+1], ranked[:at])
	ranked[0] = best
	if equals > 0 {
		return ByChance
	}
	return ByTotal
}
