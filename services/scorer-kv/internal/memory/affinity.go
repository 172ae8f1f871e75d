package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pointsman/pointsman/internal/kit/parameters"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/services/scorer-kv/internal/formula"
)

// Affinity is lora-affinity-scorer: high where the request's LoRA adapter is loaded or
// can be. Safe for concurrent use.
type Affinity struct {
	cfg     Config
	info    *scorerv1.ScorerType
	scratch sync.Pool // of *affinityColumns
}

// affinityColumns is what is known of the candidates of one call, in columns.
type affinityColumns struct {
	candidates
	adapters []formula.Adapters
	known    []bool
	rated    []bool
	ages     []time.Duration
	verdicts abstentions
}

// NewAffinity returns the type.
func NewAffinity(cfg Config) *Affinity {
	t := &Affinity{cfg: cfg, info: &scorerv1.ScorerType{
		Name:         "lora-affinity-scorer",
		Description:  "High where the request's LoRA adapter runs (1), fits (0.8) or is waited for (0.6).",
		DefaultNeeds: &scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_ADAPTERS}},
	}}
	t.scratch.New = func() any { return new(affinityColumns) }
	return t
}

// Info implements scorer.Type.
func (t *Affinity) Info() *scorerv1.ScorerType { return t.info }

// FollowsTables implements scorer.TableFollower.
func (t *Affinity) FollowsTables() bool { return true }

// Parse implements scorer.Type. There are no parameters.
func (t *Affinity) Parse(parametersJSON []byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	return nil, nil, parameters.Read(parametersJSON).Faults()
}

// EffectiveParameters implements scorer.ParameterTeller.
func (t *Affinity) EffectiveParameters(parametersJSON []byte) []byte {
	return parameters.Read(parametersJSON).Effective()
}

// adapterOf returns the adapter that a request is for; empty if it names none.
func adapterOf(r *scorerv1.InferenceRequest) string {
	if r.GetAdapter() != "" {
		return r.GetAdapter()
	}
	return r.GetModel()
}

// Score implements scorer.Type.
func (t *Affinity) Score(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	c := t.scratch.Get().(*affinityColumns)
	defer func() {
		c.release()
		clear(c.adapters)
		t.scratch.Put(c)
	}()
	if err := c.resolve(t.cfg.Roster, req); err != nil {
		return err
	}
	if p := req.GetPending(); p != nil {
		out.AppliedOutcomeSequence = t.cfg.Roster.AppliedSequence(p.GetRouterId())
	}
	adapter := adapterOf(req.GetRequest())
	if adapter == "" {
		t.abstainAll(out, scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE, len(c.at))
		return nil
	}
	t.fill(c)
	t.rate(c, adapter, out)
	if req.GetExplain() {
		out.Explanations = c.explain(adapter)
	}
	return nil
}

func (t *Affinity) abstainAll(out *scorerv1.ScoreResponse, reason scorerv1.AbstainReason, n int) {
	scorer.AbstainAll(out, reason)
	t.report(reason, n)
}

func (t *Affinity) report(reason scorerv1.AbstainReason, n int) {
	if n > 0 && t.cfg.Abstained != nil {
		t.cfg.Abstained(t.info.GetName(), reason, n)
	}
}

// fill notes what is known of each candidate.
func (t *Affinity) fill(c *affinityColumns) {
	n := len(c.at)
	c.adapters = slices.Grow(c.adapters[:0], n)[:n]
	c.known = slices.Grow(c.known[:0], n)[:n]
	c.rated = slices.Grow(c.rated[:0], n)[:n]
	c.ages = slices.Grow(c.ages[:0], n)[:n]
	c.verdicts = abstentions{}
	for i, pos := range c.at {
		c.known[i], c.ages[i] = false, -1
		fresh := false
		if a := c.sentAdapters(i); a != nil {
			c.adapters[i] = formula.Adapters{Running: a.GetRunning(), Waiting: a.GetWaiting(), Max: a.GetMaxCount()}
			c.known[i], c.ages[i] = true, sent(c.load(i))
			fresh = c.ages[i] <= t.cfg.StalenessLimit
		} else if pos >= 0 {
			if a := c.snapshot.Adapters[pos]; a != nil {
				c.adapters[i], c.known[i] = formula.Adapters{Running: a.Running, Waiting: a.Waiting, Max: a.Max}, true
			}
			c.ages[i], fresh = c.snapshot.Age(int(pos), c.now), c.snapshot.Fresh(int(pos), c.now)
		}
		c.rated[i] = c.verdicts.judge(c.known[i], fresh, c.ages[i])
	}
}

// sentAdapters returns the adapters that came with a candidate; nil if none did.
func (c *affinityColumns) sentAdapters(i int) *scorerv1.Adapters {
	if c.listed == nil {
		return nil
	}
	return c.listed[i].GetAdapters()
}

// rate fills in the answer.
func (t *Affinity) rate(c *affinityColumns, adapter string, out *scorerv1.ScoreResponse) {
	v := &c.verdicts
	if v.count() == len(c.at) {
		t.abstainAll(out, v.reason(), len(c.at))
		return
	}
	t.report(v.reason(), v.count())
	scores := scorer.Scores(out, len(c.at))
	for i := range scores {
		if c.rated[i] {
			scores[i] = c.adapters[i].Place(adapter).Score()
		} else {
			scorer.Abstain(out, i, v.reason())
		}
	}
	out.StateAge = durationpb.New(v.oldest)
}

// explain says in words where the scores come from. The adapter's name is the
// client's, so it is left out.
func (c *affinityColumns) explain(adapter string) []*scorerv1.Explanation {
	out := make([]*scorerv1.Explanation, len(c.at))
	for i := range c.at {
		var text string
		switch a := &c.adapters[i]; {
		case !c.known[i]:
			text = "adapters not known"
		case !c.rated[i]:
			text = fmt.Sprintf("figures are %s old", c.ages[i].Round(100*time.Millisecond))
		default:
			what := [...]string{formula.Full: "not loaded", formula.Waits: "waited for", formula.Fits: "fits", formula.Running: "running"}[a.Place(adapter)]
			text = fmt.Sprintf("adapter %s, %d of %d slots taken", what, a.Taken(), a.Max)
		}
		out[i] = &scorerv1.Explanation{CandidateIndex: uint32(i), Text: text}
	}
	return out
}
