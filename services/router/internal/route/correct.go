package route

import "math"

// correct reads the requests in flight into res.InFlight and changes the totals for
// the picks that were made, here or by other routers, after the scorers were asked:
// without it, all requests of a burst go by the same scores to the same endpoint.
//
// What it adds is what a scorer that rates by counts of requests, scaled between
// the least and the most, would have changed: with Δ the growth of the requests in
// flight since scoring, and W the weight of such scorers,
// W × (maxΔ − Δ) / (maxΔ − minΔ).
//
// Totals are also rounded to 2^-40 of the weights, so that sums which differ only
// by the order of their additions are ties.
func correct(c *Cycle, res *ProfileResult, then []int64, sum weighed) {
	n := len(res.Candidates)
	totals, now, then, round := res.Totals[:n], res.InFlight[:n], then[:n], rounder(sum.weight)
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for i, pos := range res.Candidates {
		now[i] = c.Snapshot.InFlight(int(pos))
		delta := now[i] - then[i]
		least, most = min(least, delta), max(most, delta)
		totals[i] = totals[i] + round - round
	}
	if most == least || sum.counting == 0 {
		return
	}
	res.Corrected = true
	per := sum.counting / float64(most-least)
	for i := range totals {
		totals[i] += per * float64(most-(now[i]-then[i]))
		totals[i] = totals[i] + round - round
	}
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
	inFlight(c, res.Candidates, res.InFlight)
	for i, pos := range res.Candidates {
		load := res.InFlight[i]
		if s.Fresh(int(pos), c.Now) && s.Waiting[pos] >= 0 && s.Running[pos] >= 0 {
			credit, _ := s.Credit(int(pos))
			load = int64(s.Waiting[pos]) + int64(s.Running[pos]) + credit
		}
		res.Totals[i] = 1 / float64(1+max(load, 0))
	}
}
