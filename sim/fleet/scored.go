package fleet

import (
	"slices"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
)

// Scored routes as the router does with scorers for prefix hits and for what is in flight. With Decide and Prefillers it
// is a Splitter. The zero value is not usable; make it with NewScored.
type Scored struct {
	cfg    ScoredConfig
	states []scoredState
	work   map[int]work // of requests that have not ended, by number
}

// ScoredConfig says how.
type ScoredConfig struct {
	// Prefix, Requests and Tokens are the weights of the share of the prompt that an engine has seen, of few requests in
	// flight and of few prompt tokens in flight that it has to compute.
	Prefix, Requests, Tokens float64
	// Prefillers is how many engines, the last ones, do nothing but compute prompts for the others. Default 0.
	Prefillers int
	// Decide says whether a prompt of so many tokens, of which the engine that will answer has so many, is to be computed
	// elsewhere. Only with Prefillers.
	Decide func(promptTokens, cachedTokens int) bool
}

// scoredState is what the policy believes of an engine.
type scoredState struct {
	requests, tokens int
	seen             map[uint64]bool
}

// work is what a request is to an engine.
type work struct {
	hashes    []uint64
	tokens    int  // of the prompt, to be computed
	decode    int  // the engine that answers
	prefill   int  // where the prompt is computed, if not there
	prefilled bool // it was
}

// blockTokens is the size of the blocks in which prompts are compared, mostBlocks how many are looked at: the router's
// defaults, 64 bytes and 256.
const (
	blockTokens = 16
	mostBlocks  = 256
)

// NewScored returns the policy.
func NewScored(cfg ScoredConfig) *Scored { return &Scored{cfg: cfg, work: make(map[int]work)} }

// Pick returns the best engine that answers.
func (p *Scored) Pick(_ time.Duration, r Request, seen []engine.Stats) int {
	if p.states == nil {
		p.states = make([]scoredState, len(seen))
		for i := range p.states {
			p.states[i].seen = make(map[uint64]bool)
		}
	}
	w := work{hashes: engine.Hashes(r.Adapter, "", r.Prompt, blockTokens), prefill: none}
	if len(w.hashes) > mostBlocks {
		w.hashes = w.hashes[:mostBlocks]
	}
	best := p.best(0, len(seen)-p.cfg.Prefillers, w.hashes)
	w.decode, w.tokens = best, len(r.Prompt)-p.cached(best, w.hashes)
	p.work[r.Number] = w
	p.states[best].requests++
	p.states[best].tokens += w.tokens
	p.learn(best, w.hashes)
	return best
}

// Prefill asks Decide.
func (p *Scored) Prefill(_ time.Duration, r Request, decode int, seen []engine.Stats) (int, bool) {
	w := p.work[r.Number]
	if p.cfg.Prefillers == 0 || !p.cfg.Decide(len(r.Prompt), len(r.Prompt)-w.tokens) {
		return 0, false
	}
	p.states[decode].tokens -= w.tokens
	w.prefill = p.best(len(seen)-p.cfg.Prefillers, len(seen), w.hashes)
	w.tokens = len(r.Prompt) - p.cached(w.prefill, w.hashes)
	p.work[r.Number] = w
	p.states[w.prefill].requests++
	p.states[w.prefill].tokens += w.tokens
	p.learn(w.prefill, w.hashes)
	return w.prefill, true
}

// Prefilled takes the prompt off the engine's work.
func (p *Scored) Prefilled(_ time.Duration, r Request, at int) {
	w := p.work[r.Number]
	w.prefilled = true
	p.work[r.Number] = w
	p.states[at].requests--
	p.states[at].tokens -= w.tokens
}

// Ended takes the request off the engine's work.
func (p *Scored) Ended(_ time.Duration, r Result) {
	w := p.work[r.Number]
	delete(p.work, r.Number)
	p.states[w.decode].requests--
	switch {
	case w.prefill == none:
		p.states[w.decode].tokens -= w.tokens
	case !w.prefilled: // it was not taken there
		p.states[w.prefill].requests--
		p.states[w.prefill].tokens -= w.tokens
	}
}

// cached is how much of a prompt, in tokens, the engine is believed to have.
func (p *Scored) cached(i int, hashes []uint64) int {
	n := 0
	for n < len(hashes) && p.states[i].seen[hashes[n]] {
		n++
	}
	return n * blockTokens
}

func (p *Scored) learn(i int, hashes []uint64) {
	for _, h := range hashes {
		p.states[i].seen[h] = true
	}
}

// best is the engine from first to below end with the most points; of equals, the first with the fewest requests.
func (p *Scored) best(first, end int, hashes []uint64) int {
	group := p.states[first:end]
	most := slices.MaxFunc(group, func(a, b scoredState) int { return a.requests - b.requests }).requests
	mostTokens := slices.MaxFunc(group, func(a, b scoredState) int { return a.tokens - b.tokens }).tokens
	idle := func(n, most int) float64 {
		if n == 0 {
			return 1
		}
		return float64(most-n) / float64(most)
	}
	best, top := first, -1.0
	for i, s := range group {
		share := float64(p.cached(first+i, hashes)) / float64(max(1, len(hashes)*blockTokens))
		points := p.cfg.Prefix*share + p.cfg.Requests*idle(s.requests, most) + p.cfg.Tokens*idle(s.tokens, mostTokens)
		if points > top+1e-9 || points > top-1e-9 && s.requests < p.states[best].requests {
			best, top = first+i, points
		}
	}
	return best
}
