package length

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pointsman/pointsman/internal/kit/parameters"
	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

const typeName = "context-length-aware"

const schema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "label": {"type": "string", "minLength": 1, "default": "llm-d.ai/context-length-range", "description": "The label that holds the range, as min-max in tokens."},
    "enableFiltering": {"type": "boolean", "default": false, "description": "Whether the router also drops endpoints whose range does not fit."}
  }
}`

// Config is what a Type works with.
type Config struct {
	// Roster is followed, for tables.
	Roster *roster.Roster
	// Abstained, if set, is called with the number of candidates that were abstained
	// on, after a call in which there were any.
	Abstained func(scorerType string, reason scorerv1.AbstainReason, candidates int)
}

// Type is context-length-aware. Safe for concurrent use.
type Type struct {
	cfg     Config
	info    *scorerv1.ScorerType
	scratch sync.Pool // of *[]span
}

// instance is parameters in use.
type instance struct {
	label string
	read  atomic.Pointer[column] // of the table that was last asked about
}

// column is the ranges of a table's endpoints, in table order. Immutable.
type column struct {
	table *roster.Table
	spans []span
}

// New returns the type.
func New(cfg Config) *Type {
	t := &Type{cfg: cfg, info: &scorerv1.ScorerType{
		Name: typeName, Description: "In the range min-max of the label 0.3 + 0.7 × (0.7/(1 + width/10000) + 0.3 × headroom/width); outside 0.3/(1 + distance/1000); without the label 0.5; no range 0.", ParametersSchema: schema,
		DefaultNeeds: &scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_LABELS}},
	}}
	t.scratch.New = func() any { return new([]span) }
	return t
}

// Info implements scorer.Type.
func (t *Type) Info() *scorerv1.ScorerType { return t.info }

// FollowsTables implements scorer.TableFollower.
func (t *Type) FollowsTables() bool { return true }

// Parse implements scorer.Type.
func (t *Type) Parse(parametersJSON []byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	label, read := parse(parametersJSON)
	return &instance{label: label}, nil, read.Faults()
}

// EffectiveParameters implements scorer.ParameterTeller.
func (t *Type) EffectiveParameters(parametersJSON []byte) []byte {
	_, read := parse(parametersJSON)
	return read.Effective()
}

func parse(parametersJSON []byte) (label string, r *parameters.Reader) {
	r = parameters.Read(parametersJSON, "label", "enableFiltering")
	label = r.Text("label", "llm-d.ai/context-length-range")
	r.Flag("enableFiltering", false)
	if label == "" {
		r.Fault("label", "must not be empty: it names the label that holds the range")
	}
	return label, r
}

// Score implements scorer.Type.
func (t *Type) Score(_ context.Context, v any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	in := v.(*instance)
	scratch := t.scratch.Get().(*[]span)
	defer t.scratch.Put(scratch)
	spans, strangers, err := in.spans((*scratch)[:0], t.cfg.Roster, req)
	if err != nil {
		return err
	}
	*scratch = spans[:0]
	if p := req.GetPending(); p != nil {
		out.AppliedOutcomeSequence = t.cfg.Roster.AppliedSequence(p.GetRouterId())
	}
	const unknown = scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT
	switch tokens := req.GetRequest().PromptTokenCount; {
	case tokens == nil:
		t.abstainAll(out, scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE, len(spans))
	case len(strangers) == len(spans):
		t.abstainAll(out, unknown, len(spans))
	default:
		scores := scorer.Scores(out, len(spans))
		for i, s := range spans {
			scores[i] = s.score(*tokens)
		}
		for _, i := range strangers {
			scores[i] = 0
			scorer.Abstain(out, i, unknown)
		}
		t.report(unknown, len(strangers))
	}
	if req.GetExplain() {
		out.Explanations = explain(spans, strangers, req.GetRequest())
	}
	return nil
}

func (t *Type) abstainAll(out *scorerv1.ScoreResponse, reason scorerv1.AbstainReason, n int) {
	scorer.AbstainAll(out, reason)
	t.report(reason, n)
}

func (t *Type) report(reason scorerv1.AbstainReason, n int) {
	if n > 0 && t.cfg.Abstained != nil {
		t.cfg.Abstained(typeName, reason, n)
	}
}

// spans appends the candidates' ranges. strangers are the indices of those that
// nothing is known of, ascending.
func (in *instance) spans(spans []span, r *roster.Roster, req *scorerv1.ScoreRequest) (all []span, strangers []int, err error) {
	ref := req.GetTable()
	if ref == nil {
		all, strangers = in.listed(spans, r.Snapshot().Table, req.GetListed().GetCandidates())
		return all, strangers, nil
	}
	snapshot, ok := r.SnapshotOf(ref.GetTableDigest())
	if !ok {
		return spans, nil, scorer.TableNotHeld(ref.GetTableDigest())
	}
	column := in.column(snapshot.Table)
	positions := ref.GetPositions()
	if len(positions) == 0 {
		return append(spans, column...), nil, nil
	}
	if last := positions[len(positions)-1]; int(last) >= len(column) {
		return spans, nil, scorer.InvalidRequest("table.positions: %d is not in the table, which has %d endpoints", last, len(column))
	}
	for _, p := range positions {
		spans = append(spans, column[p])
	}
	return spans, nil, nil
}

// column reads the labels of a table, once for as long as it is the one asked about.
func (in *instance) column(table *roster.Table) []span {
	if c := in.read.Load(); c != nil && c.table == table {
		return c.spans
	}
	c := &column{table: table, spans: make([]span, table.Len())}
	for i := range table.Endpoints {
		c.spans[i] = read(table.Endpoints[i].Label(in.label))
	}
	in.read.Store(c)
	return c.spans
}

func (in *instance) listed(spans []span, table *roster.Table, candidates []*scorerv1.Candidate) (all []span, strangers []int) {
	for i, l := range candidates {
		at := slices.IndexFunc(l.GetLabels(), func(l *scorerv1.Label) bool { return l.GetName() == in.label })
		pos, known := table.Position(roster.ID(l.GetEndpointId()))
		switch {
		case at >= 0:
			spans = append(spans, read(l.GetLabels()[at].GetValue(), true))
		case known:
			spans = append(spans, read(table.Endpoints[pos].Label(in.label)))
		default:
			spans = append(spans, span{})
			if len(l.GetLabels()) == 0 {
				strangers = append(strangers, i)
			}
		}
	}
	return spans, strangers
}

// explain says in words where the scores come from, as in "500 tokens in 0–2000".
func explain(spans []span, strangers []int, req *scorerv1.InferenceRequest) []*scorerv1.Explanation {
	out := make([]*scorerv1.Explanation, len(spans))
	tokens := req.GetPromptTokenCount()
	for i, s := range spans {
		var text string
		switch {
		case req.PromptTokenCount == nil:
			text = "length of the prompt not known"
		case slices.Contains(strangers, i):
			text = "endpoint not in the pool"
		case s.kind == missing:
			text = "no label"
		case s.kind == bad:
			text = "label is no range"
		case tokens < s.least || tokens > s.most:
			text = fmt.Sprintf("%d tokens outside of %d–%d", tokens, s.least, s.most)
		default:
			text = fmt.Sprintf("%d tokens in %d–%d", tokens, s.least, s.most)
		}
		out[i] = &scorerv1.Explanation{CandidateIndex: uint32(i), Text: text}
	}
	return out
}
