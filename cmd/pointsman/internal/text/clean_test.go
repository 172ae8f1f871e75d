package text

import (
	"strings"
	"testing"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

// A model name that rewrites the screen, and a scorer's word that fakes a line.
func TestNothingOfStrangersReachesTheTerminal(t *testing.T) {
	d := Clean(&routerv1.Decision{
		Model: "\x1b]0;pwn\ax\nFAKE LINE", Path: "/v1/ü/\u009b31m",
		Profiles: []*routerv1.ProfileDecision{{
			Scorers:    []*routerv1.ScorerDecision{{Plugin: "p", Reason: "a\tb\r"}},
			Candidates: []*routerv1.CandidateDecision{{Scores: []*routerv1.CandidateScore{{Text: "\x1b[2J 37 of 52"}}}},
		}},
	})
	all := d.GetModel() + d.GetPath() + d.GetProfiles()[0].GetScorers()[0].GetReason() + d.GetProfiles()[0].GetCandidates()[0].GetScores()[0].GetText()
	if strings.ContainsAny(all, "\x1b\a\n\t\r\u009b") {
		t.Errorf("control characters are left in %q", all)
	}
	if d.GetModel() != "�]0;pwn�x�FAKE LINE" || d.GetPath() != "/v1/ü/�31m" {
		t.Errorf("model %q, path %q", d.GetModel(), d.GetPath())
	}
	if strings.Contains(Decision(d), "\n") {
		t.Error("a decision takes more than its line")
	}
}
