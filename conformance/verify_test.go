package conformance_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/conformance"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// patience is the time that one call may take: this machine may be busy.
const patience = 30 * time.Second

func verify(t *testing.T, f *faulty, checks ...string) conformance.Report {
	t.Helper()
	o := conformance.DefaultOptions()
	o.Checks, o.Timeout = checks, patience
	r, err := conformance.Verify(t.Context(), f.serve(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// but are the ids of all checks without some, which take long and are not asked for.
func but(without ...string) []string {
	var ids []string
	for _, c := range conformance.Checks() {
		if !slices.Contains(without, c.ID) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// Every check passes for a scorer without fault, which between them a full one and a
// bare one show.
func TestScorerWithoutFaultPasses(t *testing.T) {
	passed := make(map[string]bool)
	for _, bare := range []bool{false, true} {
		r := verify(t, newFaulty(t, bare))
		for _, res := range r.Results {
			switch res.Outcome {
			case conformance.Passed:
				passed[res.Check.ID] = true
			case conformance.Skipped:
			default:
				if res.Check.ID == "score-time" { // of a busy machine it may say so
					passed[res.Check.ID] = true
					continue
				}
				t.Errorf("bare %t: %s %s: %s", bare, res.Check.ID, res.Outcome, res.Reason)
			}
		}
		if !r.Conforms() || r.Name != "reference" || r.Version != "1" || !cmp.Equal(r.Types, []string{"reference"}) {
			t.Errorf("report %s %s %v", r.Name, r.Version, r.Types)
		}
	}
	for _, c := range conformance.Checks() {
		if !passed[c.ID] {
			t.Errorf("%s was never passed", c.ID)
		}
	}
}

// Every check is failed by a scorer that breaks its rule. A check that no defect fails
// would be no check.
func TestEveryCheckFindsItsDefect(t *testing.T) {
	levels := make(map[string]conformance.Level)
	for _, c := range conformance.Checks() {
		levels[c.ID] = c.Level
	}
	failed := make(map[string]bool)
	for _, d := range defects() {
		t.Run(d.check+"/"+d.name, func(t *testing.T) {
			f := newFaulty(t, d.bare)
			d.make(f)
			want := conformance.Failed
			if levels[d.check] == conformance.Should {
				want = conformance.Warned
			}
			o := conformance.DefaultOptions()
			o.Checks, o.Timeout = []string{d.check}, patience
			report, err := conformance.Verify(t.Context(), f.serve(t), o)
			if err != nil || len(report.Results) != 1 {
				t.Fatalf("%d results, error %v", len(report.Results), err)
			}
			r := report.Results[0]
			if r.Outcome != want || r.Reason == "" {
				t.Errorf("%s: %q", r.Outcome, r.Reason)
			}
			failed[d.check] = true
		})
	}
	for id := range levels {
		if !failed[id] {
			t.Errorf("no defect fails %s", id)
		}
	}
}

var anchor = regexp.MustCompile(`<a id="([a-z0-9-]+)"></a>`)

// Every check cites a rule that is in the contract's page, with the same level.
func TestChecksCiteTheContract(t *testing.T) {
	page, err := os.ReadFile("../docs/scorer-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := make(map[string]string)
	for line := range strings.Lines(string(page)) {
		if m := anchor.FindStringSubmatch(line); m != nil {
			if rules[m[1]] != "" {
				t.Errorf("anchor %s is there twice", m[1])
			}
			rules[m[1]] = line
		}
	}
	seen := make(map[string]bool)
	for _, c := range conformance.Checks() {
		if seen[c.ID] {
			t.Errorf("check %s is there twice", c.ID)
		}
		seen[c.ID] = true
		rule := rules[c.ID]
		if rule == "" || !strings.Contains(rule, string(c.Level)) {
			t.Errorf("check %s (%s) has the rule %q", c.ID, c.Level, rule)
		}
		if c.Title == "" || c.Fix == "" || c.Group == "" {
			t.Errorf("check %s is not told in words", c.ID)
		}
	}
	if len(rules) < len(seen) {
		t.Errorf("%d rules for %d checks", len(rules), len(seen))
	}
}

func TestNothingToReport(t *testing.T) {
	f := newFaulty(t, true)
	conn := f.serve(t)
	o := conformance.DefaultOptions()
	o.Type = "other"
	if _, err := conformance.Verify(t.Context(), conn, o); err == nil || !strings.Contains(err.Error(), `"other" but reference, ref`) {
		t.Errorf("error %v", err)
	}
	if _, err := conformance.Verify(t.Context(), conn, conformance.Options{Checks: []string{"nonsense"}}); err == nil || !strings.Contains(err.Error(), "timeout") || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("error %v", err)
	}
	nobody, err := grpc.NewClient("127.0.0.1:1", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	o = conformance.DefaultOptions()
	o.Timeout = 300 * time.Millisecond
	if _, err := conformance.Verify(t.Context(), nobody, o); err == nil || !strings.Contains(err.Error(), "get scorer info") {
		t.Errorf("error %v", err)
	}
}

// A type that abstains on everybody, or rates everybody alike, has shown nothing of what
// its scores depend on, and is not said to have.
func TestNothingIsShownByNothing(t *testing.T) {
	type response = scorerv1.ScoreResponse
	abstains := func(m *response) {
		*m = response{AbstainedOnAll: true, AbstainReason: scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE}
	}
	alike := func(m *response) {
		m.AbstainedIndices, m.MatchedBlockCounts, m.AbstainReason = nil, nil, scorerv1.AbstainReason_ABSTAIN_REASON_UNSPECIFIED
		for i := range m.Scores {
			m.Scores[i] = 1
		}
	}
	for name, tc := range map[string]struct {
		spoil   func(*response)
		skipped []string // that would apply otherwise
		warned  []string
	}{
		"abstains": {abstains, []string{
			"score-order", "score-repeat", "score-concurrent", "score-alias", "score-time", "explain-same",
			"request-unknown-fields", "stream-equal", "stream-table", "stream-loads",
		}, []string{"score-opinion"}},
		"rates alike": {alike, []string{"score-order"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t, false)
			f.score = func(_ int64, _ *scorerv1.ScoreRequest, m *response, err error) (*response, error) {
				if err == nil {
					tc.spoil(m)
				}
				return m, err
			}
			f.said = func(m *scorerv1.ScoreStreamResponse) *scorerv1.ScoreStreamResponse {
				for _, a := range m.GetAnswers() {
					if a.GetResponse() != nil {
						tc.spoil(a.GetResponse())
					}
				}
				return m
			}
			got := make(map[conformance.Outcome][]string)
			for _, r := range verify(t, f, but("request-largest", "request-invalid")...).Results {
				busy := r.Check.ID == "score-time" && r.Outcome == conformance.Warned
				if !busy && r.Outcome != conformance.Skipped || strings.Contains(r.Reason, "shows nothing") {
					got[r.Outcome] = append(got[r.Outcome], r.Check.ID)
				}
			}
			if d := cmp.Diff(tc.skipped, got[conformance.Skipped]); d != "" {
				t.Errorf("skipped: %s", d)
			}
			if d := cmp.Diff(tc.warned, got[conformance.Warned]); d != "" {
				t.Errorf("warned: %s", d)
			}
			if len(got[conformance.Failed]) > 0 {
				t.Errorf("failed %v", got[conformance.Failed])
			}
		})
	}
}

// A scorer that gives no answer is told of once, not waited for by every check.
func TestSilenceIsToldOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		group, first string
		make         func(*faulty)
	}{
		"Score hangs": {"score", "score-count", func(f *faulty) {
			f.before = func(ctx context.Context, _ int64, _ *scorerv1.ScoreRequest) error {
				<-ctx.Done()
				return status.FromContextError(ctx.Err()).Err()
			}
		}},
		"the stream is deaf": {"stream", "stream-equal", func(f *faulty) {
			f.stream = func(s grpc.BidiStreamingServer[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]) error {
				<-s.Context().Done()
				return nil
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t, false)
			tc.make(f)
			o := conformance.DefaultOptions()
			o.Timeout, o.Checks = 500*time.Millisecond, but("request-largest", "request-invalid", "request-unknown-type", "request-error-info", "parameters-score", "table-not-held")
			r, err := conformance.Verify(t.Context(), f.serve(t), o)
			if err != nil {
				t.Fatal(err)
			}
			var failed []string
			for _, res := range r.Results {
				switch {
				case res.Check.Group != tc.group:
				case res.Outcome == conformance.Failed:
					failed = append(failed, res.Check.ID)
				case res.Outcome != conformance.Skipped:
					t.Errorf("%s %s: %s", res.Check.ID, res.Outcome, res.Reason)
				}
			}
			if !cmp.Equal(failed, []string{tc.first}) {
				t.Errorf("failed %v", failed)
			}
		})
	}
}

// Messages without answers on the stream are no fault: nothing in the contract is against
// them, and a scorer that answers every message with one sends them.
func TestMessagesWithoutAnswersAreNoFault(t *testing.T) {
	f := newFaulty(t, false)
	f.stream = func(s grpc.BidiStreamingServer[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]) error {
		return f.good.ScoreStream(chatty{tapped{s, f}})
	}
	for _, r := range verify(t, f, but("request-largest", "request-invalid", "score-time")...).Results {
		if r.Outcome == conformance.Failed || r.Outcome == conformance.Warned {
			t.Errorf("%s %s: %s", r.Check.ID, r.Outcome, r.Reason)
		}
	}
}

// A scorer that never answers in a short time cannot be held to what it answers then, and
// every run ends.
func TestTooSlowToBeSeen(t *testing.T) {
	f := newFaulty(t, true)
	f.before = func(ctx context.Context, _ int64, _ *scorerv1.ScoreRequest) error {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	o := conformance.DefaultOptions()
	o.Checks, o.Timeout = []string{"score-deadline"}, 200*time.Millisecond
	r, err := conformance.Verify(t.Context(), f.serve(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Results[0]; got.Outcome != conformance.Skipped || !strings.Contains(got.Reason, "answers nothing within 100ms") {
		t.Errorf("%s: %q", got.Outcome, got.Reason)
	}
}

func TestParametersAndAliasesAreAskedFor(t *testing.T) {
	f := newFaulty(t, false)
	o := conformance.DefaultOptions()
	o.Type, o.Parameters, o.Timeout = "ref", []byte(`{"salt":"x"}`), patience
	o.Checks = but("score-time", "request-largest")
	o.Endpoints, o.Labels, o.Headers = []string{"z", "y"}, map[string][]string{"zone": {"q"}}, map[string]string{"x-zone": "q"}
	r, err := conformance.Verify(t.Context(), f.serve(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Count(conformance.Failed) + r.Count(conformance.Warned); n > 0 {
		t.Errorf("%d checks failed: %+v", n, r.Results)
	}
	o.Parameters = []byte(`{"pepper":"x"}`)
	r, err = conformance.Verify(t.Context(), f.serve(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Conforms() || r.Count(conformance.Failed) != 1 {
		t.Errorf("%d checks failed", r.Count(conformance.Failed))
	}
}
