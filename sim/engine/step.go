package engine

import "time"

// beginStep schedules the step that begins at e.ready: first the running requests in order of admission, then those whose
// prompts have arrived, then waiting ones, until the token budget is spent. It returns false when nothing can be computed
// before somebody calls.
func (e *Engine) beginStep() bool {
	at := e.ready
	s := schedule{budget: e.cfg.MaxStepTokens}
	e.scheduleRunning(at, &s)
	if !s.preempted {
		e.scheduleArrived(at, &s)
		e.scheduleWaiting(at, &s)
	}
	if s.prefill+s.decoding == 0 {
		e.mustProgress()
		return false
	}
	took := e.cfg.stepTime(s.prefill, s.decoding, s.context) + time.Duration(s.loads)*e.cfg.AdapterLoad
	e.stepping, e.stepEnd = true, at+took
	e.stats.Steps++
	e.stats.Busy += took
	e.stats.PrefillTokens += uint64(s.prefill)
	return true
}

// schedule is what a step will do.
type schedule struct {
	budget    int // tokens left to hand out
	prefill   int // prompt tokens, and those to be computed again after a preemption
	decoding  int // requests that add one token to their answer
	context   int // tokens that those attend to
	loads     int // adapters to be loaded
	preempted bool
}

func (s *schedule) add(r *active, tokens int) {
	r.step = tokens
	s.budget -= tokens
	if tokens == 1 && r.produced > 0 && r.computed+1 == r.total() {
		s.decoding++
		s.context += r.total()
	} else {
		s.prefill += tokens
	}
}

func (e *Engine) scheduleRunning(at time.Duration, s *schedule) {
	for i := 0; i < len(e.running) && s.budget > 0; i++ {
		r := e.running[i]
		tokens := min(r.total()-r.computed, s.budget)
		for !e.grow(r, r.computed+tokens) {
			// The last admitted gives way, in the end r itself.
			last := e.running[len(e.running)-1]
			e.running[len(e.running)-1] = nil
			e.running = e.running[:len(e.running)-1]
			e.preempt(last, at)
			s.preempted = true
			if last == r {
				return
			}
		}
		e.offer(r, r.computed+tokens)
		s.add(r, tokens)
	}
}

func (e *Engine) preempt(r *active, at time.Duration) {
	e.drop(r)
	r.running = false
	r.timing.Preemptions++
	e.stats.Preemptions++
	e.adapters.stop(r.Adapter)
	e.adapters.queued(r.Adapter, 1)
	e.waiting.pushFront(r)
	e.events = append(e.events, Event{At: at, ID: r.id, Kind: Preempted, Tokens: r.produced})
}

func (e *Engine) scheduleWaiting(at time.Duration, s *schedule) {
	e.skipped = e.skipped[:0]
	for s.budget > 0 && len(e.running) < e.cfg.MaxRunning && e.waiting.len() > 0 {
		r := e.waiting.at(0)
		if !e.adapters.fits(r.Adapter) {
			// Those behind it may run with the adapters at hand.
			e.skipped = append(e.skipped, e.waiting.popFront())
			continue
		}
		if e.belowThreshold(r) {
			e.waiting.popFront()
			e.adapters.queued(r.Adapter, -1)
			r.timing.Admitted = at
			e.end(r, at, CacheThreshold)
			continue
		}
		if !e.admit(r, at, s) {
			break
		}
		e.waiting.popFront()
	}
	for i := len(e.skipped) - 1; i >= 0; i-- {
		e.waiting.pushFront(e.skipped[i])
		e.skipped[i] = nil
	}
}

// admit moves r into the running batch, with what the prefix cache has of it. It returns false when blocks lack.
func (e *Engine) admit(r *active, at time.Duration, s *schedule) bool {
	if e.pool.free == 0 {
		return false
	}
	total := r.total()
	findable := e.findable(r)
	matched, idle := e.pool.match(findable)
	cached := matched * e.cfg.BlockSize
	if r.Remote > cached {
		return e.fetch(r, at, findable[:matched], idle)
	}
	tokens := min(total-cached, s.budget)
	need := e.blocksFor(cached+tokens) - matched
	if need > e.pool.free-idle {
		return false
	}
	r.blocks = e.pool.share(findable[:matched], r.blocks)
	r.blocks = e.pool.take(need, r.blocks)
	r.computed, r.stored = cached, matched
	e.look(r, cached)
	e.start(r, at, tokens, s)
	return true
}

// findable are the hashes of r's blocks that the prefix cache may serve: the last token is always computed, because its
// result is the first token of the answer.
func (e *Engine) findable(r *active) []uint64 {
	return r.hashes[:min(len(r.hashes), (r.total()-1)/e.cfg.BlockSize)]
}

// look counts, once for every request, what the prefix cache had of it and what is to be had elsewhere.
func (e *Engine) look(r *active, cached int) {
	if r.looked {
		return
	}
	r.looked = true
	e.stats.PrefixQueries += uint64(r.total())
	e.stats.PrefixHits += uint64(cached)
	if r.Remote > 0 {
		e.stats.RemoteQueries += uint64(r.total() - cached)
		e.stats.RemoteHits += uint64(max(0, r.Remote-cached))
	}
}

// start moves r, which has its blocks, into the running batch with tokens beyond those computed.
func (e *Engine) start(r *active, at time.Duration, tokens int, s *schedule) {
	if r.timing.Admitted < 0 {
		r.timing.Admitted, r.timing.Cached = at, r.computed
		e.events = append(e.events, Event{At: at, ID: r.id, Kind: Admitted, Tokens: r.computed, Since: at - r.timing.Submitted})
	}
	e.offer(r, r.computed+tokens)
	s.add(r, tokens)
	e.adapters.queued(r.Adapter, -1)
	if e.adapters.start(r.Adapter) {
		s.loads++
	}
	r.running = true
	e.running = append(e.running, r)
}

// finishStep gives every request of the step its tokens.
func (e *Engine) finishStep() {
	at := e.stepEnd
	e.stepping, e.ready = false, at
	kept := e.running[:0]
	for _, r := range e.running {
		if r.step > 0 {
			r.computed += r.step
			r.step = 0
			if e.sample(r, at) {
				e.adapters.stop(r.Adapter)
				e.end(r, at, r.ending())
				continue
			}
		}
		kept = append(kept, r)
	}
	clear(e.running[len(kept):])
	e.running = kept
}

// sample adds a token to the answer of a request that has all of its tokens computed, and says whether it has ended.
func (e *Engine) sample(r *active, at time.Duration) (ended bool) {
	if r.computed < r.total() {
		e.events = append(e.events, Event{At: at, ID: r.id, Kind: Prefill, Tokens: r.computed})
		return false
	}
	if r.produced == 0 {
		e.stats.PromptTokens += uint64(len(r.Prompt))
	}
	if r.generates() == 0 {
		return true
	}
	r.produced++
	e.stats.GenerationTokens++
	e.extendHashes(r)
	event := Event{At: at, ID: r.id, Kind: NextToken, Tokens: r.produced, Since: at - r.last}
	if r.produced == 1 {
		r.timing.FirstToken = at
		event.Kind, event.Since = FirstToken, at-r.timing.Submitted
	}
	r.last = at
	e.events = append(e.events, event)
	return r.produced == r.generates()
}
