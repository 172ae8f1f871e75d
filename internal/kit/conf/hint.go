package conf

import (
	"cmp"
	"fmt"
	"slices"
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
	for _, name := range Near(got, known, 1) {
		return name
	}
	return ""
}

// Near returns up to limit of the known words that got looks like, whatever the case of the letters, best first. A word
// that is part of the other is near.
func Near(got string, known []string, limit int) []string {
	type near struct {
		name     string
		distance int
	}
	var found []near
	g := strings.ToLower(got)
	if len(g) < 2 || len(g) > 128 { // one letter looks like everything, and nobody errs at such length
		return nil
	}
	for _, name := range known {
		k := strings.ToLower(name)
		d := distance(g, k)
		if len(g) >= 4 && len(k) >= 4 && (strings.Contains(k, g) || strings.Contains(g, k)) {
			d = min(d, 2)
		}
		if d <= max(2, len(g)/4) && d < len(g) {
			found = append(found, near{name, d})
		}
	}
	slices.SortFunc(found, func(a, b near) int { return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name)) })
	var names []string
	for _, n := range found {
		if len(names) < limit && !slices.Contains(names, n.name) {
			names = append(names, n.name)
		}
	}
	return names
}

// distance is how many insertions, deletions, changes and swaps of neighbours lead
// from a to b (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
