package scorer

import (
	"context"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// Type is one kind of scorer, such as queue-scorer. Its methods are called from
// many goroutines at once.
type Type interface {
	// Info describes the type. It is called once.
	Info() *scorerv1.ScorerType

	// Parse makes an instance of parameters as they stand in a configuration: a
	// JSON object, or nothing. It is called about once for the same bytes, and
	// instance is handed to every Score with them. Any fault refuses the
	// parameters. If needs is nil, Info's default needs hold.
	Parse(parametersJSON []byte) (instance any, needs *scorerv1.InputNeeds, faults []*scorerv1.ParameterFault)

	// Score rates the candidates of req and writes the answer into out, which is
	// empty. [Scores] gives it a vector without allocating.
	//
	// req is valid. Its candidates are listed, unless the type is a
	// [TableFollower]. req and out are used again after the return: Score must
	// neither keep nor change req. ctx carries the deadline; a type that cannot
	// rate all candidates in time abstains on the rest.
	//
	// Errors made by [InvalidRequest], [TableNotHeld], [Overloaded] and
	// [Unavailable] reach the router as the contract says, errors of ctx and gRPC
	// statuses as what they are, and all others as INTERNAL with their text, which
	// must hold no user data.
	Score(ctx context.Context, instance any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error
}

// TableFollower is implemented by a Type that follows the broadcast, so that it
// can resolve table references itself. It is given them as they came, positions
// ascending, and must check that the positions are within the table, with
// [InvalidRequest]. If it does not hold the table it returns [TableNotHeld]; on a
// stream it is then called again with the same candidates listed, as the router
// has taught them. It must therefore understand listed candidates too, by their
// ids.
type TableFollower interface {
	FollowsTables() bool
}

// RequestIgnorer is implemented by a Type whose answers do not depend on the request that
// is to be routed, but on parameters, candidates, pending picks and what the type knows. Calls
// of one batch that have those in common are then answered by one Score.
type RequestIgnorer interface {
	IgnoresRequest() bool
}

// ParameterTeller is implemented by a Type that tells what parameters come to, so that
// configurations can be shown with nothing left out.
type ParameterTeller interface {
	// EffectiveParameters returns parameters, in which Parse found no fault, with the
	// defaults filled in and keys spelt as in Info's schema: a JSON object of which
	// Parse makes the same instance, and EffectiveParameters the same object. It is
	// called when parameters are validated, not for scores. Nil: it does not tell.
	EffectiveParameters(parametersJSON []byte) []byte
}

// Scores gives out a vector of n scores, all 0, and returns it to be filled in.
func Scores(out *scorerv1.ScoreResponse, n int) []float32 {
	out.Scores = zeroed(out.Scores, n)
	return out.Scores
}

// MatchedBlocks gives out a vector of n matched block counts, all 0, and returns
// it to be filled in.
func MatchedBlocks(out *scorerv1.ScoreResponse, n int) []uint32 {
	out.MatchedBlockCounts = zeroed(out.MatchedBlockCounts, n)
	return out.MatchedBlockCounts
}

// AbstainAll makes out an abstention on every candidate.
func AbstainAll(out *scorerv1.ScoreResponse, reason scorerv1.AbstainReason) {
	out.Scores = out.Scores[:0]
	out.AbstainedIndices = out.AbstainedIndices[:0]
	out.AbstainedOnAll = true
	out.AbstainReason = reason
}

// Abstain adds an abstention on candidate i, which must be above those before.
func Abstain(out *scorerv1.ScoreResponse, i int, reason scorerv1.AbstainReason) {
	out.AbstainedIndices = append(out.AbstainedIndices, uint32(i))
	out.AbstainReason = reason
}

func zeroed[T float32 | uint32](v []T, n int) []T {
	if cap(v) < n {
		return make([]T, n)
	}
	v = v[:n]
	clear(v)
	return v
}

// empty clears out and keeps the room it has.
func empty(out *scorerv1.ScoreResponse) {
	out.Scores = out.Scores[:0]
	out.AbstainedIndices = out.AbstainedIndices[:0]
	out.AbstainReason = scorerv1.AbstainReason_ABSTAIN_REASON_UNSPECIFIED
	out.AbstainedOnAll = false
	out.StateAge = nil
	out.MatchedBlockCounts = out.MatchedBlockCounts[:0]
	out.AppliedOutcomeSequence = 0
	out.RequestsPerPoint = 0
	out.Explanations = nil
}
