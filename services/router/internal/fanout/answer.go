package fanout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

const maxTextBytes = 512 // of one explanation; longer ones are cut

// Check holds an answer about n candidates against the contract and turns it into
// scores. What they hold is copied, into the room given for values and matched as far as it
// goes. It returns the rule that is broken, if any; the scores are then Failed and carry
// the reason.
func Check(resp *scorerv1.ScoreResponse, n int, e Expect, values []float32, matched []uint32) (route.Scores, Breach) {
	s := route.Scores{Verdict: route.Scored, StateAge: -1, RequestsPerPoint: float64(resp.GetRequestsPerPoint())}
	if d := resp.GetStateAge(); d != nil && d.IsValid() {
		s.StateAge = max(0, d.AsDuration())
	}
	if b := check(resp, n, e); b.Broken() {
		return route.Scores{Verdict: route.Failed, Reason: b.Reason, StateAge: -1}, b
	}
	if len(resp.MatchedBlockCounts) > 0 {
		s.Matched, s.BlockSize, s.Blocks = copied(matched, resp.MatchedBlockCounts), e.BlockSize, e.Blocks
	}
	s.Texts = texts(resp.Explanations, n)
	if resp.AbstainedOnAll || len(resp.AbstainedIndices) == n {
		s.Verdict, s.Reason = route.Abstained, abstainedWord(resp.AbstainReason)
		return s, Breach{}
	}
	s.Values = copied(values, resp.Scores)
	if len(resp.AbstainedIndices) > 0 {
		s.AbstainedOn, s.Reason = slices.Clone(resp.AbstainedIndices), abstainedWord(resp.AbstainReason)
		for _, i := range s.AbstainedOn {
			s.Values[i] = 0 // whatever stood there means nothing
		}
	}
	return s, Breach{}
}

// copied returns a copy of a column, in the room given as far as that goes.
func copied[T any](room, column []T) []T { return append(room[:0], column...) }

// check returns the first rule that the answer breaks.
func check(resp *scorerv1.ScoreResponse, n int, e Expect) Breach {
	if resp == nil {
		return Breach{"count", "the answer is empty"}
	}
	if b := checkAbstained(resp, n); b.Broken() {
		return b
	}
	none := resp.AbstainedOnAll || len(resp.AbstainedIndices) == n // may be left out
	switch got := len(resp.Scores); {
	case resp.AbstainedOnAll && got > 0:
		return Breach{"abstained", fmt.Sprintf("it abstained on every candidate and yet sent %d scores", got)}
	case none && got == 0:
	case got != n:
		return Breach{"count", fmt.Sprintf("%d scores for %d candidates", got, n)}
	}
	if !route.InRange(resp.Scores) {
		if b := checkScores(resp); b.Broken() {
			return b
		}
	}
	if per := resp.RequestsPerPoint; !(per >= 0) || per-per != 0 { // NaN is not >= 0 either
		return Breach{"requests_per_point", fmt.Sprintf("%v requests take a point, which is no finite number above 0", per)}
	}
	return checkMatched(resp.MatchedBlockCounts, n, e)
}

// checkScores looks at each score that an opinion stands behind.
func checkScores(resp *scorerv1.ScoreResponse) Breach {
	abstained := resp.AbstainedIndices
	for i, v := range resp.Scores {
		if len(abstained) > 0 && int(abstained[0]) == i {
			abstained = abstained[1:]
			continue
		}
		if v >= 0 && v <= 1 {
			continue
		}
		kind := "range"
		if v-v != 0 { // NaN or infinite
			kind = "not_finite"
		}
		return Breach{kind, fmt.Sprintf("the score of candidate %d is %v, not a number from 0 to 1", i, v)}
	}
	return Breach{}
}

func checkAbstained(resp *scorerv1.ScoreResponse, n int) Breach {
	last := -1
	for _, i := range resp.AbstainedIndices {
		switch {
		case int64(i) >= int64(n):
			return Breach{"abstained", fmt.Sprintf("it abstained on candidate %d of %d", i, n)}
		case int(i) <= last:
			return Breach{"abstained", fmt.Sprintf("abstained candidate %d comes after %d", i, last)}
		}
		last = int(i)
	}
	return Breach{}
}

func checkMatched(matched []uint32, n int, e Expect) Breach {
	if len(matched) != 0 && len(matched) != n {
		return Breach{"matched", fmt.Sprintf("%d matched block counts for %d candidates", len(matched), n)}
	}
	for i, m := range matched {
		if int64(m) > int64(e.Blocks) {
			return Breach{"matched", fmt.Sprintf("candidate %d is said to hold %d blocks of %d", i, m, e.Blocks)}
		}
	}
	return Breach{}
}

func abstainedWord(r scorerv1.AbstainReason) string {
	switch r {
	case scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT:
		return "it knows nothing about the endpoints yet"
	case scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE:
		return "the request gives it nothing to go by"
	case scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE:
		return "what it knows is too old"
	case scorerv1.AbstainReason_ABSTAIN_REASON_DEADLINE:
		return "it ran out of time"
	default:
		return "it gave no reason"
	}
}

// texts returns the explanations by candidate, nil if there are none. Words about
// candidates that do not exist are nobody's.
func texts(explanations []*scorerv1.Explanation, n int) map[uint32]string {
	if len(explanations) == 0 {
		return nil
	}
	m := make(map[uint32]string, min(len(explanations), n))
	for _, x := range explanations {
		if int64(x.GetCandidateIndex()) >= int64(n) {
			continue
		}
		text := x.GetText()
		if len(text) > maxTextBytes {
			text = text[:maxTextBytes] + "…"
		}
		text = strings.ToValidUTF8(text, "") // nobody has checked it, and it is encoded again
		m[x.GetCandidateIndex()] = text
	}
	return m
}

// refused is a call that came to nothing.
func refused(v route.Verdict, reason string, elapsed time.Duration) route.Scores {
	return route.Scores{Verdict: v, Reason: reason, StateAge: -1, Elapsed: elapsed}
}
