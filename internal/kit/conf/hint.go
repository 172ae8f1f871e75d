package conf

import (
	"fmt"
	"strings"
)

// Hint says, for a fault's text, which of the known words was meant by got, or lists them as they stand.
func Hint(got string, known []string) string {
	if near := Nearest(got, known); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	if len(known) == 0 {
		return "there are no settings here"
	}
	return "known here: " + strings.Join(known, ", ")
}

// Nearest returns the known word that got looks like, whatever the case of the letters, or "" if there is none.
func Nearest(got string, known []string) string {
	best, distance := "", min(max(2, len(got)/3)+1, len(got)) // from there on it is another word
	for _, k := range known {
		if n := levenshtein(strings.ToLower(got), strings.ToLower(k)); n < distance {
			best, distance = k, n
		}
	}
	return best
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
