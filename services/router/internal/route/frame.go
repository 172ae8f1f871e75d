package route

import (
	"slices"
	"sync"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// usualScorers is how many scorers a usual profile has at most.
const usualScorers = 3

// frame holds what a usual decision needs, of fixed size, in one allocation.
type frame struct {
	decision  Decision
	cycle     Cycle
	result    ProfileResult // of the first profile
	results   [1]*ProfileResult
	ranked    [minRanked]int32
	fallbacks [minRanked - 1]*roster.Endpoint
	scores    [usualScorers]Scores
	used      bool // result and ranked are taken
	scored    bool // scores are taken
}

// columns are the arrays with an entry for each candidate that a usual decision needs. With
// hundreds of endpoints they are most of what a decision takes, so they are used for one
// after another; see Decision.Keep.
type columns struct {
	home     *sync.Pool
	totals   []float64
	inFlight []int64
	values   [usualScorers][]float32
	matched  [usualScorers][]uint32
}

// lend gives the result of the first profile room for n candidates.
func (c *columns) lend(res *ProfileResult, n int) {
	c.totals, c.inFlight = sized(c.totals, n), sized(c.inFlight, n)
	clear(c.totals)
	clear(c.inFlight)
	res.Totals, res.InFlight = c.totals, c.inFlight
	for i := range res.Scores {
		c.values[i], c.matched[i] = sized(c.values[i], n), sized(c.matched[i], n)
		res.Scores[i].Values, res.Scores[i].Matched = c.values[i][:0], c.matched[i][:0]
	}
}

// sized returns a column of n entries of unspecified value, in the room of one before.
func sized[T any](column []T, n int) []T { return slices.Grow(column[:0], n)[:n] }

// newResult returns an empty result for a profile, and room for its ranking.
func (f *frame) newResult(p *Profile) (*ProfileResult, []int32) {
	if f.used {
		return &ProfileResult{Profile: p}, nil
	}
	f.used = true
	f.result.Profile = p
	return &f.result, f.ranked[:0]
}

// room gives a result what its scorers are to fill in about n candidates, and what is made
// of that.
func (s *Scheduler) room(f *frame, res *ProfileResult, n int) {
	scorers := len(res.Profile.Scorers)
	if f.scored || scorers > usualScorers {
		res.Totals, res.InFlight, res.Scores = make([]float64, n), make([]int64, n), make([]Scores, scorers)
		return
	}
	f.scored = true
	res.Scores = f.scores[:scorers:scorers]
	c, _ := s.columns.Get().(*columns)
	if c == nil {
		c = &columns{home: &s.columns}
	}
	f.decision.columns = c
	c.lend(res, n)
}

// all returns the positions 0..n-1. Shared: not to be changed.
func (s *Scheduler) all(n int) []int32 {
	if p := s.identity.Load(); p != nil && len(*p) >= n {
		return (*p)[:n:n]
	}
	made := make([]int32, n)
	for i := range made {
		made[i] = int32(i) //nolint:gosec // at most roster.MaxEndpoints
	}
	s.identity.Store(&made)
	return made
}

// borrow returns n counts of unspecified value, to be given back.
func (s *Scheduler) borrow(n int) *[]int64 {
	b, _ := s.scratch.Get().(*[]int64)
	if b == nil || cap(*b) < n {
		made := make([]int64, n)
		return &made
	}
	*b = (*b)[:n]
	return b
}
