package session

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/parameters"
	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

const (
	typeName   = "session-affinity-scorer"
	headerKey  = "headerName"
	header     = "x-session-token"
	mostHeader = 64 // bytes of a header's name
	mostToken  = 1024
)

const schema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "headerName": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9_-]+$", "default": "x-session-token", "description": "Header of answers and requests that holds the token."}
  }
}`

// Config is what a Type works with.
type Config struct {
	// Pool is the pool whose tokens are understood.
	Pool string
	// Roster is followed, for tables.
	Roster *roster.Roster
	// Abstained, if set, is called with the number of candidates that were abstained
	// on, after a call in which there were any.
	Abstained func(scorerType string, reason scorerv1.AbstainReason, candidates int)
}

// Type is session-affinity-scorer. Safe for concurrent use.
type Type struct {
	cfg  Config
	info *scorerv1.ScorerType
}

// New returns the type.
func New(cfg Config) *Type {
	return &Type{cfg: cfg, info: &scorerv1.ScorerType{
		Name:        typeName,
		Description: "1 for the endpoint that answered the client before, 0 for all others, by the token that the router put into the header of that answer and the client sends back.", ParametersSchema: schema, DefaultNeeds: needs(header),
	}}
}

func needs(name string) *scorerv1.InputNeeds {
	return &scorerv1.InputNeeds{
		RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_REQUEST_HEADERS}, HeaderNames: []string{name}, SessionHeaderName: name,
	}
}

// Info implements scorer.Type.
func (t *Type) Info() *scorerv1.ScorerType { return t.info }

// FollowsTables implements scorer.TableFollower.
func (t *Type) FollowsTables() bool { return true }

// Parse implements scorer.Type. An instance is the header's name.
func (t *Type) Parse(parametersJSON []byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	name, read := parse(parametersJSON)
	return name, needs(name), read.Faults()
}

// EffectiveParameters implements scorer.ParameterTeller.
func (t *Type) EffectiveParameters(parametersJSON []byte) []byte {
	_, read := parse(parametersJSON)
	return read.Effective()
}

func parse(parametersJSON []byte) (name string, r *parameters.Reader) {
	r = parameters.Read(parametersJSON, headerKey)
	name = strings.ToLower(r.Text(headerKey, header))
	if len(name) > mostHeader || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		r.Fault(headerKey, "must be 1 to %d letters, digits, - and _", mostHeader)
	}
	r.InEffect(headerKey, name)
	return name, r
}

// Score implements scorer.Type.
func (t *Type) Score(_ context.Context, instance any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	if p := req.GetPending(); p != nil {
		out.AppliedOutcomeSequence = t.cfg.Roster.AppliedSequence(p.GetRouterId())
	}
	endpoint := t.wanted(instance.(string), req.GetRequest())
	n, at, err := t.find(endpoint, req)
	if err != nil {
		return err
	}
	text := "another endpoint answered before"
	switch {
	case at >= 0:
		scorer.Scores(out, n)[at] = 1
	case endpoint == "":
		text = "the request has no token of this pool"
	default:
		text = "the endpoint that answered before is no candidate"
	}
	if at < 0 {
		const reason = scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE
		scorer.AbstainAll(out, reason)
		if t.cfg.Abstained != nil {
			t.cfg.Abstained(typeName, reason, n)
		}
	}
	if req.GetExplain() {
		out.Explanations = make([]*scorerv1.Explanation, n)
		for i := range out.Explanations {
			out.Explanations[i] = &scorerv1.Explanation{CandidateIndex: uint32(i), Text: text}
		}
		if at >= 0 {
			out.Explanations[at].Text = "the endpoint that answered before"
		}
	}
	return nil
}

// wanted returns the endpoint that the request's token names; empty if none does.
func (t *Type) wanted(name string, req *scorerv1.InferenceRequest) string {
	for _, h := range req.GetHeaders() {
		if h.GetName() != name || len(h.GetValue()) > mostToken {
			continue
		}
		text, err := base64.StdEncoding.DecodeString(h.GetValue())
		if err != nil {
			return ""
		}
		id, ours := strings.CutPrefix(string(text), t.cfg.Pool+"/")
		if !ours {
			return ""
		}
		return id
	}
	return ""
}

// find returns how many candidates there are, and which of them is the endpoint, −1 if
// none is.
func (t *Type) find(endpoint string, req *scorerv1.ScoreRequest) (n, at int, err error) {
	ref := req.GetTable()
	if ref == nil {
		list := req.GetListed().GetCandidates()
		at = slices.IndexFunc(list, func(c *scorerv1.Candidate) bool { return endpoint != "" && c.GetEndpointId() == endpoint })
		return len(list), at, nil
	}
	snapshot, ok := t.cfg.Roster.SnapshotOf(ref.GetTableDigest())
	if !ok {
		return 0, -1, scorer.TableNotHeld(ref.GetTableDigest())
	}
	positions := ref.GetPositions()
	if n = len(positions); n > 0 && int(positions[n-1]) >= snapshot.Len() {
		return n, -1, scorer.InvalidRequest("table.positions: %d is not in the table, which has %d endpoints", positions[n-1], snapshot.Len())
	}
	at, known := snapshot.Table.Position(roster.ID(endpoint))
	if n == 0 {
		n = snapshot.Len()
	} else if known {
		at, known = slices.BinarySearch(positions, uint32(at))
	}
	if !known || endpoint == "" {
		at = -1
	}
	return n, at, nil
}
