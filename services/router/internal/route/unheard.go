package route

import (
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// leastHearing and mostHearing bound how long a pick is taken to need until other
// routers have heard of it: it is measured, and a measurement is always late.
const (
	leastHearing = 5 * time.Millisecond
	mostHearing  = 100 * time.Millisecond
)

// mostRecent bounds how many own picks are looked at.
const mostRecent = 256

// recentPick is a pick that this router has just made.
type recentPick struct {
	at       int64 // ns of the roster's clock
	endpoint roster.ID
}

// unheard estimates, per candidate, the picks that other routers have made and that
// have not been heard of yet: routers that share a pool's traffic see the same
// picture a moment late, so each does now what this one does. With k routers that
// is k−1 times this router's own picks within the time of hearing. own is how many of
// those it has made since there were as many as picks. Nil for one router or no picks.
// It is called under pickMu; the slices are good until the next call.
func (s *Scheduler) unheard(c *Cycle, res *ProfileResult, picks uint64) (guess, own []int64) {
	others := s.others()
	if others == 0 || len(s.recent) == 0 {
		return nil, nil
	}
	// What was picked after this request's scorers were asked they cannot know of,
	// however long ago that is; and a hearing before that others had not heard of.
	since := c.Now - int64(s.hearing())
	n, later := len(res.Candidates), int(s.picks.Load()-picks) //nolint:gosec // as many as fit into the time of a decision
	counts := s.guess[:0]
	for i := len(s.recent) - 1; i >= 0 && s.recent[i].at >= since; i-- {
		pos, in := c.Snapshot.Table.Position(s.recent[i].endpoint)
		if !in {
			continue
		}
		at, candidate := slices.BinarySearch(res.Candidates, int32(pos)) //nolint:gosec // a table position
		if !candidate {
			continue
		}
		if len(counts) == 0 {
			counts = append(counts, make([]int64, 2*n)...)
		}
		counts[at] += others
		if len(s.recent)-i <= later {
			counts[n+at]++
		}
	}
	s.guess = counts
	if len(counts) == 0 {
		return nil, nil
	}
	return counts[:n], counts[n:]
}

// hearing is how long a pick takes to be heard of.
func (s *Scheduler) hearing() time.Duration {
	if s.deps.Hearing == nil {
		return leastHearing
	}
	return min(max(s.deps.Hearing(), leastHearing), mostHearing)
}

// others is how many other routers there are.
func (s *Scheduler) others() int64 {
	if s.deps.OtherRouters == nil {
		return 0
	}
	return int64(s.deps.OtherRouters())
}

// remember notes a pick for unheard. It is called under pickMu.
func (s *Scheduler) remember(id roster.ID) {
	if len(s.recent) == mostRecent {
		s.recent = append(s.recent[:0], s.recent[mostRecent/2:]...)
	}
	s.recent = append(s.recent, recentPick{s.deps.Roster.Now(), id})
	s.picks.Add(1)
}
