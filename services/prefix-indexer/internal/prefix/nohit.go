package prefix

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/pointsman/pointsman/internal/kit/parameters"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/recency"
)

const noHitName = "no-hit-lru-scorer"

// noHitSchema is the schema of prefix-cache-scorer and what this type takes besides.
func noHitSchema() string {
	return strings.Replace(schema, `"properties": {`, `"properties": {
    "lruSize": {"type": "integer", "minimum": 1, "maximum": 1048576, "default": 1024, "description": "Endpoints of which it is remembered when they were last given a cold prompt."},
    "prefixPluginType": {"type": "string", "description": "Accepted and without effect: it looks into the index itself."},
    "prefixPluginName": {"type": "string", "description": "Accepted and without effect: it looks into the index itself."},`, 1)
}

// NoHit is no-hit-lru-scorer: it spreads cold prompts, those of which no candidate
// holds anything, so that every endpoint's cache comes to hold different ones.
//
// If any candidate holds something, all have 0.5. Else the candidates are ranked by
// when they were last given a cold prompt, those that never were first and the least
// recent before the others, and the one at place i of n has 1 − i/(n−1); a single one
// has 1. Equals go by id. A prompt without blocks, such as one shorter than a block,
// is abstained on: it does not matter to a cache where it goes.
//
// When an endpoint was given a cold prompt is known from the broadcast, so that
// replicas agree. Until it has come, the asking router's newest picks count as cold.
type NoHit struct {
	prefixes *Type
	order    *recency.Order
	info     *scorerv1.ScorerType
	scratch  sync.Pool // of *ranking
}

// noHit is parameters in use.
type noHit struct {
	instance
	size int // endpoints remembered
}

// ranking is the candidates of one cold call. It is used again for other calls.
type ranking struct {
	candidates
	ids   []string
	times []uint64
	order []int32
}

// NewNoHit returns the type. order is told of every cold prompt.
func NewNoHit(cfg Config, order *recency.Order) *NoHit {
	cfg.Matched, cfg.Mismatched = nil, nil // prefix-cache-scorer tells
	defaults := DefaultSettings()
	t := &NoHit{prefixes: New(cfg), order: order, info: &scorerv1.ScorerType{
		Name:             noHitName,
		Description:      "For a prompt of which no candidate has anything cached: 1 − i/(n−1) for place i of n, in the order in which endpoints were last given such a prompt, never before long ago before lately; 0.5 for everybody otherwise.",
		ParametersSchema: noHitSchema(),
		DefaultNeeds:     defaults.needs(),
	}}
	t.scratch.New = func() any { return new(ranking) }
	return t
}

// Info implements scorer.Type.
func (t *NoHit) Info() *scorerv1.ScorerType { return t.info }

// FollowsTables implements scorer.TableFollower.
func (t *NoHit) FollowsTables() bool { return true }

// Parse implements scorer.Type.
func (t *NoHit) Parse(parametersJSON []byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	in, read := parseNoHit(parametersJSON)
	return in, in.needs(), read.Faults()
}

// EffectiveParameters implements scorer.ParameterTeller.
func (t *NoHit) EffectiveParameters(parametersJSON []byte) []byte {
	_, read := parseNoHit(parametersJSON)
	return read.Effective()
}

func parseNoHit(parametersJSON []byte) (*noHit, *parameters.Reader) {
	r := parameters.Read(parametersJSON, append(keys[:], "lruSize", "prefixPluginType", "prefixPluginName")...)
	in := &noHit{instance: instance{Settings: readSettings(r)}, size: int(r.Whole("lruSize", 1024, 1, 1<<20))}
	r.Text("prefixPluginType", "")
	r.Text("prefixPluginName", "")
	return in, r
}

// Score implements scorer.Type.
func (t *NoHit) Score(ctx context.Context, v any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	in := v.(*noHit)
	c := t.scratch.Get().(*ranking)
	defer t.scratch.Put(c)
	if err := t.prefixes.resolve(&c.candidates, req); err != nil {
		return err
	}
	n := len(c.ordinals)
	pending, applied := req.GetPending(), uint64(0)
	if pending != nil {
		applied = t.prefixes.cfg.Roster.AppliedSequence(pending.GetRouterId())
		out.AppliedOutcomeSequence = applied
	}
	blocks := req.GetRequest().GetPrefix()
	hashes, size := blocks.GetHashes(), blocks.GetBlockSizeBytes()
	if len(hashes) == 0 || !in.fits(size) {
		t.abstainAll(out, scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE, n)
		return nil
	}
	in.hold(&t.prefixes.cfg, size)
	matched := scorer.MatchedBlocks(out, n)
	hashes = hashes[:min(len(hashes), in.limit(size))]
	t.prefixes.cfg.match(ctx, index.Key{Scheme: blocks.GetScheme(), BlockSize: size}, hashes, c.ordinals, matched)
	strangers := 0
	for i := range c.ordinals {
		if c.stranger(i) {
			strangers++
		}
	}
	if strangers == n {
		t.abstainAll(out, scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT, n)
		return nil
	}
	scores := scorer.Scores(out, n)
	warm := slices.ContainsFunc(matched, func(m uint32) bool { return m > 0 })
	if warm {
		for i := range scores {
			scores[i] = .5
		}
	} else {
		t.rank(c, in.size, req, pending, applied)
		c.place(n-strangers, scores)
	}
	t.abstainOn(c, strangers, scores, out)
	if req.GetExplain() {
		out.Explanations = c.explain(warm)
	}
	return nil
}

func (t *NoHit) abstainAll(out *scorerv1.ScoreResponse, reason scorerv1.AbstainReason, n int) {
	scorer.AbstainAll(out, reason)
	t.report(reason, n)
}

func (t *NoHit) report(reason scorerv1.AbstainReason, n int) {
	if n > 0 && t.prefixes.cfg.Abstained != nil {
		t.prefixes.cfg.Abstained(noHitName, reason, n)
	}
}

func (t *NoHit) abstainOn(c *ranking, strangers int, scores []float32, out *scorerv1.ScoreResponse) {
	if strangers == 0 {
		return
	}
	const reason = scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT
	for i := range c.ordinals {
		if c.stranger(i) {
			scores[i] = 0
			scorer.Abstain(out, i, reason)
		}
	}
	t.report(reason, strangers)
}

// rank orders the candidates, the least recently used first.
func (t *NoHit) rank(c *ranking, size int, req *scorerv1.ScoreRequest, pending *scorerv1.PendingPicks, applied uint64) {
	c.name(t, req)
	c.times = t.order.Ranks(c.times[:0], size, slices.Values(c.ids))
	for i, sequence := range pending.GetSequences() {
		if sequence <= applied {
			continue
		}
		at, among := int(pending.GetPositions()[i]), true
		if positions := req.GetTable().GetPositions(); len(positions) > 0 {
			at, among = slices.BinarySearch(positions, pending.GetPositions()[i])
		}
		if among && at < len(c.times) {
			c.times[at] = max(c.times[at], math.MaxUint64-uint64(i)) // after all that is known; the newest come first
		}
	}
	c.order = c.order[:0]
	for i := range c.ordinals {
		if !c.stranger(i) {
			c.order = append(c.order, int32(i))
		}
	}
	slices.SortFunc(c.order, func(a, b int32) int {
		if d := cmp.Compare(c.times[a], c.times[b]); d != 0 {
			return d
		}
		return cmp.Compare(c.ids[a], c.ids[b])
	})
}

// name fills in the candidates' ids.
func (c *ranking) name(t *NoHit, req *scorerv1.ScoreRequest) {
	c.ids = c.ids[:0]
	ref := req.GetTable()
	if ref == nil {
		for _, l := range req.GetListed().GetCandidates() {
			c.ids = append(c.ids, l.GetEndpointId())
		}
		return
	}
	snapshot, ok := t.prefixes.cfg.Roster.SnapshotOf(ref.GetTableDigest())
	if !ok { // it was there when the candidates were resolved
		c.ids = append(c.ids, make([]string, len(c.ordinals))...)
		return
	}
	endpoints := snapshot.Table.Endpoints
	if len(ref.GetPositions()) == 0 {
		for i := range endpoints {
			c.ids = append(c.ids, string(endpoints[i].ID))
		}
		return
	}
	for _, p := range ref.GetPositions() {
		c.ids = append(c.ids, string(endpoints[p].ID))
	}
}

// place scores n candidates by their place.
func (c *ranking) place(n int, scores []float32) {
	for place, i := range c.order {
		scores[i] = 1
		if n > 1 {
			scores[i] = float32(1 - float64(place)/float64(n-1))
		}
	}
}

// explain says in words where the scores come from.
func (c *ranking) explain(warm bool) []*scorerv1.Explanation {
	out := make([]*scorerv1.Explanation, len(c.ordinals))
	for i := range out {
		text := "somebody has some of the prompt cached"
		if !warm {
			text = "endpoint not in the pool"
		}
		out[i] = &scorerv1.Explanation{CandidateIndex: uint32(i), Text: text}
	}
	if warm {
		return out
	}
	for place, i := range c.order {
		when := "was given a cold prompt before"
		if c.times[i] == 0 {
			when = "was given no cold prompt yet"
		}
		out[i].Text = fmt.Sprintf("cold prompt: place %d of %d, %s", place+1, len(c.order), when)
	}
	return out
}
