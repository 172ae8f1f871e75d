package report

import "slices"

// Case is what one row is about.
type Case struct {
	// Subject is who was measured, and Placement where a mesh's scorers were.
	Subject   string `json:"subject"`
	Placement string `json:"placement,omitempty"`
	// Endpoints and BodyBytes are the pool and the requests.
	Endpoints int `json:"endpoints"`
	BodyBytes int `json:"body_bytes"`
	// Streams is the concurrency of a closed loop, Rate the picks per second of an open
	// one; one of them is 0.
	Streams int     `json:"streams,omitempty"`
	Rate    float64 `json:"rate,omitempty"`
	// ScrapeMs is the time between two scrapes of one endpoint.
	ScrapeMs int `json:"scrape_ms,omitempty"`
}

// Round is the figures of one window.
type Round struct {
	// Picks were answered rightly, Failures not.
	Picks    int
	Failures int
	// PicksPerSecond is what came through.
	PicksPerSecond float64
	// CPUMicros is the CPU of a pick, over all counted processes.
	CPUMicros float64
	// Waits is how often a thread of them went to sleep, for a pick.
	Waits float64
	// P50Ms, P99Ms and LateP99Ms are latencies from the intended start, and how late the
	// generator was.
	P50Ms, P99Ms, LateP99Ms float64
	// Parts are the processes, counted or not.
	Parts []PartRound
	// UnansweredShare is how many of the scorers' calls were not answered in time or not
	// made, 0 to 1: a pick that goes without is cheaper, and worse.
	UnansweredShare float64
	// StealShare and OtherShare are the hypervisor's share of the machine, and that of
	// processes that have nothing to do with the benchmark, 0 to 1.
	StealShare, OtherShare float64
	// Errors says why picks failed.
	Errors map[string]int
}

// PartRound is one process in one window.
type PartRound struct {
	Name    string
	Counted bool
	// CPUMicros, Waits and Allocations are for a pick; CPUShare is of one processor.
	CPUMicros, Waits, Allocations, CPUShare float64
	// ResidentMiB is its memory at the end.
	ResidentMiB float64
}

// Row is a case with its figures.
type Row struct {
	Case
	Rounds         int            `json:"rounds"`
	Failures       int            `json:"failures"`
	Errors         map[string]int `json:"errors,omitempty"`
	PicksPerSecond Stat           `json:"picks_per_second"`
	CPUMicros      Stat           `json:"cpu_us_per_pick"`
	Waits          Stat           `json:"waits_per_pick"`
	P50Ms          Stat           `json:"p50_ms"`
	P99Ms          Stat           `json:"p99_ms"`
	LateP99Ms      Stat           `json:"generator_late_p99_ms"`
	// UnansweredShare is of the calls to scorers.
	UnansweredShare Stat   `json:"unanswered_share"`
	StealShare      Stat   `json:"steal_share"`
	OtherShare      Stat   `json:"other_load_share"`
	Parts           []Part `json:"parts,omitempty"`
}

// Part is a process of a row.
type Part struct {
	Name        string `json:"name"`
	Counted     bool   `json:"counted"`
	CPUMicros   Stat   `json:"cpu_us_per_pick"`
	Waits       Stat   `json:"waits_per_pick"`
	CPUShare    Stat   `json:"cpu_share_of_one"`
	Allocations Stat   `json:"allocations_per_pick"`
	ResidentMiB Stat   `json:"resident_mib"`
}

// NewRow sums up the rounds of a case, of which there must be one at least.
func NewRow(c Case, rounds []Round) Row {
	stat := func(f func(Round) float64) Stat {
		values := make([]float64, len(rounds))
		for i, r := range rounds {
			values[i] = f(r)
		}
		return NewStat(values)
	}
	row := Row{
		Case: c, Rounds: len(rounds),
		PicksPerSecond:  stat(func(r Round) float64 { return r.PicksPerSecond }),
		CPUMicros:       stat(func(r Round) float64 { return r.CPUMicros }),
		Waits:           stat(func(r Round) float64 { return r.Waits }),
		P50Ms:           stat(func(r Round) float64 { return r.P50Ms }),
		P99Ms:           stat(func(r Round) float64 { return r.P99Ms }),
		LateP99Ms:       stat(func(r Round) float64 { return r.LateP99Ms }),
		UnansweredShare: stat(func(r Round) float64 { return r.UnansweredShare }),
		StealShare:      stat(func(r Round) float64 { return r.StealShare }),
		OtherShare:      stat(func(r Round) float64 { return r.OtherShare }),
	}
	for _, r := range rounds {
		row.Failures += r.Failures
		for text, n := range r.Errors {
			if row.Errors == nil {
				row.Errors = make(map[string]int)
			}
			row.Errors[text] += n
		}
	}
	for i, p := range rounds[0].Parts {
		row.Parts = append(row.Parts, Part{
			Name: p.Name, Counted: p.Counted,
			CPUMicros:   stat(func(r Round) float64 { return r.Parts[i].CPUMicros }),
			Waits:       stat(func(r Round) float64 { return r.Parts[i].Waits }),
			CPUShare:    stat(func(r Round) float64 { return r.Parts[i].CPUShare }),
			Allocations: stat(func(r Round) float64 { return r.Parts[i].Allocations }),
			ResidentMiB: stat(func(r Round) float64 { return r.Parts[i].ResidentMiB }),
		})
	}
	return row
}

// Part returns a process by name; false if there is none.
func (r *Row) Part(name string) (Part, bool) {
	i := slices.IndexFunc(r.Parts, func(p Part) bool { return p.Name == name })
	if i < 0 {
		return Part{}, false
	}
	return r.Parts[i], true
}
