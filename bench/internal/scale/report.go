package scale

import (
	"fmt"
	"strings"
	"time"

	"github.com/pointsman/pointsman/bench/internal/procstat"
	"github.com/pointsman/pointsman/bench/internal/report"
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
	// Rows are what was measured, and Formulas what was fitted to it.
	Rows     []Row     `json:"rows"`
	Formulas []Formula `json:"formulas"`
}

// Fit makes formulas of the rows.
func (r *Report) Fit() { r.Formulas = Formulas(r.Rows) }

// Failures is how many answers were missing or wrong.
func (r *Report) Failures() (n int, errors map[string]int) {
	errors = make(map[string]int)
	for _, w := range r.Rows {
		n += w.Failures
		for text, times := range w.Errors {
			errors[text] += times
		}
	}
	return n, errors
}

// Sums sums up the pools of Pools.
func (r *Report) Sums() ([]Sum, error) {
	var all []Sum
	for _, p := range Pools() {
		s, err := SumOf(r.Formulas, p)
		if err != nil {
			return nil, fmt.Errorf("sums: %w", err)
		}
		all = append(all, s)
	}
	return all, nil
}

// Write writes name.md and name.json into a directory.
func (r *Report) Write(dir, name string) error { return report.WriteFiles(dir, name, r, r.Markdown()) }

// symbols explains the formulas' symbols.
const symbols = "r requests/s over all routers, e endpoints, k KB of a request, b prefix blocks of it (64 bytes each, at most 256), τ seconds between two scrapes of an endpoint; " +
	"R routers, n replicas of the kind that the formula is about, N all that hear outcomes (routers, prefix-indexers, scorers); " +
	"m messages of outcomes and prompts into NATS per pick, m' out of it, q KB out of it per pick; A batches of outcomes per second by design, A₁ of a lone router and A₂ of several"

// Markdown writes the results for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What scaling costs, of %s\n\n", r.Taken.UTC().Format("2006-01-02 15:04 UTC"))
	fmt.Fprintf(&b, "- Command: `%s`\n- Version: %s\n- Machine: %d × %s, %d MiB, Linux %s, %s\n", r.Command, r.Version, r.Machine.CPUs, r.Machine.Processor, r.Machine.MemoryMiB, r.Machine.Kernel, r.Machine.Go)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "- %s\n", n)
	}
	b.WriteString("\n## Formulas\n\nFitted by least squares of relative errors. " + symbols + ".\n\n" + strings.Join(FormulaTable(r.Formulas), "\n") + "\n")
	if sums, err := r.Sums(); err != nil {
		fmt.Fprintf(&b, "\nNo sums: %v.\n", err)
	} else {
		b.WriteString("\n## Sums\n\n" + strings.Join(SumTable(sums), "\n") + "\n\n" + Example(r.Formulas, &sums[1]) + "\n\nScarcest in the last:\n\n" + strings.Join(LimitTable(&sums[len(sums)-1]), "\n") + "\n")
	}
	b.WriteString("\n## Rows\n\nFigures are medians of rounds, least and most in brackets. CPU of a pick is what is above the idle window of the same mesh, of all replicas of a kind; a / n is of n replicas. All but the collector's count.\n\n")
	r.loaded(&b)
	b.WriteString("\n## Without requests\n\nCPU in ms per second of one replica, and MiB resident of one.\n\n")
	r.idle(&b)
	b.WriteString("\n## By subject\n\nMessages / bytes per second into NATS, counted by a subscriber in a window of its own.\n\n")
	r.subjects(&b)
	return b.String()
}

// setup writes what a mesh is, in cells of a table.
func (c Case) setup() string {
	return fmt.Sprintf("%d | %v | %d | %d | %d", c.Endpoints, c.Scrape(), c.Routers, c.Indexers, c.Scorers)
}

const setupHead = "endpoints | scraped every | routers | indexers | scorers of each"

// counted are the kinds whose CPU is that of a pick.
func counted() []string { return []string{router, queue, kv, indexer, bus} }

func (r *Report) loaded(b *strings.Builder) {
	fmt.Fprintf(b, "| %s | body | loop | picks/s | p99 ms | CPU µs per pick | %s | NATS per pick: messages in, out | bytes in, out | failures | calls unanswered %% | steal %% | other load %% |\n|%s\n",
		setupHead, strings.Join(counted(), " | "), strings.Repeat("---|", 16+len(counted())))
	for i := range r.Rows {
		w := &r.Rows[i]
		if w.Load == Idle {
			continue
		}
		var cells []string
		for _, name := range counted() {
			k := w.Kind(name)
			cell := k.PickMicros.Text(0)
			if k.Replicas > 1 {
				cell += fmt.Sprintf(" / %d", k.Replicas)
			}
			cells = append(cells, cell)
		}
		n := &w.NATSPerPick
		fmt.Fprintf(b, "| %s | %d KB | %s | %s | %s | %s | %s | %.2f, %.2f | %.0f, %.0f | %d | %.1f | %.1f | %.0f |\n", w.setup(), w.BodyBytes/kb, w.Load, w.PicksPerSecond.Text(0), w.P99Ms.Text(1), w.PickMicros.Text(0), strings.Join(cells, " | "),
			n.MessagesIn.Median, n.MessagesOut.Median, n.BytesIn.Median, n.BytesOut.Median, w.Failures, 100*w.UnansweredShare.Median, 100*w.StealShare.Median, 100*w.OtherShare.Median)
	}
}

func (r *Report) idle(b *strings.Builder) {
	fmt.Fprintf(b, "| %s | %s | NATS: messages/s in, out | KB/s in, out | steal %% | other load %% |\n|%s\n", setupHead, strings.Join(kinds(), " | "), strings.Repeat("---|", 5+len(kinds())+4))
	for i := range r.Rows {
		w := &r.Rows[i]
		if w.Load != Idle {
			continue
		}
		var cells []string
		for _, name := range kinds() {
			k := w.Kind(name)
			cells = append(cells, fmt.Sprintf("%.1f, %.0f", k.CPU.Median/1e3/float64(max(1, k.Replicas)), k.ResidentMiB.Median))
		}
		n := &w.NATS
		fmt.Fprintf(b, "| %s | %s | %.0f, %.0f | %.0f, %.0f | %.1f | %.0f |\n", w.setup(), strings.Join(cells, " | "), n.MessagesIn.Median, n.MessagesOut.Median, n.BytesIn.Median/kb, n.BytesOut.Median/kb, 100*w.StealShare.Median, 100*w.OtherShare.Median)
	}
}

func (r *Report) subjects(b *strings.Builder) {
	nouns := []string{"table", "load", "policy", "outcome", "prefix", "collector"}
	fmt.Fprintf(b, "| %s | body | picks/s | %s |\n|%s\n", setupHead, strings.Join(nouns, " | "), strings.Repeat("---|", 7+len(nouns)))
	for i := range r.Rows {
		w := &r.Rows[i]
		if w.Counted == nil {
			continue
		}
		var cells []string
		for _, noun := range nouns {
			f := w.Counted.Subjects[noun]
			cells = append(cells, fmt.Sprintf("%.0f / %.0f", f.Messages, f.Bytes))
		}
		fmt.Fprintf(b, "| %s | %d KB | %.0f | %s |\n", w.setup(), w.BodyBytes/kb, w.Counted.PicksPerSecond, strings.Join(cells, " | "))
	}
}
