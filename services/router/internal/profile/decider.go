package profile

import (
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Decider says whether a stage is worth being done elsewhere. It is a pure function of
// what it is given, safe for concurrent use, and quick: it is asked several times per
// request, once of these while no other pick is made.
type Decider interface {
	// Name is the plug-in's name in the configuration.
	Name() string
	// Decide judges a request whose decode profile came to the result; nil if that has
	// not run yet.
	Decide(c *route.Cycle, decode *route.ProfileResult) Verdict
}

// Verdict is what a decider says.
type Verdict struct {
	// Yes is true if the stage is to be done elsewhere.
	Yes bool
	// Reason is why not, and Words say more.
	Reason route.Reason
	Words  string
	// PromptTokens and CachedTokens are what it went by; negative: by something else.
	PromptTokens, CachedTokens int64
}

// yes and no are verdicts that go by nothing that can be counted.
func yes() Verdict { return Verdict{Yes: true, PromptTokens: -1, CachedTokens: -1} }

func no(words string) Verdict {
	return Verdict{Reason: route.ReasonDeclined, Words: words, PromptTokens: -1, CachedTokens: -1}
}

// bytesPerToken of prompt, counted as everywhere.
const bytesPerToken = 4

// prefixAsker is implemented by route.Scorer.Asked of scorers that look at prefix blocks.
type prefixAsker interface {
	PrefixNeeds(t *roster.Table) (blockSize, limit int)
}

// heldBytes returns how much of the prompt the pick of the result is believed to hold from
// its start: the most that a prefix scorer of the profile told, with no weight upon it.
// It is false if none told. A prompt without a whole block is held by nobody.
func heldBytes(c *route.Cycle, res *route.ProfileResult) (int64, bool) {
	if _, picked := res.Best(); !picked {
		return 0, false
	}
	at, held, known := int(res.Ranked[0]), int64(0), false
	for i := range res.Scores {
		s := &res.Scores[i]
		if matched := s.Believed(); s.BlockSize > 0 && at < len(matched) {
			held, known = max(held, int64(matched[at])*int64(s.BlockSize)), true
		}
	}
	return held, known || shorterThanABlock(c, res.Profile)
}

// shorterThanABlock is true if the profile has a scorer that looks at blocks, and the
// prompt has none.
func shorterThanABlock(c *route.Cycle, p *route.Profile) bool {
	for i := range p.Scorers {
		a, ok := p.Scorers[i].Asked.(prefixAsker)
		if !ok {
			continue
		}
		if size, limit := a.PrefixNeeds(c.Snapshot.Table); size > 0 {
			return c.Request.Prompt == nil || len(c.Request.Prompt.Blocks(size, limit)) == 0
		}
	}
	return false
}

// GoesByPrefix is true for deciders that go by what endpoints hold of a prompt, so that
// somebody has to tell.
func GoesByPrefix(d Decider) bool {
	switch d := d.(type) {
	case *PrefixBased:
		return d.nonCachedTokens > 0
	case Threshold:
		return d.bytes > 0
	}
	return false
}

// always is true for deciders that say yes to every request.
func always(d Decider) bool {
	switch d := d.(type) {
	case *Always:
		return true
	case Threshold:
		return d.bytes == 0
	}
	return false
}
