package route

import (
	"context"
	"fmt"
	"slices"
)

// minRanked is how many endpoints a profile ranks at least: the pick and three to
// fall back on.
const minRanked = 4

// before is how things stood when the scorers were asked.
type before struct {
	inFlight []int64 // per candidate
	picks    uint64  // that this router had made
}

// runProfile filters, scores, picks and reserves.
func (s *Scheduler) runProfile(ctx context.Context, f *frame, p *Profile, in eligible) *ProfileResult {
	c := &f.cycle
	res, ranked := f.newResult(p)
	res.Candidates, res.DroppedBy, res.Err = in.positions, slices.Clone(in.droppedBy), in.err
	if res.Err != nil {
		return res
	}
	if res.Err = filter(c, res); res.Err != nil {
		return res
	}
	counts := s.borrow(len(res.Candidates))
	defer s.scratch.Put(counts)
	then := before{*counts, s.picks.Load()}
	c.Snapshot.InFlightOf(res.Candidates, then.inFlight)
	sum, err := s.score(ctx, f, res)
	if err != nil {
		res.Err = err
		return res
	}
	if res.Err = filterLate(c, res, &then.inFlight); res.Err != nil {
		return res
	}
	chosen, words := s.reserveShared(ctx, c, res, then, sum)
	if res.Err == nil {
		s.pick(f, res, then, sum, ranked, chosen, words)
	}
	return res
}

// filter runs the profile's filters that come before scoring over res.Candidates.
func filter(c *Cycle, res *ProfileResult) error {
	fs := res.Profile.Filters[:res.Profile.early()]
	if len(fs) == 0 {
		return nil
	}
	candidates := slices.Clone(res.Candidates) // filters write into it
	var before []int32
	for _, f := range fs {
		n := len(candidates)
		if c.Explain {
			before = append(before[:0], candidates...)
		}
		candidates = f.Filter(c, candidates)
		if c.Explain {
			noteDropped(res.DroppedBy, before, candidates, f.Name())
		}
		if len(candidates) > 0 {
			continue
		}
		res.Candidates = nil
		return leftNone(f, n)
	}
	res.Candidates = candidates
	return nil
}

// score asks the profile's scorers and adds up what they say.
func (s *Scheduler) score(ctx context.Context, f *frame, res *ProfileResult) (weighed, error) {
	n := len(res.Candidates)
	s.room(f, res, n)
	scorers := res.Profile.Scorers
	if len(scorers) == 0 {
		return weighed{}, nil
	}
	s.deps.Fan.Score(ctx, &f.cycle, scorers, res.Candidates, res.Scores)
	if err := ctx.Err(); err != nil {
		return weighed{}, fmt.Errorf("score %d endpoints: %w", n, err)
	}
	sum, err := combine(res)
	res.LeastLoad = sum.scorers == 0
	return sum, err
}

// pick ranks the candidates by what is in flight now and, unless it is a dry run,
// reserves the first. Dry runs take the lock too: they read what it guards. chosen is
// the candidate that was chosen over all routers, -1: none; words say how, or why not.
func (s *Scheduler) pick(f *frame, res *ProfileResult, then before, sum weighed, ranked []int32, chosen int32, words string) {
	c := &f.cycle
	s.pickMu.Lock()
	defer s.pickMu.Unlock()
	if res.LeastLoad {
		leastLoad(c, res)
	} else {
		s.correct(c, res, then, sum)
	}
	picker := res.Profile.Picker
	n := max(picker.Max(), minRanked)
	res.Ranked, res.TieBreak = picker.Pick(c, res.Candidates, res.Totals, res.InFlight, n, ranked)
	if res.LeastLoad {
		res.TieBreak = leastLoadWords(res.TieBreak)
	}
	switch {
	case chosen >= 0:
		res.Ranked, res.TieBreak = promote(res.Ranked, chosen, n), words
	case words != "":
		res.TieBreak = words + res.TieBreak
	}
	pos, ok := res.Best()
	if !ok {
		res.Err = pickedNone(picker, len(res.Candidates))
		return
	}
	if h, ok := f.decision.Config.Handler.(Planner); ok {
		res.Work = h.Work(c, f.decision.Results, res)
	}
	if !c.Explain {
		s.remember(c.Snapshot.Table.Endpoints[pos].ID)
		res.Reservation = s.deps.Ledger.Reserve(c, &c.Snapshot.Table.Endpoints[pos], res)
	}
}

func leastLoadWords(tieBreak string) string {
	const words = "no scorer gave a score: least load known to the router"
	if tieBreak == "" {
		return words
	}
	return words + ", then " + tieBreak
}
