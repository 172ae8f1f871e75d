package inflight

import (
	"context"
	"fmt"
	"sync"

	"github.com/pointsman/pointsman/internal/kit/parameters"
	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// Config is what a Type works with.
type Config struct {
	// Roster is followed.
	Roster *roster.Roster
	// Abstained, if set, is called with the number of candidates that were abstained
	// on, after a call in which there were any.
	Abstained func(scorerType string, reason scorerv1.AbstainReason, candidates int)
}

// Type is one scorer type. Safe for concurrent use.
type Type struct {
	cfg     Config
	info    *scorerv1.ScorerType
	measure measure
	rating  rating
	scratch sync.Pool // of *columns
}

// rating is how a type turns counts into scores.
type rating interface {
	// parse reads the parameters of an instance.
	parse(parametersJSON []byte) (instance any, read *parameters.Reader)
	// rate fills in the scores of the candidates whose count is known, of whom there
	// is one at least, and returns how many requests like this one make a point, 0 if
	// that cannot be said.
	rate(instance any, counts []int64, req *scorerv1.InferenceRequest, scores []float32) (requestsPerPoint float32)
	// byRequest says whether rate looks at the request.
	byRequest() bool
	// words says where the score of a known count comes from.
	words(instance any, count int64) string
}

func newType(cfg Config, name, description, schema string, m measure, r rating) *Type {
	t := &Type{cfg: cfg, measure: m, rating: r, info: &scorerv1.ScorerType{
		Name: name, Description: description, ParametersSchema: schema, DefaultNeeds: &scorerv1.InputNeeds{},
	}}
	t.scratch.New = func() any { return new(columns) }
	return t
}

// Info implements scorer.Type.
func (t *Type) Info() *scorerv1.ScorerType { return t.info }

// FollowsTables implements scorer.TableFollower.
func (t *Type) FollowsTables() bool { return true }

// IgnoresRequest implements scorer.RequestIgnorer.
func (t *Type) IgnoresRequest() bool { return !t.rating.byRequest() }

// Parse implements scorer.Type.
func (t *Type) Parse(parametersJSON []byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	instance, read := t.rating.parse(parametersJSON)
	return instance, nil, read.Faults()
}

// EffectiveParameters implements scorer.ParameterTeller.
func (t *Type) EffectiveParameters(parametersJSON []byte) []byte {
	_, read := t.rating.parse(parametersJSON)
	return read.Effective()
}

// Score implements scorer.Type.
func (t *Type) Score(_ context.Context, instance any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	c := t.scratch.Get().(*columns)
	defer t.scratch.Put(c)
	if err := c.fill(t.cfg.Roster, &t.measure, req); err != nil {
		return err
	}
	out.AppliedOutcomeSequence = c.applied
	const reason = scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT
	if c.abstained < len(c.counts) {
		scores := scorer.Scores(out, len(c.counts))
		out.RequestsPerPoint = t.rating.rate(instance, c.counts, req.GetRequest(), scores)
		if c.abstained > 0 {
			for i, n := range c.counts {
				if n < 0 {
					scorer.Abstain(out, i, reason)
				}
			}
		}
	} else {
		scorer.AbstainAll(out, reason)
	}
	if c.abstained > 0 && t.cfg.Abstained != nil {
		t.cfg.Abstained(t.info.GetName(), reason, c.abstained)
	}
	if req.GetExplain() {
		out.Explanations = t.explain(instance, c)
	}
	return nil
}

func (t *Type) explain(instance any, c *columns) []*scorerv1.Explanation {
	out := make([]*scorerv1.Explanation, len(c.counts))
	for i, n := range c.counts {
		text := "endpoint not in the pool"
		if n >= 0 {
			text = t.rating.words(instance, n)
		}
		out[i] = &scorerv1.Explanation{CandidateIndex: uint32(i), Text: text}
	}
	return out
}

// plural writes a count of things.
func plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
