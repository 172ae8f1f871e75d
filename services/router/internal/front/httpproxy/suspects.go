package httpproxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// suspicion is how long a failure is remembered of which it is not known whose it was.
const suspicion = 30 * time.Second

// suspects finds out who is at fault when an endpoint that decodes fails with what another
// one has prefilled. It answers with the same status whether the prompt was not there any
// more, did not get through, or cannot be decoded. So neither is blamed for one failure, but
// who has failed with two partners, or with one that does well with somebody else. Safe for
// concurrent use.
type suspects struct {
	some  atomic.Bool // pairs is not empty
	mu    sync.Mutex
	pairs map[handover]time.Time // when they failed
}

// handover is two endpoints of which one has fetched, or was to fetch, from the other.
type handover struct{ prefill, decode roster.ID }

// culprit is an endpoint that is to blame.
type culprit struct {
	id      roster.ID
	prefill bool // it was the one that prefilled
}

// failed notes that a handover has failed and returns who is to blame for that, if it is known.
func (s *suspects) failed(p handover) []culprit {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	if s.pairs == nil {
		s.pairs = make(map[handover]time.Time)
	}
	s.pairs[p] = time.Now()
	var who []culprit
	if s.count(func(q handover) bool { return q.prefill == p.prefill }) > 1 {
		who = append(who, culprit{p.prefill, true})
	}
	if s.count(func(q handover) bool { return q.decode == p.decode }) > 1 {
		who = append(who, culprit{p.decode, false})
	}
	return s.settled(who)
}

// worked notes that a handover did well: who has failed with one of them is to blame.
func (s *suspects) worked(p handover) []culprit {
	if !s.some.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	delete(s.pairs, p)
	var who []culprit
	for q := range s.pairs {
		switch {
		case q.prefill == p.prefill:
			who = append(who, culprit{q.decode, false})
		case q.decode == p.decode:
			who = append(who, culprit{q.prefill, true})
		}
	}
	return s.settled(who)
}

// alone notes that the endpoint that decodes did well with the same request once it had
// nothing to fetch: the other one is to blame.
func (s *suspects) alone(p handover) []culprit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.pairs[p]; !there {
		return nil
	}
	return s.settled([]culprit{{p.prefill, true}})
}

// settled forgets what those have failed who are to blame, and returns them.
func (s *suspects) settled(who []culprit) []culprit {
	for _, c := range who {
		for q := range s.pairs {
			if c.prefill && q.prefill == c.id || !c.prefill && q.decode == c.id {
				delete(s.pairs, q)
			}
		}
	}
	s.some.Store(len(s.pairs) > 0)
	return who
}

// forget drops what is long ago.
func (s *suspects) forget() {
	for q, at := range s.pairs {
		if time.Since(at) > suspicion {
			delete(s.pairs, q)
		}
	}
}

func (s *suspects) count(of func(handover) bool) (n int) {
	for q := range s.pairs {
		if of(q) {
			n++
		}
	}
	return n
}
