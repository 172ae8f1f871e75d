package conformancetest

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pointsman/pointsman/conformance"
	"github.com/pointsman/pointsman/sdk/scorer/simple"
)

// What the SDK serves conforms, but for having an opinion.
func TestSimpleScorerConforms(t *testing.T) {
	cfg := simple.DefaultConfig("acme", "1")
	cfg.Address = "127.0.0.1:0"
	s, err := simple.New(cfg, simple.Type{Name: "flat", Aliases: []string{"even"}, Needs: simple.Needs{Load: true, Labels: true, Adapters: true}, Scorer: simple.Func(func(_ context.Context, r simple.Request) (simple.Scores, error) {
		out := r.NewScores()
		for i, c := range r.Candidates {
			l, ok := c.Load()
			if out.Values[i] = simple.Abstain; ok && l.Waiting >= 0 {
				out.Values[i] = 1 / float32(1+l.Waiting)
			}
		}
		return out, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	conn, err := grpc.NewClient(s.Addr(ctx), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	Run(t, conn, conformance.DefaultOptions(), "score-time")
	conn.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// told keeps what a test would say.
type told struct{ log, errors []string }

func (*told) Helper()                   {}
func (d *told) Logf(f string, a ...any) { d.log = append(d.log, fmt.Sprintf(f, a...)) }
func (d *told) Errorf(f string, a ...any) {
	d.errors = append(d.errors, fmt.Sprintf(f, a...))
}

func TestBrokenRulesFailTheTest(t *testing.T) {
	result := func(o conformance.Outcome) conformance.Result {
		return conformance.Result{Check: conformance.Check{ID: "x"}, Outcome: o, Reason: "so"}
	}
	for name, tc := range map[string]struct {
		outcome   conformance.Outcome
		tolerated []string
		log, errs int
	}{
		"passed":    {conformance.Passed, nil, 0, 0},
		"skipped":   {conformance.Skipped, nil, 1, 0},
		"warned":    {conformance.Warned, []string{"y"}, 0, 1},
		"tolerated": {conformance.Warned, []string{"x"}, 1, 0},
		"failed":    {conformance.Failed, []string{"x"}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var d told
			tell(&d, result(tc.outcome), tc.tolerated)
			if len(d.log) != tc.log || len(d.errors) != tc.errs {
				t.Errorf("said %v and %v", d.log, d.errors)
			}
		})
	}
}
