package scale

import (
	"math"
	"time"
)

// Point is where a formula is evaluated: a pool, its services and what they are asked.
type Point struct {
	// Picks per second over all routers; Endpoints; KB of a request.
	Picks, Endpoints, KB float64
	// Routers, Indexers, and Scorers of scorer-queue, and of scorer-kv.
	Routers, Indexers, Scorers float64
	// Scrape is the time between two scrapes of an endpoint.
	Scrape time.Duration
	// In and Out are the messages into and out of NATS that a pick causes, and OutKB the
	// kilobytes out of it.
	In, Out, OutKB float64
}

// blockBytes and mostBlocks are what of a prompt is looked at.
const (
	blockBytes = 64
	mostBlocks = 256
)

// blocks is how many prefix blocks a request has, nearly: not all of it is prompt.
func (p Point) blocks() float64 { return min(mostBlocks, p.KB*kb/blockBytes) }

// receivers is how many processes hear each broadcast, but for prompts: collectors do not.
func (p Point) receivers() float64 { return p.Routers + p.Indexers + 2*p.Scorers }

// What routers do with outcomes (docs/adr/0019): batches go a pause apart while other
// routers are heard; alone, when so many picks wait or else a longer pause apart.
const (
	soonPause = 0.002 // s
	soonPicks = 16
	latePause = 0.010 // s
)

// alone and together are how many batches of outcomes leave all routers per second, by
// design and if picks come at random; each is 0 where the other holds.
func (p Point) alone() float64 {
	if p.Routers > 1 {
		return 0
	}
	return min(1/soonPause, max(p.Picks/soonPicks, p.Picks/(1+p.Picks*latePause)))
}

func (p Point) together() float64 {
	if p.Routers <= 1 {
		return 0
	}
	each := p.Picks / p.Routers
	// A pick goes at once or at the end of the pause. What ends when no pick follows for
	// the longer pause goes by itself.
	return p.Routers * each / (1 + each*soonPause) * (1 + math.Exp(-each*latePause))
}

// pointOf is a row's point.
func pointOf(w *Row) Point {
	return Point{
		Picks: w.PicksPerSecond.Median, Endpoints: float64(w.Endpoints), KB: float64(w.BodyBytes) / kb,
		Routers: float64(w.Routers), Indexers: float64(w.Indexers), Scorers: float64(w.Scorers), Scrape: w.Scrape(),
		In: w.NATSPerPick.MessagesIn.Median, Out: w.NATSPerPick.MessagesOut.Median, OutKB: w.NATSPerPick.BytesOut.Median / kb,
	}
}
