package modelserver

import "sync"

// Store is the storage that servers with the connector SharedStorage have in common: which blocks of prompts are in it.
// When it is full, the oldest go. It is safe for concurrent use.
type Store struct {
	mu    sync.Mutex
	known map[uint64]bool
	ring  []uint64 // in order of arrival, from next on when it is full
	next  int
}

// NewStore returns an empty store for the given number of blocks, at least one.
func NewStore(blocks int) *Store {
	return &Store{known: make(map[uint64]bool), ring: make([]uint64, 0, max(blocks, 1))}
}

// put keeps the blocks of a prompt.
func (s *Store) put(hashes []uint64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range hashes {
		if s.known[h] {
			continue
		}
		s.known[h] = true
		if len(s.ring) < cap(s.ring) {
			s.ring = append(s.ring, h)
			continue
		}
		delete(s.known, s.ring[s.next])
		s.ring[s.next] = h
		s.next = (s.next + 1) % len(s.ring)
	}
}

// match is how many of a prompt's blocks, from the first on, are kept.
func (s *Store) match(hashes []uint64) int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range hashes {
		if !s.known[h] {
			return i
		}
	}
	return len(hashes)
}
