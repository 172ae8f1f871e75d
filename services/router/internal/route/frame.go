package route

import "github.com/pointsman/pointsman/internal/kit/roster"

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

// newResult returns an empty result for a profile, and room for its ranking.
func (f *frame) newResult(p *Profile) (*ProfileResult, []int32) {
	if f.used {
		return &ProfileResult{Profile: p}, nil
	}
	f.used = true
	f.result.Profile = p
	return &f.result, f.ranked[:0]
}

// newScores returns room for the scores of n scorers.
func (f *frame) newScores(n int) []Scores {
	if f.scored || n > usualScorers {
		return make([]Scores, n)
	}
	f.scored = true
	return f.scores[:n:n]
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
