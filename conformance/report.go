package conformance

// Outcome is what came of a check.
type Outcome string

// Outcomes.
const (
	Passed  Outcome = "passed"
	Warned  Outcome = "warned"  // a SHOULD is broken
	Failed  Outcome = "failed"  // a MUST is broken
	Skipped Outcome = "skipped" // the check does not apply
)

// Result is what came of one check.
type Result struct {
	Check Check
	// Type is the scorer type; empty for checks of the whole service.
	Type string
	// Outcome is what came of it, Reason how the rule is broken or why the check does
	// not apply.
	Outcome Outcome
	Reason  string
}

// Report is what came of all checks.
type Report struct {
	// Name and Version are the scorer's own words; empty if it gave none.
	Name, Version string
	// Types are those that were checked.
	Types []string
	// Results are in the order of [Checks], type by type.
	Results []Result
}

// Count returns how many checks came out so.
func (r Report) Count(o Outcome) int {
	n := 0
	for _, res := range r.Results {
		if res.Outcome == o {
			n++
		}
	}
	return n
}

// Conforms says whether no MUST is broken.
func (r Report) Conforms() bool { return r.Count(Failed) == 0 }
