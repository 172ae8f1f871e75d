package record

import (
	"math"

	"github.com/pointsman/pointsman/bench/internal/mesh"
	"github.com/pointsman/pointsman/bench/internal/report"
)

// Limits of the smoke test. None is a time: each is a count or a ratio within the run,
// with room for what a busy machine does to it.
const (
	maxAllocations = 130.0 // in the router, for a pick at 100 endpoints and 8 KB
	maxOverFloor   = 4.5   // CPU of a pick there, in floors of the same run
	maxGrowth      = 2.2   // CPU of a pick at 500 endpoints over that at 10
)

// Goals, which are shown and fail nothing.
const (
	goalAllocations = 60.0
	goalOverFloor   = 1.5
	goalGrowth      = 1.25
	goalBodies      = 2.0 // what is added to the floor at 64 KB over what is added at 1 KB
)

// Judge holds rows against limits and goals. A figure that a run has not got is not
// judged, except that answers must be right in every run.
func Judge(r *report.Report) []report.Verdict {
	var all []report.Verdict
	failures := 0
	for _, w := range r.Rows {
		failures += w.Failures
	}
	all = append(all, report.Verdict{What: "answers that were missing or wrong, all rows", Value: float64(failures), Limit: 0})
	both := func(what string, value, limit, goal float64) {
		if !math.IsNaN(value) {
			all = append(all, report.Verdict{What: what, Value: value, Limit: limit}, report.Verdict{What: what, Value: value, Limit: goal, Goal: true})
		}
	}
	both("heap allocations of a pick in the router, 100 endpoints, 8 KB", allocations(r), maxAllocations, goalAllocations)
	both("CPU of a pick over the floor's, 100 endpoints, 8 KB", cell(r, 100, 8<<10)/floor(r, 100, 8<<10), maxOverFloor, goalOverFloor)
	both("CPU of a pick at 500 endpoints over that at 10, 8 KB", cell(r, 500, 8<<10)/cell(r, 10, 8<<10), maxGrowth, goalGrowth)
	added := func(size int) float64 { return cell(r, 100, size) - floor(r, 100, size) }
	if v := added(64<<10) / added(1<<10); !math.IsNaN(v) {
		all = append(all, report.Verdict{What: "what is added to the floor at 64 KB over that at 1 KB, 100 endpoints", Value: v, Limit: goalBodies, Goal: true})
	}
	return all
}

// find returns the closed-loop row of a subject; nil if it was not measured.
func find(r *report.Report, subject string, endpoints, size int) *report.Row {
	return r.Find(func(w *report.Row) bool {
		return w.Subject == subject && w.Endpoints == endpoints && w.BodyBytes == size && w.Rate == 0 && (w.Placement == "" || w.Placement == string(mesh.TCP))
	})
}

func cpuOf(w *report.Row) float64 {
	if w == nil {
		return math.NaN()
	}
	return w.CPUMicros.Median
}

func cell(r *report.Report, endpoints, size int) float64 {
	return cpuOf(find(r, "pointsman", endpoints, size))
}

func floor(r *report.Report, endpoints, size int) float64 {
	return cpuOf(find(r, "floor", endpoints, size))
}

func allocations(r *report.Report) float64 {
	w := find(r, "pointsman", 100, 8<<10)
	if w == nil {
		return math.NaN()
	}
	p, _ := w.Part("router")
	return p.Allocations.Median
}
