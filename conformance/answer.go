package conformance

import (
	"math"
	"slices"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// close enough: figures may have aged between two calls.
const near = 1e-3

// rule is one rule about an answer by itself.
type rule struct {
	id     string
	broken func(m *scorerv1.ScoreResponse, n, blocks int) error
}

// rules are all of them, in the order in which they are told.
func rules() []rule {
	return []rule{
		{"score-count", wrongCount},
		{"score-range", wrongRange},
		{"score-abstained", wrongAbstained},
		{"score-abstain-reason", wrongReason},
		{"score-matched", wrongMatched},
		{"score-state-age", wrongAge},
		{"score-requests-per-point", wrongPerPoint},
	}
}

// wrong returns how an answer breaks a rule by itself; all rules if only is empty.
func wrong(m *scorerv1.ScoreResponse, req *scorerv1.ScoreRequest, only string) error {
	return wrongFor(m, len(req.GetListed().GetCandidates()), len(req.GetRequest().GetPrefix().GetHashes()), only)
}

func wrongFor(m *scorerv1.ScoreResponse, n, blocks int, only string) error {
	for _, r := range rules() {
		if only != "" && r.id != only {
			continue
		}
		if err := r.broken(m, n, blocks); err != nil {
			return err
		}
	}
	return nil
}

// abstainedOnAll says whether scores may be left out.
func abstainedOnAll(m *scorerv1.ScoreResponse, n int) bool {
	return m.GetAbstainedOnAll() || n > 0 && len(m.GetAbstainedIndices()) == n
}

func wrongCount(m *scorerv1.ScoreResponse, n, _ int) error {
	switch got := len(m.GetScores()); {
	case m.GetAbstainedOnAll() && got > 0:
		return broken("abstained_on_all is set, and there are %d scores", got)
	case got == 0 && abstainedOnAll(m, n):
	case got != n:
		return broken("%d scores for %d candidates", got, n)
	}
	return nil
}

func wrongRange(m *scorerv1.ScoreResponse, n, _ int) error {
	for i, v := range m.GetScores() {
		if v >= 0 && v <= 1 || slices.Contains(m.GetAbstainedIndices(), uint32(i)) {
			continue
		}
		return broken("the score of candidate %d of %d is %v", i, n, v)
	}
	return nil
}

func wrongAbstained(m *scorerv1.ScoreResponse, n, _ int) error {
	last := int64(-1)
	for i, a := range m.GetAbstainedIndices() {
		if int64(a) >= int64(n) || int64(a) <= last {
			return broken("abstained_indices[%d] is %d, after %d, of %d candidates", i, a, last, n)
		}
		last = int64(a)
	}
	return nil
}

func wrongReason(m *scorerv1.ScoreResponse, _, _ int) error {
	if (m.GetAbstainedOnAll() || len(m.GetAbstainedIndices()) > 0) && m.GetAbstainReason() == scorerv1.AbstainReason_ABSTAIN_REASON_UNSPECIFIED {
		return broken("it abstained and gave no abstain_reason")
	}
	return nil
}

func wrongMatched(m *scorerv1.ScoreResponse, n, blocks int) error {
	matched := m.GetMatchedBlockCounts()
	if len(matched) != 0 && len(matched) != n {
		return broken("%d matched_block_counts for %d candidates", len(matched), n)
	}
	for i, v := range matched {
		if int64(v) > int64(blocks) {
			return broken("candidate %d is said to hold %d blocks of %d that were sent", i, v, blocks)
		}
	}
	return nil
}

func wrongAge(m *scorerv1.ScoreResponse, _, _ int) error {
	if d := m.GetStateAge(); d != nil && (d.CheckValid() != nil || d.AsDuration() < 0) {
		return broken("state_age is %d s and %d ns", d.GetSeconds(), d.GetNanos())
	}
	return nil
}

func wrongPerPoint(m *scorerv1.ScoreResponse, _, _ int) error {
	if v := float64(m.GetRequestsPerPoint()); math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return broken("requests_per_point is %v", v)
	}
	return nil
}

// opinion is what an answer says of one candidate.
type opinion struct {
	abstained bool
	score     float64
	matched   uint32
}

// opinions are what a good answer says of n candidates.
func opinions(m *scorerv1.ScoreResponse, n int) []opinion {
	all := make([]opinion, n)
	for i := range all {
		all[i].abstained = abstainedOnAll(m, n) || slices.Contains(m.GetAbstainedIndices(), uint32(i))
		if !all[i].abstained {
			all[i].score = float64(m.GetScores()[i])
		}
		if len(m.GetMatchedBlockCounts()) > 0 {
			all[i].matched = m.GetMatchedBlockCounts()[i]
		}
	}
	return all
}

// differ says where two lists of opinions differ. Entry i of a is compared with entry
// at(i) of b.
func differ(a, b []opinion, at func(int) int) error {
	for i, x := range a {
		y := b[at(i)]
		switch {
		case x.abstained != y.abstained:
			return broken("of candidate %d it once had an opinion and once had none", i)
		case math.Abs(x.score-y.score) > near:
			return broken("candidate %d got %v, and then %v", i, x.score, y.score)
		case x.matched != y.matched:
			return broken("candidate %d was said to hold %d blocks, and then %d", i, x.matched, y.matched)
		}
	}
	return nil
}

func same(i int) int { return i }
