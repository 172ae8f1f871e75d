package index

// Evictions counts entries that went, by reason.
type Evictions struct {
	// Capacity counts those above an endpoint's capacity.
	Capacity uint64
	// Memory counts those above Config.MaxBytes.
	Memory uint64
	// Gone counts those of endpoints that left or were reset, and of block sizes
	// that gave way to others.
	Gone uint64
	// Contradicted counts those forgotten since the endpoint was found not to hold
	// them: see Index.Forget.
	Contradicted uint64
}

// Refusals counts placements that were not learned, or not whole, by reason.
type Refusals struct {
	// UnknownEndpoint: see ErrUnknownEndpoint.
	UnknownEndpoint uint64
	// Key: see ErrKey.
	Key uint64
	// Chain: see ErrChain.
	Chain uint64
}

// Stats is how an index stands.
type Stats struct {
	// Entries is the number of (block, endpoint) pairs.
	Entries int64
	// Blocks is the number of different blocks.
	Blocks int64
	// Bytes is what they need in memory. See Config.MaxBytes.
	Bytes int64
	// Placements counts the prompts learned since the start.
	Placements uint64
	// Evicted counts entries that went.
	Evicted Evictions
	// Refused counts placements not learned.
	Refused Refusals
}

// Stats returns how the index stands.
func (x *Index) Stats() Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := Stats{Bytes: x.bytes(), Placements: x.placements, Evicted: x.evicted, Refused: x.refused}
	for _, p := range *x.forests.Load() {
		s.Entries += p.pairs
		s.Blocks += int64(p.live)
	}
	return s
}
