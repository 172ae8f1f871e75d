package simple

import (
	"context"
	"encoding/json"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// Scorer rates candidates. It is called from many goroutines at once.
type Scorer interface {
	// Score returns one score per candidate. ctx ends when the router waits no longer:
	// a Scorer that cannot rate everybody by then abstains on the rest.
	//
	// Errors made by scorer.Overloaded and scorer.Unavailable mean what they say; all
	// others are faults of the scorer, whose text reaches the operator and must hold no
	// user data.
	Score(ctx context.Context, r Request) (Scores, error)
}

// Effective is implemented by a Scorer that tells its parameters, so that an operator
// can be shown which defaults hold.
type Effective interface {
	// Parameters returns what Type.New has read, defaults filled in, to be written as a
	// JSON object that New reads alike.
	Parameters() any
}

// Func is a Scorer of a function alone.
type Func func(ctx context.Context, r Request) (Scores, error)

// Score calls f.
func (f Func) Score(ctx context.Context, r Request) (Scores, error) { return f(ctx, r) }

// Type is one kind of scorer, as a configuration names it.
type Type struct {
	// Name is at most 63 of [a-z0-9-], beginning and ending with a letter or digit.
	Name string
	// Aliases are further names under which it may be configured.
	Aliases []string
	// Description says in one sentence what makes a score high.
	Description string
	// ParametersSchema is a JSON Schema of the parameters; empty if it takes none.
	ParametersSchema string
	// Needs is what it must be given.
	Needs Needs
	// New makes a Scorer of parameters as they stand in a configuration, a JSON object
	// or nothing; [Decode] reads them. It is called about once for the same bytes. An
	// error refuses the configuration: a [Fault] names the key, and several are joined
	// by errors.Join. Nil: see Scorer.
	New func(parametersJSON []byte) (Scorer, error)
	// Scorer is used in place of New by a type that takes no parameters.
	Scorer Scorer
}

// Needs is what a type must be given. Each input costs something, so none is sent that
// was not asked for.
type Needs struct {
	// Load, Labels and Adapters are of the candidates.
	Load, Labels, Adapters bool
	// Headers are the lower-case names of request headers.
	Headers []string
	// PromptText must also be allowed by the operator.
	PromptText bool
	// PrefixBlockBytes is the size of prefix blocks in bytes of prompt; 0 for none.
	PrefixBlockBytes int
	// MaxPrefixBlocks is the most that are looked at; 0 for as many as there are.
	MaxPrefixBlocks int
}

func (n Needs) message() *scorerv1.InputNeeds {
	m := &scorerv1.InputNeeds{HeaderNames: n.Headers}
	for _, in := range []struct {
		needed bool
		input  scorerv1.Input
	}{
		{n.Load, scorerv1.Input_INPUT_LOAD},
		{n.Labels, scorerv1.Input_INPUT_LABELS},
		{n.Adapters, scorerv1.Input_INPUT_ADAPTERS},
		{len(n.Headers) > 0, scorerv1.Input_INPUT_REQUEST_HEADERS},
		{n.PromptText, scorerv1.Input_INPUT_PROMPT_TEXT},
		{n.PrefixBlockBytes > 0, scorerv1.Input_INPUT_PREFIX_BLOCKS},
	} {
		if in.needed {
			m.RequiredInputs = append(m.RequiredInputs, in.input)
		}
	}
	if n.PrefixBlockBytes > 0 {
		m.PrefixBlockSizeBytes = uint32(n.PrefixBlockBytes) //nolint:gosec // a size
		m.MaxPrefixBlocks = uint32(max(n.MaxPrefixBlocks, 0))
	}
	return m
}

// Build turns t into a Type of package scorer.
func (t Type) Build() scorer.Type { return built{t} }

// built is a Type seen through the other door.
type built struct{ t Type }

func (b built) Info() *scorerv1.ScorerType {
	return &scorerv1.ScorerType{
		Name: b.t.Name, Aliases: b.t.Aliases, Description: b.t.Description, ParametersSchema: b.t.ParametersSchema, DefaultNeeds: b.t.Needs.message(),
	}
}

func (b built) Parse(parametersJSON []byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	s, err := b.make(parametersJSON)
	if err != nil {
		return nil, nil, faults(err)
	}
	return s, nil, nil
}

// EffectiveParameters is optional in package scorer.
func (b built) EffectiveParameters(parametersJSON []byte) []byte {
	if b.t.New == nil {
		return []byte("{}")
	}
	s, err := b.t.New(parametersJSON)
	if err != nil {
		return nil
	}
	e, ok := s.(Effective)
	if !ok {
		return nil
	}
	text, err := json.Marshal(e.Parameters())
	if err != nil {
		return nil // it does not tell, then
	}
	return text
}

func (b built) make(parametersJSON []byte) (Scorer, error) {
	if b.t.New != nil {
		return b.t.New(parametersJSON)
	}
	return b.t.Scorer, Decode(parametersJSON, &struct{}{})
}

func (b built) Score(ctx context.Context, instance any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	r := NewRequest(req)
	s, err := instance.(Scorer).Score(ctx, r)
	if err != nil {
		return err
	}
	return s.write(out, len(r.Candidates), r.Explain)
}
