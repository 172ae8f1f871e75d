package engine

import "time"

// Stats are an engine's figures, counted as vLLM counts its own.
type Stats struct {
	// At is the time that the figures are of.
	At time.Duration
	// Running and Waiting are the requests in the batch and in the queue; preempted ones wait.
	Running, Waiting int
	// BlocksUsed are the KV-cache blocks that requests hold; cached ones that nobody holds are free.
	BlocksUsed, BlocksTotal int
	// PrefixQueries are the prompt tokens of all requests admitted so far, PrefixHits those found in the prefix cache.
	PrefixQueries, PrefixHits uint64
	// RemoteQueries are the prompt tokens that the prefix cache lacked of requests with a Remote part, RemoteHits those
	// that were fetched or meant to be.
	RemoteQueries, RemoteHits uint64
	// Fetching are those of Waiting that wait for a part of their prompts from elsewhere. Held are ended requests whose
	// blocks are kept for others; BlocksUsed counts them.
	Fetching, Held int
	// PromptTokens are those of requests whose prefill is done, cached ones included; PrefillTokens those computed.
	PromptTokens, PrefillTokens uint64
	// GenerationTokens are the tokens of all answers.
	GenerationTokens uint64
	// Submitted counts requests, Preemptions losses of blocks, Steps the steps begun.
	Submitted, Preemptions, Steps uint64
	// Ended counts requests by the reason of their end, rejected ones included.
	Ended [NumReasons]uint64
	// Busy is the time spent in steps, the one under way counted in full.
	Busy time.Duration
	// RunningAdapters and WaitingAdapters are the sorted names of adapters with requests in the batch and in the queue;
	// an adapter can be in both. MaxAdapters is the configured number.
	RunningAdapters, WaitingAdapters []string
	MaxAdapters                      int
}

// KVUsage is the share of KV-cache blocks in use, 0 to 1.
func (s Stats) KVUsage() float64 { return float64(s.BlocksUsed) / float64(s.BlocksTotal) }

// HitRate is the share of prompt tokens that came from the prefix cache, 0 to 1; 0 before any request.
func (s Stats) HitRate() float64 {
	if s.PrefixQueries == 0 {
		return 0
	}
	return float64(s.PrefixHits) / float64(s.PrefixQueries)
}

// Stats returns the figures as of the latest time told.
func (e *Engine) Stats() Stats {
	s := e.stats
	s.At = e.now
	s.Running, s.Waiting = len(e.running), e.waiting.len()+len(e.fetching)
	s.Fetching, s.Held = len(e.fetching), len(e.held)
	s.BlocksUsed, s.BlocksTotal = e.pool.used(), e.cfg.NumBlocks
	s.MaxAdapters = e.cfg.MaxAdapters
	if e.cfg.MaxAdapters > 0 {
		s.RunningAdapters, s.WaitingAdapters = sortedNames(e.adapters.running), sortedNames(e.adapters.waiting)
	}
	return s
}
