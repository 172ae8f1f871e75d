package record

import (
	"fmt"
	"math"

	"github.com/pointsman/pointsman/bench/internal/mesh"
	"github.com/pointsman/pointsman/bench/internal/report"
)

// cellGoal is what a pick is to cost at most, in ms of CPU, 64 streams in a closed loop.
func cellGoal(c Cell) (ms float64, ok bool) {
	switch c {
	case Cell{10, 1 << 10}, Cell{100, 1 << 10}:
		return 0.16, true
	case Cell{100, 8 << 10}:
		return 0.20, true
	case Cell{100, 64 << 10}:
		return 0.50, true
	case Cell{500, 1 << 10}:
		return 0.18, true
	case Cell{500, 8 << 10}:
		return 0.23, true
	}
	return 0, false
}

// Goals of the open loop, 500 picks/s at 100 endpoints and 8 KB.
const (
	goalOpenMesh     = 0.9  // ms of CPU, scorers in processes of their own
	goalOpenEmbedded = 0.45 // the same, within the router
	goalOpenP99      = 10.0 // ms
)

// Table writes the table of record: CPU of a pick, what it is to be, and its ratio to the
// floor; and the same for the open loop.
func Table(r *report.Report) []string {
	lines := []string{
		"| endpoints | body | picks/s | CPU ms per pick | goal | | floor, same run | over the floor |",
		"|---|---|---|---|---|---|---|---|",
	}
	for i := range r.Rows {
		w := &r.Rows[i]
		f := floor(r, w.Endpoints, w.BodyBytes)
		if w.Subject == "floor" || w.Rate > 0 || math.IsNaN(f) || find(r, w.Subject, w.Endpoints, w.BodyBytes) != w {
			continue
		}
		goal, judged := "", ""
		if ms, ok := cellGoal(Cell{w.Endpoints, w.BodyBytes}); ok {
			goal, judged = fmt.Sprintf("%.2f", ms), judge(w.CPUMicros.Median/1000, ms)
		}
		lines = append(lines, fmt.Sprintf("| %d | %d KB | %.0f | %.3f | %s | %s | %.3f | %.2f × |", w.Endpoints, w.BodyBytes/1024, w.PicksPerSecond.Median, w.CPUMicros.Median/1000, goal, judged, f/1000, w.CPUMicros.Median/f))
	}
	return append(lines, openTable(r)...)
}

// openTable is the rows at a fixed rate; none if none was measured.
func openTable(r *report.Report) []string {
	var lines []string
	for i := range r.Rows {
		w := &r.Rows[i]
		if w.Rate == 0 {
			continue
		}
		if lines == nil {
			lines = []string{"", "| open loop | placement | CPU ms per pick | goal | | p50 ms | p99 ms | goal | |", "|---|---|---|---|---|---|---|---|---|"}
		}
		goal, judged, p99, p99judged := "", "", "", ""
		ms := goalOpenMesh
		if w.Placement == string(mesh.Embedded) {
			ms = goalOpenEmbedded
		}
		if w.Subject == "pointsman" {
			goal, judged = fmt.Sprintf("%.2f", ms), judge(w.CPUMicros.Median/1000, ms)
			p99, p99judged = fmt.Sprintf("%.0f", goalOpenP99), judge(w.P99Ms.Median, goalOpenP99)
		}
		lines = append(lines, fmt.Sprintf("| %s, %.0f/s | %s | %.3f | %s | %s | %.2f | %.2f | %s | %s |", w.Subject, w.Rate, w.Placement, w.CPUMicros.Median/1000, goal, judged, w.P50Ms.Median, w.P99Ms.Median, p99, p99judged))
	}
	return lines
}

// judge says whether a figure is at most the goal, or by how much it misses it.
func judge(value, goal float64) string {
	if value <= goal {
		return "met"
	}
	return fmt.Sprintf("missed by %.0f %%", 100*(value/goal-1))
}
