package record

import (
	"testing"

	"github.com/pointsman/pointsman/bench/internal/report"
)

func row(subject, placement string, endpoints, size int, cpu float64) report.Row {
	return report.NewRow(report.Case{Subject: subject, Placement: placement, Endpoints: endpoints, BodyBytes: size, Streams: 64},
		[]report.Round{{CPUMicros: cpu, Parts: []report.PartRound{{Name: "router", Counted: true, Allocations: 100}}}})
}

// Figures are held against what was measured in the same run, and only if it was.
func TestJudge(t *testing.T) {
	r := &report.Report{Rows: []report.Row{
		row("pointsman", "tcp", 10, 8<<10, 100), row("floor", "", 10, 8<<10, 50),
		row("pointsman", "tcp", 100, 8<<10, 600), row("floor", "", 100, 8<<10, 60),
		row("pointsman", "embedded", 100, 8<<10, 1), // is not what the limit is for
	}}
	got := make(map[string]report.Verdict)
	for _, v := range Judge(r) {
		if !v.Goal {
			got[v.What] = v
		}
	}
	if len(got) != 3 {
		t.Errorf("%d limits were judged, want 3: the run has no 500 endpoints", len(got))
	}
	if v := got["CPU of a pick over the floor's, 100 endpoints, 8 KB"]; v.Value != 10 || v.Met() {
		t.Errorf("over the floor: %+v", v)
	}
	if v := got["heap allocations of a pick in the router, 100 endpoints, 8 KB"]; v.Value != 100 || !v.Met() {
		t.Errorf("allocations: %+v", v)
	}
	r.Rows[1].Failures = 1
	if v := Judge(r)[0]; v.Met() {
		t.Errorf("a wrong answer: %+v", v)
	}
	lines := Table(r)
	if len(lines) != 4 {
		t.Fatalf("a table of %d lines, want 2 cells below 2 of heading", len(lines))
	}
	if want := "| 100 | 8 KB | 0 | 0.600 | 0.20 | missed by 200 % | 0.060 | 10.00 × |"; lines[3] != want {
		t.Errorf("%q, want %q", lines[3], want)
	}
	open := row("pointsman", "embedded", 100, 8<<10, 400)
	open.Streams, open.Rate = 0, 500
	r.Rows = append(r.Rows, open)
	lines = Table(r)
	if want := "| pointsman, 500/s | embedded | 0.400 | 0.45 | met | 0.00 | 0.00 | 10 | met |"; lines[len(lines)-1] != want {
		t.Errorf("%q, want %q", lines[len(lines)-1], want)
	}
}

func TestConfigs(t *testing.T) {
	for name, c := range map[string]Config{"record": DefaultConfig(), "quick": QuickConfig()} {
		c.Binaries, c.Self = "bin", "bench"
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if (Config{Endpoints: []int{0}, Bodies: []int{1}}).Validate() == nil {
		t.Error("a wrong configuration was taken")
	}
}
