package roster

import "sync/atomic"

// slabSize is how many endpoints have their counts in one slab.
const slabSize = 512

// slab holds counts in columns: who reads one count of all endpoints reads memory from end
// to end.
type slab struct {
	inFlight, inFlightTokens [slabSize]atomic.Int64
	credit, creditTokens     [slabSize]atomic.Int64
}

// slot is an endpoint's place in a slab. It is never given to another endpoint, since old
// snapshots go on reading it; a slab goes when nobody has a slot in it.
type slot struct {
	slab *slab
	at   uint
}

func (s slot) inFlight() *atomic.Int64       { return &s.slab.inFlight[s.at%slabSize] }
func (s slot) inFlightTokens() *atomic.Int64 { return &s.slab.inFlightTokens[s.at%slabSize] }
func (s slot) credit() *atomic.Int64         { return &s.slab.credit[s.at%slabSize] }
func (s slot) creditTokens() *atomic.Int64   { return &s.slab.creditTokens[s.at%slabSize] }

// slots gives out slots, one after the other.
type slots struct {
	last *slab
	used uint // of last
}

func (s *slots) next() slot {
	if s.last == nil || s.used == slabSize {
		s.last, s.used = &slab{}, 0
	}
	s.used++
	return slot{s.last, s.used - 1}
}
