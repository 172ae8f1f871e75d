package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pointsman/pointsman/bench/internal/procstat"
)

// Report is the results of one run.
type Report struct {
	// Taken is when, Command how, Version of what, and Machine where.
	Taken   time.Time            `json:"taken"`
	Command string               `json:"command"`
	Version string               `json:"version"`
	Machine procstat.Description `json:"machine"`
	// Notes are what a reader must know.
	Notes []string `json:"notes,omitempty"`
	// Table is what is asked for most, as lines of Markdown.
	Table []string `json:"-"`
	// Rows are the figures, and Verdicts what they were held against.
	Rows     []Row     `json:"rows"`
	Verdicts []Verdict `json:"verdicts,omitempty"`
}

// Verdict is one figure held against a limit or a goal, within the run.
type Verdict struct {
	// What is compared, in words.
	What string `json:"what"`
	// Value is to be at most Limit. A goal is missed without failing the run.
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Goal  bool    `json:"goal"`
}

// Met says whether the value is within the limit. One that could not be had is not.
func (v Verdict) Met() bool { return v.Value <= v.Limit }

// Failed returns the limits that were not kept.
func (r *Report) Failed() []Verdict {
	var all []Verdict
	for _, v := range r.Verdicts {
		if !v.Met() && !v.Goal {
			all = append(all, v)
		}
	}
	return all
}

// Find returns the first row that a condition holds for; nil if there is none.
func (r *Report) Find(is func(*Row) bool) *Row {
	for i := range r.Rows {
		if is(&r.Rows[i]) {
			return &r.Rows[i]
		}
	}
	return nil
}

// Write writes name.md and name.json into a directory.
func (r *Report) Write(dir, name string) error { return WriteFiles(dir, name, r, r.Markdown()) }

// WriteFiles writes results, as JSON and as Markdown, into name.json and name.md of a
// directory, which is made if it is not there.
func WriteFiles(dir, name string, results any, markdown string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	b, err := json.MarshalIndent(results, "", " ")
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	for file, text := range map[string][]byte{name + ".json": append(b, '\n'), name + ".md": []byte(markdown)} {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil { //nolint:gosec // for everybody to read
			return fmt.Errorf("write results: %w", err)
		}
	}
	return nil
}

// Markdown writes the results for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of %s\n\n", r.Taken.UTC().Format("2006-01-02 15:04 UTC"))
	fmt.Fprintf(&b, "- Command: `%s`\n- Version: %s\n- Machine: %d × %s, %d MiB, Linux %s, %s\n", r.Command, r.Version, r.Machine.CPUs, r.Machine.Processor, r.Machine.MemoryMiB, r.Machine.Kernel, r.Machine.Go)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "- %s\n", n)
	}
	if len(r.Table) > 0 {
		b.WriteString("\n" + strings.Join(r.Table, "\n") + "\n\n## All rows\n")
	}
	b.WriteString("\nFigures are medians of rounds, least and most in brackets. CPU is of all counted processes together. Calls unanswered are those to scorers that were not answered in time or not made.\n")
	r.rows(&b)
	r.parts(&b)
	r.verdicts(&b)
	return b.String()
}

func (r *Report) rows(b *strings.Builder) {
	b.WriteString("\n| subject | placement | endpoints | body | load | picks/s | CPU µs per pick | waits per pick | p50 ms | p99 ms | failures | calls unanswered % | steal % | other load % |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, w := range r.Rows {
		fmt.Fprintf(b, "| %s | %s | %d | %s | %s | %s | %s | %s | %s | %s | %d | %.1f | %.1f | %.0f |\n",
			w.Subject, w.Placement, w.Endpoints, size(w.BodyBytes), w.load(), w.PicksPerSecond.Text(0), w.CPUMicros.Text(0), w.Waits.Text(1),
			w.P50Ms.Text(2), w.P99Ms.Text(2), w.Failures, 100*w.UnansweredShare.Median, 100*w.StealShare.Median, 100*w.OtherShare.Median)
	}
}

func (c Case) load() string {
	if c.Rate > 0 {
		return fmt.Sprintf("%.0f/s Poisson", c.Rate)
	}
	return fmt.Sprintf("%d streams", c.Streams)
}

func size(n int) string {
	if n%1024 == 0 {
		return fmt.Sprintf("%d KB", n/1024)
	}
	return fmt.Sprintf("%d B", n)
}

// parts tells of the processes of every row that has several.
func (r *Report) parts(b *strings.Builder) {
	b.WriteString("\n## By process\n\nCPU µs / waits / heap allocations, all per pick / MiB resident; those in brackets are not counted in a pick, and are given as % of one processor.\n\n")
	for _, w := range r.Rows {
		if len(w.Parts) < 2 {
			continue
		}
		fmt.Fprintf(b, "- %s %s, %d endpoints, %s, %s: ", w.Subject, w.Placement, w.Endpoints, size(w.BodyBytes), w.load())
		for i, p := range w.Parts {
			if i > 0 {
				b.WriteString("; ")
			}
			if !p.Counted {
				fmt.Fprintf(b, "(%s %.0f %%)", p.Name, 100*p.CPUShare.Median)
				continue
			}
			fmt.Fprintf(b, "%s %.1f / %.1f / %.1f / %.0f", p.Name, p.CPUMicros.Median, p.Waits.Median, p.Allocations.Median, p.ResidentMiB.Median)
		}
		b.WriteString("\n")
	}
}

func (r *Report) verdicts(b *strings.Builder) {
	if len(r.Verdicts) == 0 {
		return
	}
	b.WriteString("\n## Held against\n\n| what | value | at most | |\n|---|---|---|---|\n")
	for _, v := range r.Verdicts {
		word := "kept"
		switch {
		case !v.Met() && v.Goal:
			word = "goal missed"
		case !v.Met():
			word = "**failed**"
		case v.Goal:
			word = "goal met"
		}
		fmt.Fprintf(b, "| %s | %.2f | %.2f | %s |\n", v.What, v.Value, v.Limit, word)
	}
}
