package scorer

import (
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// checkAnswer finds the first rule that an answer breaks. n is the number of
// candidates, -1 if it is not known here.
func checkAnswer(out *scorerv1.ScoreResponse, n int) error {
	scores, abstained := out.GetScores(), out.GetAbstainedIndices()
	switch {
	case n < 0:
		n = max(len(scores), len(out.GetMatchedBlockCounts()))
		if n == 0 {
			n = MaxCandidates // abstained on all of the table, whatever its size
			if !out.GetAbstainedOnAll() && len(abstained) == 0 {
				return internal("scores: none")
			}
		}
	case out.GetAbstainedOnAll():
	case len(scores) == 0 && len(abstained) == n:
	case len(scores) != n:
		return internal("scores: %d for %d candidates", len(scores), n)
	}
	if out.GetAbstainedOnAll() && len(scores) > 0 {
		return internal("scores: %d although abstained_on_all is set", len(scores))
	}
	if !ratios(scores) {
		next := 0 // abstention that comes next
		for i, s := range scores {
			if next < len(abstained) && int(abstained[next]) == i {
				next++
				continue
			}
			if !ratio(s) {
				return internal("scores[%d]: %v, want 0 to 1", i, s)
			}
		}
	}
	for i, a := range abstained {
		if int64(a) >= int64(n) || i > 0 && a <= abstained[i-1] {
			return internal("abstained_indices[%d]: %d of %d candidates, want them ascending and in range", i, a, n)
		}
	}
	if (out.GetAbstainedOnAll() || len(abstained) > 0) && out.GetAbstainReason() == scorerv1.AbstainReason_ABSTAIN_REASON_UNSPECIFIED {
		return internal("abstain_reason: missing")
	}
	if m := len(out.GetMatchedBlockCounts()); m != 0 && m != n {
		return internal("matched_block_counts: %d for %d candidates", m, n)
	}
	if age := out.GetStateAge(); age != nil && (age.CheckValid() != nil || age.AsDuration() < 0) {
		return internal("state_age: %v, want a duration that is not negative", age)
	}
	if per := out.GetRequestsPerPoint(); !(per >= 0) || per-per != 0 { // NaN is not >= 0 either
		return internal("requests_per_point: %v, want a finite number, not below 0", per)
	}
	for i, e := range out.GetExplanations() {
		if int64(e.GetCandidateIndex()) >= int64(n) || e.GetText() == "" {
			return internal("explanations[%d]: candidate %d of %d, text of %d bytes", i, e.GetCandidateIndex(), n, len(e.GetText()))
		}
	}
	return nil
}

// abstainedAll reports whether no candidate got a score.
func abstainedAll(out *scorerv1.ScoreResponse) bool {
	return out.GetAbstainedOnAll() || len(out.GetScores()) <= len(out.GetAbstainedIndices())
}
