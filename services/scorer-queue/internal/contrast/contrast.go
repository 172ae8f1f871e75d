package contrast

// Unknown is a count that is not known.
const Unknown = -1

// Range returns the least and the most of the known counts; ok is false if none is
// known.
func Range(counts []int64) (least, most int64, ok bool) {
	for _, c := range counts {
		switch {
		case c < 0:
		case !ok:
			least, most, ok = c, c, true
		default:
			least, most = min(least, c), max(most, c)
		}
	}
	return least, most, ok
}

// Score fills in scores[i] = 1 − (counts[i] − least) / width, and leaves alone what is
// not known. width must be above 0 and at least the greatest difference; at that
// difference it is the formula of the Inference Gateway's queue-scorer,
// (most − count) / (most − least).
func Score(counts []int64, least, width int64, scores []float32) {
	most := least + width
	for i, c := range counts {
		if c >= 0 {
			scores[i] = float32(float64(most-c) / float64(width))
		}
	}
}
