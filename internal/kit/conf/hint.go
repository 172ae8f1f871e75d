package conf

import (
	"fmt"
	"slices"
	"strings"
)

// hint suggests which of the known keys was meant by got, or lists them.
func hint(got string, known []string) string {
	best, distance := "", min(max(2, len(got)/3)+1, len(got)) // from there on it is another word
	for _, k := range known {
		if n := levenshtein(strings.ToLower(got), strings.ToLower(k)); n < distance {
			best, distance = k, n
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	if len(known) == 0 {
		return "there are no settings here"
	}
	sorted := slices.Sorted(slices.Values(known))
	return "known here: " + strings.Join(sorted, ", ")
}

// levenshtein counts the insertions, deletions and substitutions between a and b. It looks at 64 bytes of each at most.
func levenshtein(a, b string) int {
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
