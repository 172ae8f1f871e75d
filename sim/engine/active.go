package engine

import "time"

// active is a request that has not ended.
type active struct {
	Request
	id     ID
	timing Timing

	hashes   []uint64 // of the full blocks of prompt and answer so far
	blocks   []int32  // held, in order
	stored   int      // how many of blocks have been offered to the prefix cache
	computed int      // tokens whose keys and values are in blocks
	produced int      // tokens of the answer so far
	step     int      // tokens to be computed by the step under way
	last     time.Duration
	running  bool
	looked   bool // the prefix cache was asked, and the answer counted
	fetching bool // in Engine.fetching
	arrived  bool // and what it fetches is there
	fetched  int  // tokens in blocks once it has arrived
}

// total is the number of tokens known so far.
func (r *active) total() int { return len(r.Prompt) + r.produced }

// token returns the i-th token of prompt and answer.
func (r *active) token(i int) Token {
	if i < len(r.Prompt) {
		return r.Prompt[i]
	}
	return r.Output[i-len(r.Prompt)]
}

// extendHashes hashes the blocks that have become full since it was last called.
func (e *Engine) extendHashes(r *active) {
	if e.cfg.DisablePrefixCache {
		return
	}
	size := e.cfg.BlockSize
	for full := r.total() / size; len(r.hashes) < full; {
		from := len(r.hashes) * size
		var parent uint64
		if from == 0 {
			parent = seedHash(r.Adapter, r.Salt)
		} else {
			parent = r.hashes[len(r.hashes)-1]
		}
		tokens := e.scratch[:0]
		if from+size <= len(r.Prompt) {
			tokens = r.Prompt[from : from+size]
		} else {
			for i := from; i < from+size; i++ {
				tokens = append(tokens, r.token(i))
			}
		}
		r.hashes = append(r.hashes, chain(parent, tokens))
	}
}

// grow gives r the blocks that its first upto tokens need. It returns false, and takes none, when too few are free.
func (e *Engine) grow(r *active, upto int) bool {
	need := e.blocksFor(upto) - len(r.blocks)
	if need <= 0 {
		return true
	}
	if need > e.pool.free {
		return false
	}
	r.blocks = e.pool.take(need, r.blocks)
	return true
}

// offer puts r's blocks that are full once its first upto tokens are computed into the prefix cache. As in vLLM, that
// happens when the step is scheduled: a request scheduled behind r in the same step already shares them.
func (e *Engine) offer(r *active, upto int) {
	full := min(upto/e.cfg.BlockSize, len(r.hashes))
	for ; r.stored < full; r.stored++ {
		e.pool.store(r.blocks[r.stored], r.hashes[r.stored])
	}
}

// drop gives up all of r's blocks.
func (e *Engine) drop(r *active) {
	e.pool.release(r.blocks)
	r.blocks = r.blocks[:0]
	r.stored, r.computed, r.step = 0, 0, 0
}

func (e *Engine) blocksFor(tokens int) int {
	return (tokens + e.cfg.BlockSize - 1) / e.cfg.BlockSize
}
