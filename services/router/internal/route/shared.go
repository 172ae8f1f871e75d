package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// SharedPicker is a Picker that goes by the requests in flight of all routers as they
// are this very moment, which somebody has to be asked for. Its Pick goes by what this
// router knows, and is what counts when nobody can be asked. One that picks none has
// found every endpoint at its limit.
type SharedPicker interface {
	Picker
	// Shortlist appends the indices of the candidates among which the requests in
	// flight decide, at least one, to dst, and says how equals are told apart: by lot, or
	// the first.
	Shortlist(c *Cycle, totals []float64, dst []int32) (list []int32, first bool)
	// Limit is the most requests in flight on an endpoint; 0: no limit.
	Limit() int64
	// SharedWords says how the choice was made, for Decision's readers.
	SharedWords() string
}

// Counts are the requests in flight of all routers.
type Counts interface {
	// Reserve reserves a place on the one of ids with the fewest requests, and returns its
	// index. An error that wraps ErrShed says that all have limit requests; any other,
	// that it is not known now. It never takes long.
	Reserve(ctx context.Context, ids []roster.ID, limit int64, first bool) (int, Place, error)
}

// Place is a place on an endpoint that was reserved over all routers.
type Place interface {
	// Release gives it up. Only the first call counts.
	Release()
}

// leastTime is how much time there must be to ask for the counts of all routers. With
// less, a deadline of the request would be taken for a Redis that does not answer.
const leastTime = 10 * time.Millisecond

// mostAsked is how many candidates are asked about at most: what a question costs grows
// with their number. Of more, those are asked about that have the fewest requests as far as
// this router has heard, which is of all routers' picks some milliseconds ago.
const mostAsked = 128

// notAsked is how a TieBreak begins when the counts of all routers were not to be had.
const notAsked = "the counts of all routers are not known now; "

// reserveShared reserves a place over all routers, if the profile's picker goes by that.
// It runs outside of all locks. at is the index of the chosen candidate, -1 if there is
// none; words say why.
func (s *Scheduler) reserveShared(ctx context.Context, c *Cycle, res *ProfileResult, then before, sum weighed) (at int32, words string) {
	picker, ok := res.Profile.Picker.(SharedPicker)
	if !ok || s.deps.Counts == nil {
		return -1, ""
	}
	if c.Explain {
		return -1, "a real request goes by the counts of all routers, which are not asked for here; "
	}
	// What is corrected here is for the shortlist alone: it is done again at the pick.
	trial := *res
	trial.Totals, trial.InFlight = slices.Clone(res.Totals), make([]int64, len(res.InFlight))
	if res.LeastLoad {
		c.Snapshot.InFlightOf(res.Candidates, trial.InFlight)
	} else {
		s.pickMu.Lock()
		s.correct(c, &trial, before{slices.Clone(then.inFlight), then.picks}, sum)
		s.pickMu.Unlock()
	}
	list, first := picker.Shortlist(c, trial.Totals, nil)
	list = fewest(c, list, trial.InFlight, mostAsked)
	ids := make([]roster.ID, len(list))
	for i, k := range list {
		ids[i] = c.Snapshot.Table.Endpoints[res.Candidates[k]].ID
	}
	// It takes little time, and an answer that nobody waits for is a count in doubt.
	ctx = context.WithoutCancel(ctx)
	if by := c.Request.Deadline; !by.IsZero() {
		if time.Until(by) < leastTime {
			return -1, "there was no time to ask for the counts of all routers; "
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, by)
		defer cancel()
	}
	chosen, place, err := s.deps.Counts.Reserve(ctx, ids, picker.Limit(), first)
	switch {
	case err == nil:
		res.Place = place
		return list[chosen], picker.SharedWords()
	case errors.Is(err, ErrShed) && len(list) == len(res.Candidates):
		res.Err = err
		return -1, ""
	case errors.Is(err, ErrShed):
		return s.reserveRest(ctx, c, res, picker, list, first)
	}
	return -1, notAsked
}

// reserveRest tries those who are not on the shortlist, which is full.
func (s *Scheduler) reserveRest(ctx context.Context, c *Cycle, res *ProfileResult, picker SharedPicker, full []int32, first bool) (at int32, words string) {
	var list []int32
	var ids []roster.ID
	for i, pos := range res.Candidates {
		if k := int32(i); !slices.Contains(full, k) { //nolint:gosec // an index
			list = append(list, k)
			ids = append(ids, c.Snapshot.Table.Endpoints[pos].ID)
		}
	}
	chosen, place, err := s.deps.Counts.Reserve(ctx, ids, picker.Limit(), first)
	switch {
	case err == nil:
		res.Place = place
		return list[chosen], "those with the greatest total are full; " + picker.SharedWords()
	case errors.Is(err, ErrShed):
		res.Err = err
		return -1, ""
	}
	return -1, notAsked
}

// fewest returns at most n of the list, in its order: those with the fewest requests in
// flight, and by lot among equals.
func fewest(c *Cycle, list []int32, inFlight []int64, n int) []int32 {
	if len(list) <= n {
		return list
	}
	type entry struct {
		at       int
		inFlight int64
		lot      int
	}
	order := make([]entry, len(list))
	for at, k := range list {
		order[at] = entry{at, inFlight[k], c.Rand(math.MaxInt32)}
	}
	slices.SortFunc(order, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.inFlight, b.inFlight), cmp.Compare(a.lot, b.lot))
	})
	order = order[:n]
	slices.SortFunc(order, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	kept := make([]int32, n)
	for i, e := range order {
		kept[i] = list[e.at]
	}
	return kept
}

// promote puts the candidate that was chosen over all routers before the others.
func promote(ranked []int32, chosen int32, n int) []int32 {
	if i := slices.Index(ranked, chosen); i >= 0 {
		ranked = slices.Delete(ranked, i, i+1)
	}
	ranked = slices.Insert(ranked, 0, chosen)
	return ranked[:min(len(ranked), n)]
}

// pickedNone is the error of a picker that picked none of n candidates.
func pickedNone(p Picker, n int) error {
	if s, ok := p.(SharedPicker); ok && s.Limit() > 0 {
		return fmt.Errorf("%w: each of %d endpoints has the %d requests in flight that %q allows", ErrShed, n, s.Limit(), p.Name())
	}
	return fmt.Errorf("%w: picker %q picked none of %d endpoints", ErrNoEndpoint, p.Name(), n)
}
