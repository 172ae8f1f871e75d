package outcome

import (
	"sync"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

const (
	// remembered is what is left of what was learned when one more is: the last 20 or so
	// count.
	remembered = 0.95
	// learnedFrom is how many streamed answers an estimate takes.
	learnedFrom = 8
)

// speeds are how long endpoints take to prefill, learned from when the first tokens of
// streamed answers came. The transfer of the KV cache and the first step of decoding are
// in it. Safe for concurrent use.
type speeds struct {
	mu sync.Mutex
	of map[roster.ID]*speed
}

// speed is a line through points (tokens, ns), the newer the heavier.
type speed struct {
	seen            int
	n, x, y, xx, xy float64
}

// learn takes over that an endpoint was done with so many tokens after so long: all that it
// had, those of the request included.
func (s *speeds) learn(id roster.ID, tokens, took int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[roster.ID]*speed)
	}
	l := s.of[id]
	if l == nil {
		l = new(speed)
		s.of[id] = l
	}
	x, y := float64(tokens), float64(took)
	l.seen++
	l.n, l.x, l.y = l.n*remembered+1, l.x*remembered+x, l.y*remembered+y
	l.xx, l.xy = l.xx*remembered+x*x, l.xy*remembered+x*y
}

// estimate returns how long an endpoint takes for so many tokens; false if too little is
// known of it.
func (s *speeds) estimate(id roster.ID, tokens int64) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[id]
	if l == nil || l.seen < learnedFrom {
		return 0, false
	}
	return time.Duration(l.at(float64(tokens))), true
}

// at returns the ns for so many tokens by least squares, with neither the slope nor the
// time for no tokens below 0.
func (l *speed) at(x float64) float64 {
	if l.xx == 0 {
		return l.y / l.n // there were no tokens at all
	}
	spread := l.n*l.xx - l.x*l.x
	if spread <= 1e-6*l.n*l.xx {
		return x * l.xy / l.xx // always about as many: in proportion
	}
	slope := (l.n*l.xy - l.x*l.y) / spread
	base := (l.y - slope*l.x) / l.n
	switch {
	case slope < 0:
		return l.y / l.n
	case base < 0:
		return x * l.xy / l.xx
	}
	return base + slope*x
}

// retain forgets the endpoints that are not in the table.
func (s *speeds) retain(t *roster.Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.of {
		if _, in := t.Position(id); !in {
			delete(s.of, id)
		}
	}
}
