package conformance

import (
	"context"
	"fmt"
	"slices"
)

// Level says what breaking a rule means.
type Level string

// Levels, in the words of RFC 2119.
const (
	Must   Level = "MUST"   // a router could not work with the scorer
	Should Level = "SHOULD" // it could, and somebody will be sorry
)

// Check is one rule that can be seen from outside.
type Check struct {
	// ID is the rule's anchor in docs/scorer-contract.md.
	ID string
	// Group is what the rule is about, such as "info".
	Group string
	// Level is that of the rule.
	Level Level
	// Title is the rule in a few words, as a fact.
	Title string
	// Fix says what to do about it.
	Fix string

	perType bool
	onGood  bool // says nothing where answers by themselves are wrong
	rated   bool // says nothing where nobody is rated
	run     func(ctx context.Context, s *subject) error
}

// PerType says whether the check is run once for each scorer type, or once.
func (c Check) PerType() bool { return c.perType }

// Checks returns all checks in the order in which they are run.
func Checks() []Check {
	var all []Check
	for _, group := range []struct {
		name    string
		perType bool
		checks  []Check
	}{
		{"health", false, healthChecks()},
		{"info", false, infoChecks()},
		{"outcomes", false, outcomeChecks()},
		{"parameters", true, parameterChecks()},
		{"score", true, scoreChecks()},
		{"requests", true, requestChecks()},
		{"tables", true, tableChecks()},
		{"stream", true, streamChecks()},
	} {
		for _, c := range group.checks {
			c.Group, c.perType = group.name, group.perType
			c.onGood = group.name == "stream" || group.name == "score" && !aboutAnswer(c.ID) || c.ID == "request-largest" || c.ID == "request-unknown-fields"
			c.rated = slices.Contains(ofScores(), c.ID)
			all = append(all, c)
		}
	}
	return all
}

// aboutAnswer says whether a check is of one of the rules about an answer by itself.
func aboutAnswer(id string) bool {
	return slices.ContainsFunc(rules(), func(r rule) bool { return r.id == id })
}

// ofScores are the checks that hold scores against each other or against the clock. A
// type that abstains on everybody passes them without having shown anything.
func ofScores() []string {
	return []string{
		"score-order", "score-repeat", "score-concurrent", "score-alias", "score-time", "explain-same",
		"request-unknown-fields", "stream-equal", "stream-table", "stream-loads",
	}
}

// notApplicable is the error of a check that says nothing about this scorer.
type notApplicable string

func (n notApplicable) Error() string { return string(n) }

// silence is the error of a check in which the scorer gave no answer. Checks of the same
// group would wait for the next one in vain.
type silence struct{ error }

func (s silence) Unwrap() error { return s.error }

// broken says how a rule is broken.
func broken(format string, args ...any) error { return fmt.Errorf(format, args...) }
