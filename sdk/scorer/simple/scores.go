package simple

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// Abstain in place of a score is no opinion: the candidate then gets the mean of the
// others, so that it is neither preferred nor avoided.
const Abstain float32 = -1

// Reason says why there is no opinion.
type Reason = scorerv1.AbstainReason

// Reasons to abstain.
const (
	UnknownEndpoint = scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT // nothing is known of the endpoint yet
	NotApplicable   = scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE   // the request gives nothing to go by
	StaleState      = scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE      // what is known is too old
	OutOfTime       = scorerv1.AbstainReason_ABSTAIN_REASON_DEADLINE         // the time was over before
)

// Scores is one rating per candidate, in the order of the request.
type Scores struct {
	// Values go from 0, avoid, to 1, prefer, or are [Abstain]. Empty: no opinion at all.
	Values []float32
	// Reason says why, where there is no opinion. Default: UnknownEndpoint for some
	// candidates, NotApplicable for all.
	Reason Reason
	// StateAge is the age of the oldest thing known that went into the scores; 0 if
	// they rest on the request alone.
	StateAge time.Duration
	// Texts tell people why, a line each without user data; empty, or one per
	// candidate. They are only sent if Request.Explain is set.
	Texts []string
	// MatchedBlocks is how many leading blocks of Request.Prefix each candidate holds,
	// from scorers of prefixes; else nil.
	MatchedBlocks []uint32
	// RequestsPerPoint is how many more requests take a candidate's score from 1 to 0,
	// from scorers that count requests; else 0.
	RequestsPerPoint float32
}

// NewScores returns a score of 0 for each candidate.
func (r Request) NewScores() Scores { return Scores{Values: make([]float32, len(r.Candidates))} }

// AbstainOnAll returns no opinion.
func AbstainOnAll(why Reason) Scores { return Scores{Reason: why} }

// write puts the scores of n candidates into an answer, which is empty.
func (s Scores) write(out *scorerv1.ScoreResponse, n int, explain bool) error {
	if len(s.Values) != 0 && len(s.Values) != n {
		return fmt.Errorf("%d scores for %d candidates", len(s.Values), n)
	}
	if s.StateAge > 0 {
		out.StateAge = durationpb.New(s.StateAge)
	}
	for i, v := range s.Values {
		if v == Abstain {
			out.AbstainedIndices = append(out.AbstainedIndices, uint32(i))
			v = 0
		}
		out.Scores = append(out.Scores, v)
	}
	switch all := len(out.AbstainedIndices) == len(s.Values); {
	case all:
		out.Scores, out.AbstainedIndices, out.AbstainedOnAll = nil, nil, true
		out.AbstainReason = or(s.Reason, NotApplicable)
	case len(out.AbstainedIndices) > 0:
		out.AbstainReason = or(s.Reason, UnknownEndpoint)
	}
	out.MatchedBlockCounts = s.MatchedBlocks
	out.RequestsPerPoint = s.RequestsPerPoint
	if explain {
		for i, text := range s.Texts {
			if text != "" {
				out.Explanations = append(out.Explanations, &scorerv1.Explanation{CandidateIndex: uint32(i), Text: text})
			}
		}
	}
	return nil
}

func or(r, otherwise Reason) Reason {
	if r == scorerv1.AbstainReason_ABSTAIN_REASON_UNSPECIFIED {
		return otherwise
	}
	return r
}
