package scale

import (
	"fmt"
	"time"

	"github.com/pointsman/pointsman/bench/internal/report"
	"github.com/pointsman/pointsman/bench/internal/traffic"
)

// Load is how a mesh is asked.
type Load string

// Loads.
const (
	Idle   Load = "idle"   // not at all
	Open   Load = "open"   // at a fixed rate
	Closed Load = "closed" // as fast as it answers: the machine is saturated
)

// Case is what one row is about.
type Case struct {
	Endpoints int `json:"endpoints"`
	Routers   int `json:"routers"`
	Indexers  int `json:"indexers"`
	// Scorers is how many there are of scorer-queue, and of scorer-kv.
	Scorers   int  `json:"scorers_of_each"`
	ScrapeMs  int  `json:"scrape_ms"`
	BodyBytes int  `json:"body_bytes,omitempty"` // 0 if idle
	Load      Load `json:"load"`
}

// Scrape is the time between two scrapes.
func (c Case) Scrape() time.Duration { return time.Duration(c.ScrapeMs) * time.Millisecond }

// Name says which case it is.
func (c Case) Name() string {
	size := ""
	if c.BodyBytes > 0 {
		size = fmt.Sprintf(", %d KB", c.BodyBytes/kb)
	}
	return fmt.Sprintf("%d endpoints every %v, %d + %d + 2×%d%s, %s", c.Endpoints, c.Scrape(), c.Routers, c.Indexers, c.Scorers, size, c.Load)
}

// replicas is how many processes of a name there are.
func (c Case) replicas(name string) int {
	switch name {
	case router:
		return c.Routers
	case indexer:
		return c.Indexers
	case queue, kv:
		return c.Scorers
	}
	return 1
}

// Names of the kinds of processes, as package mesh has them.
const (
	router    = "router"
	indexer   = "prefix-indexer"
	queue     = "scorer-queue"
	kv        = "scorer-kv"
	bus       = "nats"
	collector = "metrics-collector"
)

// Row is a case with its figures.
type Row struct {
	Case
	Rounds         int            `json:"rounds"`
	Failures       int            `json:"failures"`
	Errors         map[string]int `json:"errors,omitempty"`
	PicksPerSecond report.Stat    `json:"picks_per_second"`
	// PickMicros is the CPU of a pick, of all kinds but the collector, as Kind.PickMicros.
	PickMicros report.Stat `json:"cpu_us_per_pick"`
	P50Ms      report.Stat `json:"p50_ms"`
	P99Ms      report.Stat `json:"p99_ms"`
	// UnansweredShare is of the calls to scorers, 0 to 1: a pick that goes without is
	// cheaper, and worse.
	UnansweredShare report.Stat `json:"unanswered_share"`
	StealShare      report.Stat `json:"steal_share"`
	OtherShare      report.Stat `json:"other_load_share"`
	Kinds           []Kind      `json:"kinds"`
	// NATS is what its server took and gave per second, and NATSPerPick what requests
	// caused of it, which is what is above the idle window of the same mesh, per pick.
	NATS        Traffic `json:"nats_per_second"`
	NATSPerPick Traffic `json:"nats_per_pick"`
	// Counted is nil where nobody counted.
	Counted *Counted `json:"counted,omitempty"`
}

// Counted is what was published on each subject, at so many picks per second, in a window
// of its own.
type Counted struct {
	PicksPerSecond float64                 `json:"picks_per_second"`
	Subjects       map[string]traffic.Flow `json:"subjects"`
}

// Kind is all processes of one name.
type Kind struct {
	Name     string `json:"name"`
	Replicas int    `json:"replicas"`
	// CPU is of all replicas together, in µs per second.
	CPU report.Stat `json:"cpu_us_per_second"`
	// PickMicros is the CPU of a pick, of all replicas together: what is above the idle
	// window of the same mesh.
	PickMicros report.Stat `json:"cpu_us_per_pick"`
	// ResidentMiB is the memory of one replica, in the mean.
	ResidentMiB report.Stat `json:"resident_mib"`
}

// Traffic is what passed through NATS.
type Traffic struct {
	MessagesIn  report.Stat `json:"messages_in"`
	MessagesOut report.Stat `json:"messages_out"`
	BytesIn     report.Stat `json:"bytes_in"`
	BytesOut    report.Stat `json:"bytes_out"`
}

// Kind returns the processes of a name; of none there are 0.
func (r *Row) Kind(name string) Kind {
	for _, k := range r.Kinds {
		if k.Name == name {
			return k
		}
	}
	return Kind{Name: name}
}
