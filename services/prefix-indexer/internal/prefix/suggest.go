package prefix

import (
	"fmt"
	"strings"
)

// suggest says which of the known keys may have been meant.
func suggest(got string, known []string) string {
	best, distance := "", len(got)/3+2 // beyond that it is another word
	for _, k := range known {
		if n := edits(strings.ToLower(got), strings.ToLower(k)); n < distance {
			best, distance = k, n
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "known here: " + strings.Join(known, ", ")
}

// edits counts the insertions, deletions and substitutions between a and b, of which
// at most 64 bytes are looked at.
func edits(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
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
