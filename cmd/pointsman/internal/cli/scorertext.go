package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/pointsman/pointsman/cmd/pointsman/internal/text"
	"github.com/pointsman/pointsman/conformance"
)

// printReport prints a report for people: a line for each rule, and below those that
// are broken how, what to do, and where the rule is.
func printReport(stdout io.Writer, target string, r conformance.Report) {
	fmt.Fprintf(stdout, "%s %s at %s\n", text.OrDash(text.Line(r.Name)), text.OrDash(text.Line(r.Version)), target)
	title := ""
	for _, res := range r.Results {
		if res.Outcome == conformance.Skipped {
			continue
		}
		if now := heading(res); now != title {
			title = now
			fmt.Fprintf(stdout, "\n%s\n%s\n", title, strings.Repeat("-", utf8.RuneCountInString(title)))
		}
		fmt.Fprintf(stdout, "%s %s\n", mark(res.Outcome), res.Check.Title)
		if res.Outcome != conformance.Passed {
			fmt.Fprintf(stdout, "    %s\n    fix: %s\n    see %s#%s\n", text.Line(res.Reason), res.Check.Fix, contractPage, res.Check.ID)
		}
	}
	fmt.Fprintf(stdout, "\n%s", count(r.Count(conformance.Passed), "check")+" passed")
	if n := r.Count(conformance.Warned); n > 0 {
		fmt.Fprintf(stdout, ", %s", count(n, "warning"))
	}
	if n := r.Count(conformance.Failed); n > 0 {
		fmt.Fprintf(stdout, ", %d failed", n)
	}
	if n := r.Count(conformance.Skipped); n > 0 {
		fmt.Fprintf(stdout, "; %d do not apply, -o json says why", n)
	}
	verdict := "√ it conforms"
	if !r.Conforms() {
		verdict = "× it does not conform"
	}
	fmt.Fprintf(stdout, "\n%s\n", verdict)
}

func heading(r conformance.Result) string {
	if r.Type == "" {
		return r.Check.Group
	}
	return r.Check.Group + ": " + text.Line(r.Type)
}

func mark(o conformance.Outcome) string {
	switch o {
	case conformance.Passed:
		return "√"
	case conformance.Warned:
		return "‼"
	default:
		return "×"
	}
}
