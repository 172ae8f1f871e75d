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

// Cache is kv-cache-scorer: high where much of the KV-cache is free. Safe for
// concurrent use.
type Cache struct {
	cfg     Config
	info    *scorerv1.ScorerType
	scratch sync.Pool // of *cacheColumns
}

// cacheColumns is what is known of the candidates of one call, in columns.
type cacheColumns struct {
	candidates
	usage    []float32       // negative: not known
	tokens   []int64         // uncached prompt tokens sent since
	ages     []time.Duration // of candidates by reference for explanations alone
	rated    []bool
	applied  uint64
	verdicts abstentions
}

// NewCache returns the type.
func NewCache(cfg Config) *Cache {
	t := &Cache{cfg: cfg, info: &scorerv1.ScorerType{
		Name: "kv-cache-scorer", Aliases: []string{"kv-cache-utilization-scorer"},
		Description:  "High where much of the KV-cache is free: 1 − the share of blocks in use.",
		DefaultNeeds: &scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_LOAD}},
	}}
	t.scratch.New = func() any { return new(cacheColumns) }
	return t
}

// Info implements scorer.Type.
func (t *Cache) Info() *scorerv1.ScorerType { return t.info }

// FollowsTables implements scorer.TableFollower.
func (t *Cache) FollowsTables() bool { return true }

// IgnoresRequest implements scorer.RequestIgnorer.
func (t *Cache) IgnoresRequest() bool { return true }

// Parse implements scorer.Type. There are no parameters.
func (t *Cache) Parse(parametersJSON []byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	return nil, nil, parameters.Read(parametersJSON).Faults()
}

// EffectiveParameters implements scorer.ParameterTeller.
func (t *Cache) EffectiveParameters(parametersJSON []byte) []byte {
	return parameters.Read(parametersJSON).Effective()
}

// Score implements scorer.Type.
func (t *Cache) Score(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	c := t.scratch.Get().(*cacheColumns)
	defer func() {
		c.release()
		t.scratch.Put(c)
	}()
	if err := c.resolve(t.cfg.Roster, req); err != nil {
		return err
	}
	// The sequence is read before the credits: a batch that arrives in between counts
	// twice for this one call, rather than not at all.
	c.applied = 0
	if p := req.GetPending(); p != nil {
		c.applied = t.cfg.Roster.AppliedSequence(p.GetRouterId())
	}
	out.AppliedOutcomeSequence = c.applied
	t.fill(c, req.GetExplain())
	c.addPending(req.GetPending())
	t.rate(c, out)
	if req.GetExplain() {
		out.Explanations = c.explain()
	}
	return nil
}

// fill notes what is known of each candidate.
func (t *Cache) fill(c *cacheColumns, explain bool) {
	n := len(c.at)
	c.usage = slices.Grow(c.usage[:0], n)[:n]
	c.tokens = slices.Grow(c.tokens[:0], n)[:n]
	c.ages = slices.Grow(c.ages[:0], n)[:n]
	c.rated = slices.Grow(c.rated[:0], n)[:n]
	c.verdicts = abstentions{}
	if c.listed == nil {
		c.fillAll()
		if explain {
			for i, pos := range c.at {
				c.ages[i] = c.snapshot.Age(int(pos), c.now)
			}
		}
		return
	}
	for i, pos := range c.at {
		if load := c.listed[i].GetLoad(); load != nil {
			t.fillSent(c, i, load)
		} else if pos >= 0 {
			c.fillKnown(i, int(pos))
		} else {
			c.usage[i], c.tokens[i], c.ages[i] = -1, 0, -1
			c.rated[i] = c.verdicts.judge(false, false, -1)
		}
	}
}

// fillAll notes what the roster knows of candidates that are all in the table, but for
// their ages.
func (c *cacheColumns) fillAll() {
	s, v := c.snapshot, &c.verdicts
	usage, tokens, rated := c.usage[:len(c.at)], c.tokens[:len(c.at)], c.rated[:len(c.at)]
	fresh, oldest := s.FreshSince(c.now), c.now
	for i, pos := range c.at {
		usage[i], tokens[i], rated[i] = s.KV[pos], s.CreditedTokens(int(pos)), false
		switch observed := s.ObservedAt[pos]; {
		case !(usage[i] >= 0):
			v.unknown++
		case observed < fresh:
			v.stale++
		default:
			rated[i], oldest = true, min(oldest, observed)
		}
	}
	v.oldest = time.Duration(c.now - oldest)
}

// fillKnown notes what the roster knows.
func (c *cacheColumns) fillKnown(i, pos int) {
	s := c.snapshot
	c.usage[i], c.ages[i] = s.KV[pos], s.Age(pos, c.now)
	_, c.tokens[i] = s.Credit(pos)
	c.rated[i] = c.verdicts.judge(c.usage[i] >= 0, s.Fresh(pos, c.now), c.ages[i])
}

// fillSent notes the load that came with a candidate.
func (t *Cache) fillSent(c *cacheColumns, i int, load *scorerv1.EndpointLoad) {
	c.usage[i] = -1
	if load.KvCacheUsageRatio != nil {
		c.usage[i] = load.GetKvCacheUsageRatio()
	}
	c.tokens[i], c.ages[i] = int64(load.GetCreditedTokenCount()), sent(load)
	c.rated[i] = c.verdicts.judge(c.usage[i] >= 0, c.ages[i] <= t.cfg.StalenessLimit, c.ages[i])
}

// addPending counts the asking router's picks that are not in the credits yet.
func (c *cacheColumns) addPending(p *scorerv1.PendingPicks) {
	if c.listed != nil {
		return
	}
	for i, sequence := range p.GetSequences() {
		if sequence <= c.applied {
			continue
		}
		if at := c.index(p.GetPositions()[i]); at >= 0 {
			c.tokens[at] += int64(p.GetUncachedTokenCounts()[i])
		}
	}
}

// rate fills in the answer.
func (t *Cache) rate(c *cacheColumns, out *scorerv1.ScoreResponse) {
	v := &c.verdicts
	if v.count() > 0 && t.cfg.Abstained != nil {
		t.cfg.Abstained(t.info.GetName(), v.reason(), v.count())
	}
	if v.count() == len(c.at) {
		scorer.AbstainAll(out, v.reason())
		return
	}
	scores := scorer.Scores(out, len(c.at))
	for i := range scores {
		if c.rated[i] {
			scores[i] = formula.Room(float64(c.usage[i]) + c.credit(i))
		} else {
			scorer.Abstain(out, i, v.reason())
		}
	}
	out.StateAge = durationpb.New(v.oldest)
}

// credit returns the share of the KV-cache that is not in use yet and soon will be.
func (c *cacheColumns) credit(i int) float64 {
	if c.tokens[i] == 0 {
		return 0
	}
	e := c.endpoint(i)
	if e == nil {
		return 0
	}
	return formula.Credit(c.tokens[i], e.CacheBlockSize, e.CacheBlockCount)
}

// explain says in words where the scores come from, as in "0.41 used + 0.02 credited".
func (c *cacheColumns) explain() []*scorerv1.Explanation {
	out := make([]*scorerv1.Explanation, len(c.at))
	for i := range c.at {
		var text string
		switch {
		case c.usage[i] < 0:
			text = "KV-cache usage not known"
		case !c.rated[i]:
			text = fmt.Sprintf("figures are %s old", c.ages[i].Round(100*time.Millisecond))
		default:
			text = fmt.Sprintf("%.2f used + %.2f credited", c.usage[i], c.credit(i))
		}
		out[i] = &scorerv1.Explanation{CandidateIndex: uint32(i), Text: text}
	}
	return out
}
