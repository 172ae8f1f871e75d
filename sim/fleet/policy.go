package fleet

import (
	"math/rand/v2"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
)

// Request is what a policy may know of a request that is to be routed.
type Request struct {
	// Number counts the requests of a run, from 0.
	Number int
	// Session and Turn say where it belongs.
	Session, Turn int
	// Adapter is the LoRA adapter, or empty.
	Adapter string
	// Prompt holds the prompt's tokens. It must not be kept or changed.
	Prompt []engine.Token
}

// Policy routes requests. Its methods are called in order of virtual time, never at once.
type Policy interface {
	// Pick returns the position of the engine to send r to. seen holds the figures of each engine as last scraped.
	Pick(now time.Duration, r Request, seen []engine.Stats) int
	// Ended tells that a request has ended at the engine it was sent to.
	Ended(now time.Duration, r Result)
}

// Splitter is a Policy that has prompts computed by other engines than those which answer (disaggregated prefill).
type Splitter interface {
	Policy
	// Prefill returns the position of the engine that computes r's prompt for the engine that Pick has returned; apart is
	// false if that one does so itself.
	Prefill(now time.Duration, r Request, decode int, seen []engine.Stats) (at int, apart bool)
	// Prefilled tells that an engine has computed r's prompt, which has been set to nil.
	Prefilled(now time.Duration, r Request, at int)
}

// Random picks any engine, evenly.
func Random(seed uint64) Policy { return &random{rng: rand.New(rand.NewPCG(seed, 0))} }

type random struct{ rng *rand.Rand }

func (p *random) Pick(_ time.Duration, _ Request, seen []engine.Stats) int {
	return p.rng.IntN(len(seen))
}
func (*random) Ended(time.Duration, Result) {}

// RoundRobin picks the engines in turn.
func RoundRobin() Policy { return &roundRobin{} }

type roundRobin struct{ next int }

func (p *roundRobin) Pick(_ time.Duration, _ Request, seen []engine.Stats) int {
	p.next++
	return (p.next - 1) % len(seen)
}
func (*roundRobin) Ended(time.Duration, Result) {}

// LeastInFlight picks the engine with the fewest requests that this policy sent and that have not ended; the first of
// equals.
func LeastInFlight() Policy { return &leastInFlight{} }

type leastInFlight struct{ inFlight []int }

func (p *leastInFlight) Pick(_ time.Duration, _ Request, seen []engine.Stats) int {
	if p.inFlight == nil {
		p.inFlight = make([]int, len(seen))
	}
	best := 0
	for i, n := range p.inFlight {
		if n < p.inFlight[best] {
			best = i
		}
	}
	p.inFlight[best]++
	return best
}

func (p *leastInFlight) Ended(_ time.Duration, r Result) { p.inFlight[r.Engine]-- }

// Sticky sends all requests of a session where LeastInFlight sent its first.
func Sticky() Policy { return &sticky{at: make(map[int]int)} }

type sticky struct {
	leastInFlight
	at map[int]int
}

func (p *sticky) Pick(now time.Duration, r Request, seen []engine.Stats) int {
	if i, ok := p.at[r.Session]; ok {
		p.inFlight[i]++
		return i
	}
	i := p.leastInFlight.Pick(now, r, seen)
	p.at[r.Session] = i
	return i
}
