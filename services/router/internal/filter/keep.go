package filter

// keep returns the positions that stay, in the array of in.
func keep(in []int32, stays func(pos int32) bool) []int32 {
	kept := in[:0]
	for _, pos := range in {
		if stays(pos) {
			kept = append(kept, pos)
		}
	}
	return kept
}
