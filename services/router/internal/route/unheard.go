package route

import (
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// hearing is about how long a pick takes to be heard of by other routers, a moment
// of a busy machine included.
const hearing = 5 * time.Millisecond

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
// is k−1 times this router's own picks within the time of hearing. Nil for one
// router or no picks. It is called under pickMu; the slice is good until the next
// call.
func (s *Scheduler) unheard(c *Cycle, res *ProfileResult) []int64 {
	others := s.others()
	if others == 0 || len(s.recent) == 0 {
		return nil
	}
	since := s.deps.Roster.Now() - int64(hearing)
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
			counts = append(counts, make([]int64, len(res.Candidates))...)
		}
		counts[at] += others
	}
	s.guess = counts
	if len(counts) == 0 {
		return nil
	}
	return counts
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
}
