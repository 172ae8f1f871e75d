package route

import (
	"math"
	"slices"
)

// correct reads the requests in flight into res.InFlight and changes the totals for
// the picks that the scorers could not know of when they were asked: without it,
// all requests of a burst go by the same scores to the same endpoint.
//
// A scorer that rates by counts of requests says how many take a point, so its
// scores are turned back into counts (up to a constant), the picks are added, and
// the counts are scored again: with R the requests per point,
// q = (1 − score) × R + Δ, and then 1 − (q − least q) / max(R, most q − least q).
//
// Δ is the growth of the requests in flight since scoring, as far as it was heard
// of, and for what was not: unheard. Of what was heard of, only what others have
// picked makes up for that.
//
// Totals are also rounded to 2^-40 of the weights, so that sums which differ only
// by the order of their additions are ties.
func (s *Scheduler) correct(c *Cycle, res *ProfileResult, asked before, sum weighed) {
	n := len(res.Candidates)
	now, then := res.InFlight[:n], asked.inFlight[:n]
	unheard, own := s.unheard(c, res, asked.picks)
	c.Snapshot.InFlightOf(res.Candidates, now)
	for i := range then {
		then[i] = now[i] - then[i] // from here on: Δ
	}
	for i := range unheard {
		then[i] += max(0, unheard[i]-max(0, then[i]-own[i]))
	}
	if sum.counting && moved(then) {
		res.Corrected = true
		for k := range res.Scores {
			if sc := &res.Scores[k]; sc.Verdict == Scored && sc.RequestsPerPoint > 0 {
				rescore(res.Totals[:n], sc, res.Profile.Scorers[k].Weight, then, sum.clean)
			}
		}
	}
	round := rounder(sum.weight)
	for i := range res.Totals[:n] {
		res.Totals[i] = res.Totals[i] + round - round
	}
}

// moved says whether the picks made since scoring make any difference between candidates.
func moved(delta []int64) bool {
	some := int64(0)
	for _, d := range delta {
		some |= d ^ delta[0]
	}
	return some != 0
}

// rescore replaces a counting scorer's part in the totals by what it would be with
// delta more requests on each candidate.
func rescore(totals []float64, sc *Scores, weight float64, delta []int64, clean bool) {
	per := sc.RequestsPerPoint
	if clean && len(sc.AbstainedOn) == 0 {
		rescoreAll(totals, sc.Values, per, weight, delta)
		return
	}
	count := func(i int) float64 { return (1-sc.given(i))*per + float64(delta[i]) }
	least, most := math.Inf(1), math.Inf(-1)
	for i := range totals {
		q := count(i)
		least, most = min(least, q), max(most, q)
	}
	width := max(per, most-least)
	for i := range totals {
		totals[i] += weight * (1 - (count(i)-least)/width - sc.given(i))
	}
}

// rescoreAll is rescore for scores that are all given and in range, as they nearly always
// are. It runs for every pick of a busy router, while the next pick waits.
func rescoreAll(totals []float64, values []float32, per, weight float64, delta []int64) {
	values, delta = values[:len(totals)], delta[:len(totals)]
	least, most := math.Inf(1), math.Inf(-1)
	for i, v := range values {
		q := (1-float64(v))*per + float64(delta[i])
		if q < least {
			least = q
		}
		if q > most {
			most = q
		}
	}
	width := max(per, most-least)
	for i, v := range values {
		given := float64(v)
		totals[i] += weight * (1 - ((1-given)*per+float64(delta[i])-least)/width - given)
	}
}

// given is the score that a candidate was given in the totals.
func (s *Scores) given(i int) float64 {
	if len(s.AbstainedOn) > 0 {
		if _, abstained := slices.BinarySearch(s.AbstainedOn, uint32(i)); abstained { //nolint:gosec // a candidate's index
			return s.Neutral
		}
	}
	return clamp(s.Values[i])
}

// rounder returns a number so great that adding it and taking it away again leaves
// nothing finer than 2^-40 of the weights; 0 if there is none.
func rounder(weight float64) float64 {
	if weight == 0 {
		return 0
	}
	_, exp := math.Frexp(weight)
	r := math.Ldexp(1.5, exp+52-40)
	if math.IsInf(r, 0) {
		return 0
	}
	return r
}

// leastLoad rates candidates by the load that the router itself knows of: waiting
// and running requests and the picks since, or the requests in flight where figures
// are missing or stale. 1/(1+load) keeps the totals within 0..1 for pickers that
// draw by them.
func leastLoad(c *Cycle, res *ProfileResult) {
	s := c.Snapshot
	s.InFlightOf(res.Candidates, res.InFlight)
	for i, pos := range res.Candidates {
		load := res.InFlight[i]
		if s.Fresh(int(pos), c.Now) && s.Waiting[pos] >= 0 && s.Running[pos] >= 0 {
			credit, _ := s.Credit(int(pos))
			load = int64(s.Waiting[pos]) + int64(s.Running[pos]) + credit
		}
		res.Totals[i] = 1 / float64(1+max(load, 0))
	}
}
