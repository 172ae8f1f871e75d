package prefix

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

// Config is what a Type works with.
type Config struct {
	// Roster is followed, for tables.
	Roster *roster.Roster
	// Index knows the endpoints, and is matched against unless Matcher is set.
	Index *index.Index
	// Matcher, if set, is matched against.
	Matcher Matcher
	// Abstained, if set, is called with the number of candidates that were abstained
	// on, after a call in which there were any.
	Abstained func(scorerType string, reason scorerv1.AbstainReason, candidates int)
	// Mismatched, if set, is called when prompts begin to be matched in blocks that are
	// not as large as the KV-cache blocks of some endpoints, counted in tokens of 4
	// bytes: engines reuse whole blocks of their own, so matches are a little off.
	Mismatched func(blockSize uint32, endpoints int, cacheBlockTokens uint32)
	// Matched, if set, is called after every call that looked into the index, with
	// the best candidate's share of the prompt, 0..1.
	Matched func(ratio float64)
}

// Matcher tells who holds how much of a prompt, as index.Index.Match does.
type Matcher interface {
	Match(ctx context.Context, k index.Key, chain []uint64, ordinals []int32, matched []uint32)
}

// match asks whoever is to be matched against.
func (c *Config) match(ctx context.Context, k index.Key, chain []uint64, ordinals []int32, matched []uint32) {
	if c.Matcher != nil {
		c.Matcher.Match(ctx, k, chain, ordinals, matched)
		return
	}
	c.Index.Match(k, chain, ordinals, matched)
}

// Type is prefix-cache-scorer. Safe for concurrent use.
type Type struct {
	cfg     Config
	info    *scorerv1.ScorerType
	columns columns
	scratch sync.Pool // of *candidates
}

// instance is parameters in use.
type instance struct {
	Settings
	asked atomic.Uint32 // block size that was last scored with
	held  sync.Map      // block sizes that the index was asked to hold
}

// hold has the index hold prefixes in blocks of the size, as soon as something is
// scored with them: what is merely validated does not count.
func (in *instance) hold(cfg *Config, blockSize uint32) {
	if in.asked.Load() == blockSize {
		return
	}
	in.asked.Store(blockSize)
	if _, before := in.held.LoadOrStore(blockSize, true); before {
		return
	}
	cfg.Index.Ask(blockSize, in.Capacity)
	others, tokens := 0, uint32(0)
	for _, e := range cfg.Roster.Snapshot().Table.Endpoints {
		if e.CacheBlockSize > 0 && e.CacheBlockSize*bytesPerToken != blockSize {
			others, tokens = others+1, e.CacheBlockSize
		}
	}
	if others > 0 && cfg.Mismatched != nil {
		cfg.Mismatched(blockSize, others, tokens)
	}
}

// candidates is who is to be rated in one call. It is used again for other calls.
type candidates struct {
	ordinals []int32
	listed   bool
}

const typeName = "prefix-cache-scorer"

// New returns the type.
func New(cfg Config) *Type {
	defaults := DefaultSettings()
	t := &Type{cfg: cfg, info: &scorerv1.ScorerType{
		Name:             typeName,
		Description:      "High where the endpoint was sent the beginning of the same prompt before: leading blocks of the prompt that it was sent ÷ blocks of the prompt.",
		ParametersSchema: schema,
		DefaultNeeds:     defaults.needs(),
	}}
	t.scratch.New = func() any { return new(candidates) }
	return t
}

// Info implements scorer.Type.
func (t *Type) Info() *scorerv1.ScorerType { return t.info }

// FollowsTables implements scorer.TableFollower.
func (t *Type) FollowsTables() bool { return true }

// Parse implements scorer.Type.
func (t *Type) Parse(parametersJSON []byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	s, faults := ParseSettings(parametersJSON)
	if len(faults) > 0 {
		return nil, nil, faults
	}
	return &instance{Settings: s}, s.needs(), nil
}

// EffectiveParameters implements scorer.ParameterTeller.
func (t *Type) EffectiveParameters(parametersJSON []byte) []byte {
	_, read := parseSettings(parametersJSON)
	return read.Effective()
}

// Score implements scorer.Type.
func (t *Type) Score(ctx context.Context, v any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	inst := v.(*instance)
	c := t.scratch.Get().(*candidates)
	defer t.scratch.Put(c)
	if err := t.resolve(c, req); err != nil {
		return err
	}
	if p := req.GetPending(); p != nil {
		out.AppliedOutcomeSequence = t.cfg.Roster.AppliedSequence(p.GetRouterId())
	}
	matched := scorer.MatchedBlocks(out, len(c.ordinals))
	blocks := req.GetRequest().GetPrefix()
	hashes, size := blocks.GetHashes(), blocks.GetBlockSizeBytes()
	if len(hashes) == 0 || !inst.fits(size) {
		if inst.asked.Load() == 0 {
			inst.hold(&t.cfg, inst.BlockSize)
		}
		t.abstainAll(out, scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE, len(c.ordinals))
		return nil
	}
	inst.hold(&t.cfg, size)
	hashes = hashes[:min(len(hashes), inst.limit(size))]
	t.cfg.match(ctx, index.Key{Scheme: blocks.GetScheme(), BlockSize: size}, hashes, c.ordinals, matched)
	t.rate(c, matched, len(hashes), out)
	if req.GetExplain() {
		out.Explanations = c.explain(matched, len(hashes))
	}
	return nil
}

// resolve fills in the candidates of a request.
func (t *Type) resolve(c *candidates, req *scorerv1.ScoreRequest) error {
	endpoints := t.cfg.Index.Endpoints()
	c.ordinals = c.ordinals[:0]
	ref := req.GetTable()
	if c.listed = ref == nil; c.listed {
		for _, l := range req.GetListed().GetCandidates() {
			c.ordinals = append(c.ordinals, endpoints.Ordinal(l.GetEndpointId()))
		}
		return nil
	}
	snapshot, ok := t.cfg.Roster.SnapshotOf(ref.GetTableDigest())
	if !ok {
		return scorer.TableNotHeld(ref.GetTableDigest())
	}
	column := t.columns.of(snapshot.Table, endpoints)
	positions := ref.GetPositions()
	if len(positions) == 0 {
		c.ordinals = append(c.ordinals, column...)
		return nil
	}
	if last := positions[len(positions)-1]; int(last) >= len(column) {
		return scorer.InvalidRequest("table.positions: %d is not in the table, which has %d endpoints", last, len(column))
	}
	c.ordinals = slices.Grow(c.ordinals, len(positions))
	for _, p := range positions {
		c.ordinals = append(c.ordinals, column[p])
	}
	return nil
}

// rate fills in the answer.
func (t *Type) rate(c *candidates, matched []uint32, total int, out *scorerv1.ScoreResponse) {
	best, unknown := uint32(0), 0
	for _, m := range matched {
		best = max(best, m)
	}
	if c.listed {
		for _, o := range c.ordinals {
			if o == index.Unknown {
				unknown++
			}
		}
	}
	if t.cfg.Matched != nil {
		t.cfg.Matched(float64(best) / float64(total))
	}
	const reason = scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT
	if unknown == len(matched) {
		t.abstainAll(out, reason, unknown)
		return
	}
	scores := scorer.Scores(out, len(matched))
	if best > 0 {
		share(scores, matched, total)
	}
	if unknown == 0 {
		return
	}
	for i := range matched {
		if c.stranger(i) {
			scorer.Abstain(out, i, reason)
		}
	}
	t.report(reason, unknown)
}

// share fills in which part of all blocks each candidate holds. Most hold as many as the
// one before, so few are divided.
func share(scores []float32, matched []uint32, total int) {
	last, score := uint32(0), float32(0)
	for i, m := range matched {
		if m != last {
			last, score = m, float32(m)/float32(total)
		}
		scores[i] = score
	}
}

// stranger says whether nothing can be said about a candidate. One that is in a table
// and not in the index has left the pool: that is known.
func (c *candidates) stranger(i int) bool { return c.listed && c.ordinals[i] == index.Unknown }

func (t *Type) abstainAll(out *scorerv1.ScoreResponse, reason scorerv1.AbstainReason, n int) {
	scorer.AbstainAll(out, reason)
	t.report(reason, n)
}

func (t *Type) report(reason scorerv1.AbstainReason, n int) {
	if n > 0 && t.cfg.Abstained != nil {
		t.cfg.Abstained(typeName, reason, n)
	}
}

// explain says in words where the scores come from, as in "37 of 52 blocks cached".
func (c *candidates) explain(matched []uint32, total int) []*scorerv1.Explanation {
	out := make([]*scorerv1.Explanation, len(matched))
	for i, m := range matched {
		text := fmt.Sprintf("%d of %d blocks cached", m, total)
		if c.ordinals[i] == index.Unknown {
			text = "endpoint not in the pool"
		}
		out[i] = &scorerv1.Explanation{CandidateIndex: uint32(i), Text: text}
	}
	return out
}
