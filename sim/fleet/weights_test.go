package fleet

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/workload"
)

// weights are those of the router's scorers.
type weights struct{ queue, kv, prefix, running, active float64 }

// points routes as the router does with these weights: the scorers by their formulas, the
// greatest sum, among equals the fewest requests in flight, among those chance.
type points struct {
	weights
	rng      *rand.Rand
	inFlight []int
	credit   []int // picks since the figures were read
	read     time.Duration
	holds    []map[uint64]bool
}

func newPoints(w weights) *points { return &points{weights: w, rng: rand.New(rand.NewPCG(7, 0))} }

func chain(prompt []engine.Token) []uint64 {
	var all []uint64
	h := uint64(14695981039346656037)
	for i, t := range prompt {
		h = (h ^ uint64(t)) * 1099511628211
		if (i+1)%blockTokens == 0 && len(all) < mostBlocks {
			all = append(all, h)
		}
	}
	return all
}

// compared is queue-scorer and running-requests-size-scorer.
func compared(counts, credit []int) []float64 {
	sums := make([]int, len(counts))
	for i := range sums {
		sums[i] = counts[i] + credit[i]
	}
	width := slices.Max(sums) - slices.Min(sums)
	if slices.Min(counts) == slices.Max(counts) {
		width = max(width, 8) // only credit differs
	}
	scores := make([]float64, len(counts))
	for i, n := range sums {
		scores[i] = 1
		if width > 0 {
			scores[i] = 1 - float64(n-slices.Min(sums))/float64(width)
		}
	}
	return scores
}

// idle is active-request-scorer.
func idle(inFlight []int) []float64 {
	most := slices.Max(inFlight)
	scores := make([]float64, len(inFlight))
	for i, n := range inFlight {
		scores[i] = 1
		if n > 0 {
			scores[i] = float64(most-n) / float64(most)
		}
	}
	return scores
}

func (p *points) Pick(_ time.Duration, r Request, seen []engine.Stats) int {
	n := len(seen)
	if p.inFlight == nil {
		p.inFlight, p.credit, p.holds = make([]int, n), make([]int, n), make([]map[uint64]bool, n)
		for i := range p.holds {
			p.holds[i] = map[uint64]bool{}
		}
	}
	if newest := slices.MaxFunc(seen, func(a, b engine.Stats) int { return int(a.At - b.At) }).At; newest != p.read {
		p.read = newest
		clear(p.credit)
	}
	waiting, running := make([]int, n), make([]int, n)
	for i, s := range seen {
		waiting[i], running[i] = s.Waiting, s.Running
	}
	// Picks since count as waiting where somebody waits, and as running elsewhere.
	queued := make([]int, n)
	for i := range queued {
		if waiting[i] > 0 {
			queued[i] = p.credit[i]
		}
	}
	queue, run, active := compared(waiting, queued), compared(running, p.credit), idle(p.inFlight)
	blocks := chain(r.Prompt)
	totals := make([]float64, n)
	for i := range totals {
		matched := 0
		for matched < len(blocks) && p.holds[i][blocks[matched]] {
			matched++
		}
		share := float64(matched) / float64(max(1, len(blocks)))
		totals[i] = p.queue*queue[i] + p.kv*(1-seen[i].KVUsage()) + p.prefix*share + p.running*run[i] + p.active*active[i]
	}
	best, equals := 0, 1
	for i := 1; i < n; i++ {
		switch d := totals[i] - totals[best]; {
		case d > 1e-9 || d > -1e-9 && p.inFlight[i] < p.inFlight[best]:
			best, equals = i, 1
		case d > -1e-9 && p.inFlight[i] == p.inFlight[best]:
			if equals++; p.rng.IntN(equals) == 0 {
				best = i
			}
		}
	}
	p.inFlight[best]++
	p.credit[best]++
	for _, h := range blocks {
		p.holds[best][h] = true
	}
	return best
}

func (p *points) Ended(_ time.Duration, r Result) { p.inFlight[r.Engine]-- }

// used is how many engines had at least a hundredth of the requests.
func used(r *Report) int {
	n := 0
	for _, e := range r.Engines {
		if int(e.Submitted)*100 >= len(r.Results) {
			n++
		}
	}
	return n
}

// shared is one long system prompt for everybody, and single questions about it, at a rate
// that climbs from 0.2 to final a second.
func shared(final float64) workload.Config {
	work := sessions(600)
	work.SessionRate, work.FinalRate, work.Turns = 0.2, final, workload.Always(1)
	work.SystemPrompts, work.SystemTokens = 1, workload.Always(8000)
	return work
}

// talks are conversations that begin at a rate, each with a history of its own.
func talks(rate float64) workload.Config {
	work := sessions(int(60 * rate))
	work.SessionRate = rate
	return work
}

// B130: what weights do to a prefix that all share, and what that costs conversations.
// docs/tuning.md shows the figures, which -v prints.
func TestB130WhatWeightsDo(t *testing.T) {
	measure := func(work workload.Config, name string, p Policy) *Report {
		r := run(t, DefaultConfig(), work, p)
		ttft, itl := r.TTFT(.5, .95, .99), r.ITL(.95)
		round := func(d, to time.Duration) time.Duration { return d.Round(to) }
		t.Logf("%v→%v %s: %d used, hits %.3f, TTFT p50 %v p95 %v p99 %v, ITL p95 %v", work.SessionRate, work.FinalRate, name, used(r), r.HitRate(),
			round(ttft[0], time.Millisecond), round(ttft[1], time.Millisecond), round(ttft[2], time.Millisecond), round(itl[0], 100*time.Microsecond))
		return r
	}
	p95 := func(r *Report) time.Duration { return r.TTFT(.95)[0] }
	defaults := func() Policy { return newPoints(weights{queue: 2, kv: 2, prefix: 3}) }
	some := func() Policy { return newPoints(weights{queue: 2, kv: 2, prefix: 3, active: 2}) }
	more := func() Policy { return newPoints(weights{queue: 2, kv: 2, prefix: 3, active: 4}) }

	few, fewRandom, fewMore := measure(shared(5), "defaults", defaults()), measure(shared(5), "random", Random(1)), measure(shared(5), "active-request-scorer 4", more())
	if used(few) > 2 || p95(few) > fewRandom.TTFT(.95)[0]*115/100 || few.TTFT(.99)[0] > fewRandom.TTFT(.99)[0] {
		t.Error("to few requests a second, the prefix is worth more than idle engines: the defaults should keep few engines, and be about as fast as chance")
	}
	if used(fewMore) < 6 || p95(fewMore) > p95(fewRandom)*115/100 {
		t.Error("requests in flight that weigh more than the prefix should use 6 of 8 engines")
	}
	many, manyRandom, manyMore := measure(shared(60), "defaults", defaults()), measure(shared(60), "random", Random(1)), measure(shared(60), "active-request-scorer 4", more())
	measure(shared(60), "active-request-scorer 2", some())
	if used(many) > 5 || p95(many) < p95(manyRandom)*3/2 {
		t.Error("to many requests a second the defaults should be too narrow: the page says so")
	}
	if used(manyMore) < 6 || p95(manyMore) > p95(manyRandom)*115/100 {
		t.Error("requests in flight that weigh more than the prefix should be no slower than chance")
	}
	talk, talkRandom := measure(talks(10), "defaults", defaults()), measure(talks(10), "random", Random(1))
	talkSome, talkMore := measure(talks(10), "active-request-scorer 2", some()), measure(talks(10), "active-request-scorer 4", more())
	if talk.HitRate() < 1.5*talkRandom.HitRate() || p95(talk)*2 > p95(talkRandom) {
		t.Error("conversations should be better off with the defaults than by chance")
	}
	if talkSome.HitRate() < .95*talk.HitRate() || p95(talkMore) < p95(talk)*3/2 {
		t.Error("to conversations, requests in flight should cost little up to a weight of 2, and much above that of the prefix")
	}
}
