package scale

import (
	"fmt"
	"os"
	"strings"
)

// Refresh writes the report's tables into a page, between the lines
// "<!-- bench scale: NAME -->" and "<!-- bench scale: end -->", where NAME is formulas,
// sums or limits. What else is in the page stays as it is.
func (r *Report) Refresh(page string) error {
	b, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("refresh the page: %w", err)
	}
	sums, err := r.Sums()
	if err != nil {
		return fmt.Errorf("refresh %s: %w", page, err)
	}
	origin := fmt.Sprintf("From [the run of %s](bench/scale.md), `%s`, version %s.", r.Taken.UTC().Format("2006-01-02 15:04 UTC"), r.Command, r.Version)
	text := string(b)
	for name, lines := range map[string][]string{
		"formulas": append([]string{origin, ""}, FormulaTable(r.Formulas)...),
		"sums":     append(SumTable(sums), "", Example(r.Formulas, &sums[1])),
		"limits":   LimitTable(&sums[len(sums)-1]),
	} {
		if text, err = between(text, name, lines); err != nil {
			return fmt.Errorf("refresh %s: %w", page, err)
		}
	}
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil { //nolint:gosec // for everybody to read
		return fmt.Errorf("refresh the page: %w", err)
	}
	return nil
}

// between replaces what is between two marks.
func between(text, name string, lines []string) (string, error) {
	const closing = "<!-- bench scale: end -->"
	opening := fmt.Sprintf("<!-- bench scale: %s -->\n", name)
	before, rest, found := strings.Cut(text, opening)
	if !found {
		return "", fmt.Errorf("it lacks the line %q", strings.TrimSpace(opening))
	}
	_, after, found := strings.Cut(rest, closing)
	if !found {
		return "", fmt.Errorf("it lacks %q after %q", closing, strings.TrimSpace(opening))
	}
	return before + opening + strings.Join(lines, "\n") + "\n" + closing + after, nil
}
