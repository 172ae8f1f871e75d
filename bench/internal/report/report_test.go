package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStat(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   Stat
	}{
		{[]float64{3}, Stat{3, 3, 3}},
		{[]float64{3, 1}, Stat{2, 1, 3}},
		{[]float64{9, 1, 2}, Stat{2, 1, 9}},
	} {
		if diff := cmp.Diff(tc.want, NewStat(tc.values)); diff != "" {
			t.Errorf("%v: %s", tc.values, diff)
		}
	}
}

func sample() *Report {
	part := func(name string, counted bool, cpu float64) PartRound {
		return PartRound{Name: name, Counted: counted, CPUMicros: cpu, Waits: 3, Allocations: 200, CPUShare: 0.1, ResidentMiB: 50}
	}
	rounds := []Round{
		{PicksPerSecond: 1000, CPUMicros: 300, P99Ms: 5, Failures: 1, Errors: map[string]int{"late": 1}, Parts: []PartRound{part("router", true, 300), part("collector", false, 80)}},
		{PicksPerSecond: 3000, CPUMicros: 100, P99Ms: 7, Parts: []PartRound{part("router", true, 100), part("collector", false, 40)}},
	}
	return &Report{
		Taken: time.Unix(1e9, 0), Command: "bench record", Version: "v1",
		Rows:     []Row{NewRow(Case{Subject: "pointsman", Placement: "tcp", Endpoints: 10, BodyBytes: 8192, Streams: 64}, rounds)},
		Verdicts: []Verdict{{What: "a", Value: 2, Limit: 1}, {What: "b", Value: 2, Limit: 1, Goal: true}, {What: "c", Value: 1, Limit: 1}},
	}
}

func TestMarkdown(t *testing.T) {
	text := sample().Markdown()
	for _, want := range []string{
		"# Results of 2001-09-09 01:46 UTC", "`bench record`",
		"| pointsman | tcp | 10 | 8 KB | 64 streams | 2000 (1000–3000) | 200 (100–300) |",
		"router 200.0 / 3.0 / 200.0 / 50; (collector 10 %)",
		"| a | 2.00 | 1.00 | **failed** |", "| b | 2.00 | 1.00 | goal missed |", "| c | 1.00 | 1.00 | kept |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}

func TestOnlyLimitsFail(t *testing.T) {
	if diff := cmp.Diff([]Verdict{{What: "a", Value: 2, Limit: 1}}, sample().Failed()); diff != "" {
		t.Error(diff)
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	r := sample()
	if err := r.Write(dir, "x"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "x.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.Rows, back.Rows); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "x.md")); err != nil {
		t.Error(err)
	}
}
