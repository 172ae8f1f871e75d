package remote

// nearest returns the known name that was probably meant, empty if none is near.
func nearest(got string, known []string) string {
	best, distance := "", len(got)/3+2 // beyond that it is another word
	for _, k := range known {
		if n := edits(got, k); n < distance {
			best, distance = k, n
		}
	}
	return best
}

// edits counts the insertions, deletions and substitutions between a and b, of which
// it looks at 64 bytes each.
func edits(a, b string) int {
	const most = 64
	a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
