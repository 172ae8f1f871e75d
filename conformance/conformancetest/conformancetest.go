// Package conformancetest runs the checks of package conformance as subtests, for
// scorers that are written in Go. Scorers in other languages are checked by
// `pointsman scorer verify`.
package conformancetest

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/conformance"
)

// Run holds the scorer behind conn against the contract. A broken MUST fails the test;
// a broken SHOULD does too, unless its id is among tolerated. It returns what was found,
// so that a test can demand more, such as that certain checks apply.
func Run(t *testing.T, conn grpc.ClientConnInterface, o conformance.Options, tolerated ...string) conformance.Report {
	t.Helper()
	report, err := conformance.Verify(t.Context(), conn, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		name := r.Check.ID
		if r.Type != "" {
			name = r.Type + "/" + name
		}
		t.Run(name, func(t *testing.T) { tell(t, r, tolerated) })
	}
	return report
}

// teller is what is needed of a testing.T.
type teller interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
}

func tell(t teller, r conformance.Result, tolerated []string) {
	t.Helper()
	switch r.Outcome {
	case conformance.Passed:
	case conformance.Skipped:
		t.Logf("does not apply: %s", r.Reason)
	case conformance.Warned:
		for _, id := range tolerated {
			if id == r.Check.ID {
				t.Logf("tolerated: %s", r.Reason)
				return
			}
		}
		t.Errorf("SHOULD: %s: %s\nfix: %s", r.Check.Title, r.Reason, r.Check.Fix)
	default:
		t.Errorf("MUST: %s: %s\nfix: %s", r.Check.Title, r.Reason, r.Check.Fix)
	}
}
