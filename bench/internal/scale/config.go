package scale

import (
	"errors"
	"fmt"
	"time"
)

// Setup is one mesh, and the sizes of the requests that it is asked, in bytes.
type Setup struct {
	// Endpoints of the pool; Routers; Indexers, of prefix-indexer; and Scorers, of
	// scorer-queue and scorer-kv, that many each.
	Endpoints, Routers, Indexers, Scorers int
	// Scrape is the time between two scrapes of an endpoint.
	Scrape time.Duration
	Bodies []int
}

// Config is what is measured, and how.
type Config struct {
	// Binaries is where the services' binaries are, and Self this program.
	Binaries, Self string
	// Setups are the meshes.
	Setups []Setup
	// Rate of the open loop, in picks per second over all routers, and Streams of the
	// closed one.
	Rate    float64
	Streams int
	// Rounds of each case.
	Rounds int
	// WarmUp of each window; Idle, Open and Closed are the windows without load, in an
	// open loop and in a closed one. For Count, after the first round's open loops, the
	// messages are counted by subject.
	WarmUp, Idle, Open, Closed, Count time.Duration
	// LargePages makes metrics pages as large as real ones, 50 KB.
	LargePages bool
	// Env is added to the environment of all that is counted.
	Env []string
	// Log says what is going on.
	Log func(format string, args ...any)
}

const kb = 1 << 10

// DefaultConfig returns the run of record, which takes less than 8 minutes.
func DefaultConfig() Config {
	fast, slow := 50*time.Millisecond, time.Second
	return Config{
		Setups: []Setup{
			// One of each, and all sizes of pools and requests.
			{Endpoints: 10, Routers: 1, Indexers: 1, Scorers: 1, Scrape: fast, Bodies: []int{8 * kb}},
			{Endpoints: 100, Routers: 1, Indexers: 1, Scorers: 1, Scrape: fast, Bodies: []int{1 * kb, 8 * kb, 64 * kb}},
			{Endpoints: 500, Routers: 1, Indexers: 1, Scorers: 1, Scrape: slow, Bodies: []int{8 * kb}},
			{Endpoints: 1000, Routers: 1, Indexers: 1, Scorers: 1, Scrape: slow, Bodies: []int{1 * kb, 8 * kb}},
			// More of one.
			{Endpoints: 100, Routers: 2, Indexers: 1, Scorers: 1, Scrape: slow, Bodies: []int{8 * kb}},
			{Endpoints: 100, Routers: 4, Indexers: 1, Scorers: 1, Scrape: fast, Bodies: []int{1 * kb, 8 * kb}},
			{Endpoints: 100, Routers: 1, Indexers: 2, Scorers: 1, Scrape: slow, Bodies: []int{8 * kb}},
			{Endpoints: 100, Routers: 1, Indexers: 4, Scorers: 1, Scrape: fast, Bodies: []int{1 * kb, 8 * kb}},
			{Endpoints: 100, Routers: 1, Indexers: 1, Scorers: 4, Scrape: slow, Bodies: []int{8 * kb}},
			// More of several, at the ends of the range.
			{Endpoints: 10, Routers: 2, Indexers: 2, Scorers: 2, Scrape: fast, Bodies: []int{64 * kb}},
			{Endpoints: 1000, Routers: 4, Indexers: 4, Scorers: 2, Scrape: slow, Bodies: []int{8 * kb}},
		},
		Rate: 500, Streams: 64, Rounds: 3, WarmUp: 500 * time.Millisecond,
		Idle: 1500 * time.Millisecond, Open: 1500 * time.Millisecond, Closed: 1500 * time.Millisecond, Count: time.Second,
	}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults []error
	if c.Binaries == "" || c.Self == "" {
		faults = append(faults, errors.New("no binaries"))
	}
	if len(c.Setups) == 0 {
		faults = append(faults, errors.New("no setups"))
	}
	for _, s := range c.Setups {
		if s.Endpoints < 1 || s.Endpoints > 4096 {
			faults = append(faults, fmt.Errorf("%d endpoints: must be 1 to 4096", s.Endpoints))
		}
		if s.Routers < 1 || s.Indexers < 1 || s.Scorers < 1 || s.Scrape <= 0 || len(s.Bodies) == 0 {
			faults = append(faults, fmt.Errorf("%d routers, %d indexers, %d scorers of each, scraped every %v, %d sizes of bodies: all must be above zero", s.Routers, s.Indexers, s.Scorers, s.Scrape, len(s.Bodies)))
		}
		for _, n := range s.Bodies {
			if n < 512 || n > 16<<20 {
				faults = append(faults, fmt.Errorf("bodies of %d bytes: must have 512 to 16 Mi", n))
			}
		}
	}
	if c.Rounds < 1 || c.Streams < 1 || c.Rate <= 0 || min(c.WarmUp, c.Idle, c.Open, c.Closed, c.Count) <= 0 {
		faults = append(faults, errors.New("rounds, streams, rate and windows must be above zero"))
	}
	return errors.Join(faults...)
}
