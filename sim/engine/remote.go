package engine

import (
	"slices"
	"time"
)

// fetch takes the blocks for what r has cached and for what it fetches, and lets it wait. It returns false when blocks lack.
func (e *Engine) fetch(r *active, at time.Duration, cached []uint64, idle int) bool {
	upto := min(r.Remote, len(r.Prompt))
	need := e.blocksFor(upto) - len(cached)
	if need > e.pool.free-idle {
		return false
	}
	have := len(cached) * e.cfg.BlockSize
	r.blocks = e.pool.share(cached, r.blocks)
	r.blocks = e.pool.take(need, r.blocks)
	r.computed, r.stored = have, len(cached)
	e.look(r, have)
	r.fetched, r.Remote = upto, 0 // should it lose its blocks, it is computed here
	r.fetching = true
	e.fetching = append(e.fetching, r)
	e.events = append(e.events, Event{At: at, ID: r.id, Kind: Fetching, Tokens: upto - have, Since: at - r.timing.Submitted})
	return true
}

// Arrive tells at time now that what a request fetches is there. It returns false if the request does not fetch.
func (e *Engine) Arrive(now time.Duration, id ID) bool {
	r, now := e.fetcher(now, id)
	if r == nil {
		return false
	}
	r.arrived = true
	e.wake(now)
	return true
}

// Miss tells at time now that what a request fetches will not come. The request computes its prompt itself, or ends with
// Failed, as recompute says (vLLM's kv_load_failure_policy). It returns false if the request does not fetch.
func (e *Engine) Miss(now time.Duration, id ID, recompute bool) bool {
	r, now := e.fetcher(now, id)
	if r == nil {
		return false
	}
	if recompute {
		e.again(r)
	} else {
		e.stopFetching(r)
		e.end(r, now, Failed)
	}
	e.wake(now)
	return true
}

// fetcher is the request that waits for Arrive, nil if there is none, and the time.
func (e *Engine) fetcher(now time.Duration, id ID) (*active, time.Duration) {
	now = e.reach(now)
	e.run(now, false)
	if r := e.requests[id]; r != nil && r.fetching && !r.arrived {
		return r, now
	}
	return nil, now
}

// Held returns the blocks that are kept of a request submitted with Hold, in order of its prompt; nil if there are none.
func (e *Engine) Held(id ID) []int32 { return slices.Clone(e.held[id]) }

// Release gives up the blocks that are kept of a request at time now, which stay in the prefix cache. It returns false if
// there are none.
func (e *Engine) Release(now time.Duration, id ID) bool {
	now = e.reach(now)
	e.run(now, false)
	blocks, ok := e.held[id]
	if !ok {
		return false
	}
	delete(e.held, id)
	e.pool.release(blocks)
	e.wake(now)
	return true
}

// wake lets a stalled engine try again.
func (e *Engine) wake(now time.Duration) {
	if e.stalled {
		e.stalled, e.ready = false, now
	}
}

// stopFetching takes r, which keeps its blocks, out of those that fetch.
func (e *Engine) stopFetching(r *active) {
	e.fetching = slices.DeleteFunc(e.fetching, func(x *active) bool { return x == r })
	r.fetching, r.arrived = false, false
	e.adapters.queued(r.Adapter, -1)
}

// again lets r, which fetches, wait anew, without its blocks, in order to compute its prompt here.
func (e *Engine) again(r *active) {
	e.stopFetching(r)
	e.drop(r)
	e.waiting.pushFront(r)
	e.adapters.queued(r.Adapter, 1)
}

// scheduleArrived admits the requests whose prompts have arrived.
func (e *Engine) scheduleArrived(at time.Duration, s *schedule) {
	for i := 0; i < len(e.fetching) && s.budget > 0 && len(e.running) < e.cfg.MaxRunning; {
		r := e.fetching[i]
		if !r.arrived || !e.adapters.fits(r.Adapter) {
			i++
			continue
		}
		computed := min(r.fetched, r.total()-1)
		tokens := min(r.total()-computed, s.budget)
		if !e.grow(r, computed+tokens) {
			e.again(r) // others would wait for ever for the blocks it has
			continue
		}
		e.stopFetching(r)
		e.adapters.queued(r.Adapter, 1) // until it starts
		r.computed = computed
		e.start(r, at, tokens, s)
	}
}

// belowThreshold says whether r ends because too little of it is cached, and counts what is.
func (e *Engine) belowThreshold(r *active) bool {
	if r.MinCached <= 0 || r.looked {
		return false
	}
	matched, _ := e.pool.match(e.findable(r))
	local := matched * e.cfg.BlockSize
	cached := min(max(local, r.Remote), len(r.Prompt)-1)
	if float64(cached) >= r.MinCached*float64(len(r.Prompt)) {
		return false
	}
	e.look(r, local)
	r.timing.Cached = cached
	return true
}

// Hashes returns the hashes of the full blocks of a prompt, which are the same in every engine.
func Hashes(adapter, salt string, prompt []Token, blockSize int) []uint64 {
	hashes := make([]uint64, 0, len(prompt)/blockSize)
	parent := seedHash(adapter, salt)
	for ; len(prompt) >= blockSize; prompt = prompt[blockSize:] {
		parent = chain(parent, prompt[:blockSize])
		hashes = append(hashes, parent)
	}
	return hashes
}
