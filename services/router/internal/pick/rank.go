package pick

import (
	"math"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// rank appends the indices of the n best candidates, best first: by total, then by
// requests in flight, then by lot.
//
// It is one pass over the candidates and a short list of the best so far, into which
// each is inserted; most fail against the list's last and cost one comparison.
func rank(c *route.Cycle, totals []float64, inFlight []int64, n int, dst []int32) []int32 {
	r := ranking{totals: totals, inFlight: inFlight[:len(totals)], seed: uint64(c.Rand(math.MaxInt))}
	from := len(dst)
	worst, worstLot := -1, uint64(0) // the list's last once it is full
	for i, total := range totals {
		if worst >= 0 {
			switch w := totals[worst]; {
			case total < w:
				continue
			case total > w || r.inFlight[i] < r.inFlight[worst]:
			case r.inFlight[i] > r.inFlight[worst] || r.lot(i) >= worstLot:
				continue
			}
			dst = dst[:from+n-1]
		}
		dst = append(dst, 0)
		at := len(dst) - 1
		for at > from && r.before(i, int(dst[at-1])) {
			dst[at] = dst[at-1]
			at--
		}
		dst[at] = int32(i) //nolint:gosec // at most roster.MaxEndpoints
		if len(dst) == from+n {
			worst = int(dst[len(dst)-1])
			worstLot = r.lot(worst)
		}
	}
	return dst
}

// ranking is what candidates are compared by.
type ranking struct {
	totals   []float64
	inFlight []int64
	seed     uint64
}

// before says whether candidate i comes before j.
func (r *ranking) before(i, j int) bool {
	if r.totals[i] != r.totals[j] {
		return r.totals[i] > r.totals[j]
	}
	if r.inFlight[i] != r.inFlight[j] {
		return r.inFlight[i] < r.inFlight[j]
	}
	return r.lot(i) < r.lot(j)
}

// lot draws candidate i's lot: a pseudo-random order without an array to shuffle
// (SplitMix64).
func (r *ranking) lot(i int) uint64 {
	z := r.seed + uint64(i+1)*0x9e3779b97f4a7c15 //nolint:gosec // an index
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
