package engine

import (
	"fmt"
	"time"
)

// Engine is one modelled engine. It is not safe for concurrent use.
type Engine struct {
	cfg  Config
	pool *blockPool

	now      time.Duration // the latest time told
	ready    time.Duration // when the next step may begin
	stepping bool          // a step is under way, until stepEnd
	stepEnd  time.Duration

	lastID   ID
	requests map[ID]*active
	running  []*active      // in order of admission
	waiting  queue          // in order of arrival, preempted ones first
	skipped  []*active      // reused
	fetching []*active      // waiting for a part of their prompts from elsewhere, in order of their blocks
	held     map[ID][]int32 // blocks of ended requests that others will fetch
	stalled  bool           // no step is possible before somebody calls
	adapters adapterSlots
	scratch  []Token

	events, spare []Event
	stats         Stats
}

// New returns an idle engine at time 0.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Engine{
		cfg:      cfg,
		pool:     newBlockPool(cfg.NumBlocks),
		requests: make(map[ID]*active),
		held:     make(map[ID][]int32),
		adapters: newAdapterSlots(cfg.MaxAdapters),
		scratch:  make([]Token, 0, cfg.BlockSize),
	}, nil
}

// Config returns the configuration that the engine was made with.
func (e *Engine) Config() Config { return e.cfg }

// Submit hands in a request at time now and returns its id. Requests submitted at the same time can share the first
// step: it begins when Advance is called. What becomes of the request, a rejection included, is told by the events that
// the next Advance returns. A time before an earlier call's is taken as that time.
func (e *Engine) Submit(now time.Duration, q Request) ID {
	now = e.reach(now)
	e.run(now, false)
	e.lastID++
	e.stats.Submitted++
	if reason, ok := e.refuse(&q); ok {
		e.stats.Ended[reason]++
		e.events = append(e.events, Event{At: now, ID: e.lastID, Kind: Rejected, Reason: reason})
		return e.lastID
	}
	if !e.stepping && len(e.requests) == 0 {
		e.ready = now
	}
	e.wake(now)
	r := &active{Request: q, id: e.lastID}
	r.timing = Timing{Submitted: now, Admitted: -1, FirstToken: -1, Ended: -1, Prompt: len(q.Prompt)}
	e.extendHashes(r)
	e.requests[r.id] = r
	e.waiting.pushBack(r)
	e.adapters.queued(r.Adapter, 1)
	return r.id
}

// refuse says why q cannot be taken, if so.
func (e *Engine) refuse(q *Request) (Reason, bool) {
	switch {
	case len(q.Prompt) == 0:
		return EmptyPrompt, true
	case len(q.Prompt)+q.generates() > e.cfg.modelLen():
		return TooLong, true
	case q.Adapter != "" && e.cfg.MaxAdapters == 0:
		return NoAdapters, true
	case e.cfg.MaxWaiting > 0 && e.waiting.len() >= e.cfg.MaxWaiting:
		return QueueFull, true
	}
	return 0, false
}

// Abort ends a request at time now, as a client that hangs up does. It returns false if the request has ended already or
// never was.
func (e *Engine) Abort(now time.Duration, id ID) bool {
	now = e.reach(now)
	e.run(now, false)
	r, ok := e.requests[id]
	if !ok {
		return false
	}
	switch {
	case r.fetching:
		e.stopFetching(r)
	case r.running:
		kept := e.running[:0]
		for _, x := range e.running {
			if x != r {
				kept = append(kept, x)
			}
		}
		clear(e.running[len(kept):])
		e.running = kept
		e.adapters.stop(r.Adapter)
	default:
		e.waiting.remove(r)
		e.adapters.queued(r.Adapter, -1)
	}
	e.end(r, now, Aborted)
	e.wake(now)
	return true
}

// Advance lets time pass until now and returns what happened since the last call, in order of time. The slice is good
// until the next call.
func (e *Engine) Advance(now time.Duration) []Event {
	e.run(e.reach(now), true)
	return e.Events()
}

// Events returns what happened since Advance or Events was last called, without letting time pass: no step begins. The
// slice is good until the next call of either.
func (e *Engine) Events() []Event {
	events := e.events
	e.events, e.spare = e.spare[:0], events
	return events
}

// Next returns the time at which Advance will next have something to do. ok is false when the engine is idle, or has only
// requests that wait for Arrive, Miss or Release.
func (e *Engine) Next() (at time.Duration, ok bool) {
	switch {
	case e.stepping:
		return e.stepEnd, true
	case len(e.requests) > 0 && !e.stalled:
		return e.ready, true
	}
	return 0, false
}

// ResetPrefixCache forgets all cached prefixes. Running requests keep their blocks.
func (e *Engine) ResetPrefixCache() { e.pool.reset() }

// reach moves the engine's clock, which never goes back.
func (e *Engine) reach(now time.Duration) time.Duration {
	e.now = max(e.now, now)
	return e.now
}

// run ends every step that is over at now and begins those that may begin before it. begin says whether one may also
// begin at now itself: not while more requests may still arrive at that very time.
func (e *Engine) run(now time.Duration, begin bool) {
	for {
		if e.stepping {
			if e.stepEnd > now {
				return
			}
			e.finishStep()
			continue
		}
		if len(e.requests) == 0 || e.stalled || e.ready > now || (e.ready == now && !begin) {
			return
		}
		e.stalled = !e.beginStep()
	}
}

// end takes leave of a request that is in no list any more.
func (e *Engine) end(r *active, at time.Duration, reason Reason) {
	if r.Hold && reason == Length && r.produced > 0 {
		e.held[r.id], r.blocks = r.blocks, nil
	}
	e.drop(r)
	delete(e.requests, r.id)
	r.timing.Ended = at
	e.stats.Ended[reason]++
	timing := r.timing
	e.events = append(e.events, Event{
		At: at, ID: r.id, Kind: Finished, Reason: reason, Tokens: r.produced, Since: at - timing.Submitted, Timing: &timing,
	})
}

// mustProgress stops a simulation that would never end. Config.Validate and Submit's limits make it unreachable: the
// first running request can always have every block, but those that are kept for others.
func (e *Engine) mustProgress() {
	if len(e.requests) > 0 && len(e.fetching) == 0 && len(e.held) == 0 {
		panic(fmt.Sprintf("engine: a step with %d running and %d waiting requests and %d free blocks computes nothing",
			len(e.running), e.waiting.len(), e.pool.free))
	}
}
