package requests

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pointsman/pointsman/internal/kit/parameters"
	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// Config is how figures are judged.
type Config struct {
	// Roster is followed.
	Roster *roster.Roster
	// StalenessLimit is the age above which figures that come with a request are not
	// believed. Those of the roster have its own limit, which should be the same.
	StalenessLimit time.Duration
	// Abstained, if set, is called with the number of candidates that were abstained
	// on, after a call in which there were any.
	Abstained func(scorerType string, reason scorerv1.AbstainReason, candidates int)
}

// Type is one scorer type. Safe for concurrent use.
type Type struct {
	cfg     Config
	info    *scorerv1.ScorerType
	figure  figure
	rating  rating
	scratch sync.Pool // of *columns
}

// rating is how a type turns counts into scores.
type rating interface {
	// parse reads the parameters of an instance.
	parse(parametersJSON []byte) (instance any, read *parameters.Reader)
	// rate fills in the scores of the candidates whose expected count is known, of
	// whom there is one at least, and returns how many requests make a point.
	rate(instance any, c *columns, scores []float32) (requestsPerPoint float32)
	// words says where the score of a candidate with a known count comes from.
	words(instance any, c *columns, i int, figure string) string
}

// figure is the count that a type goes by.
type figure struct {
	name   string // as in explanations
	column func(*roster.Snapshot) []int32
	listed func(*scorerv1.EndpointLoad) *uint32
}

// NewQueue returns queue-scorer: high where few requests wait.
func NewQueue(cfg Config) *Type {
	return newType(cfg, "queue-scorer", "High where few requests wait: (most − waiting) ÷ (most − fewest) over the candidates, with picks that the figures cannot include yet added; 1 for all if there is no difference. While only such picks differ, the width is at least 8.", comparison{}, figure{
		name:   "waiting",
		column: func(s *roster.Snapshot) []int32 { return s.Waiting },
		listed: func(l *scorerv1.EndpointLoad) *uint32 { return l.WaitingRequestCount },
	})
}

// NewRunning returns running-requests-size-scorer: high where few requests run.
func NewRunning(cfg Config) *Type {
	return newType(cfg, "running-requests-size-scorer", "High where few requests run: (most − running) ÷ (most − fewest) over the candidates, with picks that the figures cannot include yet added; 1 for all if there is no difference. While only such picks differ, the width is at least 8.", comparison{}, figure{
		name:   "running",
		column: func(s *roster.Snapshot) []int32 { return s.Running },
		listed: func(l *scorerv1.EndpointLoad) *uint32 { return l.RunningRequestCount },
	})
}

func newType(cfg Config, name, description string, r rating, f figure) *Type {
	t := &Type{cfg: cfg, figure: f, rating: r, info: &scorerv1.ScorerType{
		Name: name, Description: description,
		DefaultNeeds: &scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_LOAD}},
	}}
	t.scratch.New = func() any { return new(columns) }
	return t
}

// Info implements scorer.Type.
func (t *Type) Info() *scorerv1.ScorerType { return t.info }

// FollowsTables implements scorer.TableFollower.
func (t *Type) FollowsTables() bool { return true }

// IgnoresRequest implements scorer.RequestIgnorer.
func (t *Type) IgnoresRequest() bool { return true }

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
	if err := t.fill(c, req); err != nil {
		return err
	}
	out.AppliedOutcomeSequence = c.applied
	abstained := c.unknown + c.stale
	ok := abstained < len(c.expected)
	if ok {
		out.RequestsPerPoint = t.rating.rate(instance, c, scorer.Scores(out, len(c.expected)))
		out.StateAge = durationpb.New(c.oldest)
	} else {
		scorer.AbstainAll(out, c.reason())
	}
	if abstained > 0 {
		if ok {
			for i, e := range c.expected {
				if e < 0 {
					scorer.Abstain(out, i, c.reason())
				}
			}
		}
		if t.cfg.Abstained != nil {
			t.cfg.Abstained(t.info.GetName(), c.reason(), abstained)
		}
	}
	if req.GetExplain() {
		out.Explanations = t.explain(instance, c)
	}
	return nil
}
