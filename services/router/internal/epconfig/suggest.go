package epconfig

import (
	"fmt"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// maxCompared is how many names one text's misspelt ones are compared with, all in
// all: a long text of nothing but misspelt names would take minutes, for hints that
// nobody reads.
const maxCompared = 200_000

// near returns up to limit of the known names that got looks like, best first; none
// once the text has been compared enough.
func (r *report) near(got string, known []string, limit int) []string {
	if r.compared += len(known); r.compared > maxCompared {
		return nil
	}
	return conf.Near(got, known, limit)
}

// didYouMean returns a hint to what was probably meant, or "".
func (r *report) didYouMean(got string, known []string) string {
	for _, name := range r.near(got, known, 1) {
		return fmt.Sprintf("; did you mean %q?", name)
	}
	return ""
}

// didYouMeanOr hints at the nearest name, or else at all of them.
func (r *report) didYouMeanOr(got string, known []string) string {
	if hint := r.didYouMean(got, known); hint != "" {
		return hint
	}
	return "; there is: " + strings.Join(known, ", ")
}
