package record

import (
	"errors"
	"fmt"
	"time"

	"github.com/pointsman/pointsman/bench/internal/mesh"
)

// Other is an endpoint picker that is measured beside ours, started by whoever asks.
type Other struct {
	// Name names it in results; Address is its ext_proc address, see mesh.Subject.
	Name, Address string
	// PIDs are its processes.
	PIDs []int
}

// Config is what is measured, and how.
type Config struct {
	// Binaries is where the services' binaries are, and Self this program.
	Binaries, Self string
	// Endpoints and Bodies, in bytes, make the table. Default: 10, 100, 500, 1,000 and
	// 1, 8, 64 KB.
	Endpoints, Bodies []int
	// Cells, if it is not empty, are the cells of the table that are measured.
	Cells []Cell
	// Streams of the closed loop. Default 64.
	Streams int
	// Rate of the open loop, in picks per second. Default 500.
	Rate float64
	// Placements that are compared, beside the table, at 100 endpoints and 8 KB.
	Placements []mesh.Placement
	// Rounds of each case. Default 3.
	Rounds int
	// WarmUp and Window of a round; OpenWindow is the window of an open loop.
	WarmUp, Window, OpenWindow time.Duration
	// ScrapeInterval of a pool up to 100 endpoints; above, one second: two processors
	// could not scrape more.
	ScrapeInterval time.Duration
	// LargePages makes metrics pages as large as real ones, 50 KB.
	LargePages bool
	// Env is added to the environment of all that is counted, the floor included.
	Env []string
	// ScorerEnv is added to that of scorers and NATS alone.
	ScorerEnv []string
	// Others are measured in the same rounds. They must know the model servers by
	// themselves: see Endpoints of the command fleet.
	Others []Other
	// Profiles is a directory for a CPU profile of every process of a mesh, taken in a
	// round of its own after the others; empty: none.
	Profiles string
	// Log says what is going on.
	Log func(format string, args ...any)
}

// Cell is one cell of the table.
type Cell struct{ Endpoints, Bytes int }

// DefaultConfig returns the run of record, which takes less than 10 minutes.
func DefaultConfig() Config {
	return Config{
		Endpoints: []int{10, 100, 500, 1000}, Bodies: []int{1 << 10, 8 << 10, 64 << 10}, Streams: 64, Rate: 500,
		Placements: mesh.Placements(), Rounds: 3, WarmUp: 500 * time.Millisecond, Window: 2 * time.Second, OpenWindow: 4 * time.Second,
		ScrapeInterval: 50 * time.Millisecond,
	}
}

// QuickConfig returns a run of less than 2 minutes that holds figures against limits.
func QuickConfig() Config {
	c := DefaultConfig()
	c.Cells = []Cell{{10, 8 << 10}, {100, 1 << 10}, {100, 8 << 10}, {100, 64 << 10}, {500, 8 << 10}}
	c.Rounds, c.WarmUp, c.Window, c.OpenWindow = 3, 300*time.Millisecond, time.Second, 2*time.Second
	c.Placements = []mesh.Placement{mesh.TCP, mesh.Embedded}
	return c
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults []error
	if c.Binaries == "" || c.Self == "" {
		faults = append(faults, errors.New("no binaries"))
	}
	for _, n := range c.Endpoints {
		if n < 1 || n > 4096 {
			faults = append(faults, fmt.Errorf("%d endpoints: must be 1 to 4096", n))
		}
	}
	for _, n := range c.Bodies {
		if n < 512 || n > 16<<20 {
			faults = append(faults, fmt.Errorf("bodies of %d bytes: must have 512 to 16 Mi", n))
		}
	}
	if c.Rounds < 1 || c.Streams < 1 || c.Rate <= 0 || c.WarmUp <= 0 || c.Window <= 0 || c.OpenWindow <= 0 || c.ScrapeInterval <= 0 {
		faults = append(faults, errors.New("rounds, streams, rate, windows and the scrape interval must be above zero"))
	}
	return errors.Join(faults...)
}

// scrapeInterval is that of a pool.
func (c Config) scrapeInterval(endpoints int) time.Duration {
	if endpoints > 100 {
		return max(time.Second, c.ScrapeInterval)
	}
	return c.ScrapeInterval
}

// wants says whether a cell is measured.
func (c Config) wants(endpoints, size int) bool {
	if len(c.Cells) == 0 {
		return true
	}
	for _, cell := range c.Cells {
		if cell == (Cell{endpoints, size}) {
			return true
		}
	}
	return false
}
