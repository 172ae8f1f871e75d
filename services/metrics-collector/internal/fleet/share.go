package fleet

// weight is how much a collector wants an endpoint: FNV-1a over both, with the
// finisher of MurmurHash3, without which ids that differ in their last digit would
// come out in order.
func weight(collector string, id ID) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(collector) {
		h = (h ^ uint64(collector[i])) * 1099511628211
	}
	h *= 1099511628211 // a zero byte between the two
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// owner returns the collector with the highest weight; the smaller id on ties.
func owner(id ID, collectors []string) string {
	best, most := "", uint64(0)
	for _, c := range collectors {
		if w := weight(c, id); best == "" || w > most || w == most && c < best {
			best, most = c, w
		}
	}
	return best
}
