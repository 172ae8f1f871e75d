package modelserver

import (
	"context"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/token"
)

// generation is one HTTP request's work for the engine: one call for each of its prompts.
type generation struct {
	calls []*call
	seeds []uint64 // of the answers
	sizes []int    // of the prompts, in tokens
	head  token.Head
	said  int // tokens of the answer that the prompt ends with
	wake  chan struct{}
}

// usage is OpenAI's account of tokens.
type usage struct {
	PromptTokens        int            `json:"prompt_tokens"`
	TotalTokens         int            `json:"total_tokens"`
	CompletionTokens    int            `json:"completion_tokens"`
	PromptTokensDetails *promptDetails `json:"prompt_tokens_details"`
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// begin hands the prompts to the engine. adapter is empty for the base model.
//
// The first of several prompts is the one that other servers compute or fetch.
func (s *Server) begin(p *sampling, id, adapter string, prompts [][]token.Token, head token.Head) (*generation, *apiError) {
	limit, fault := p.limit()
	if fault != nil {
		return nil, fault
	}
	if p.N != nil && *p.N != 1 {
		return nil, badRequest("n", "This server answers once: n must be 1, got %d.", *p.N)
	}
	if c := p.CacheHitThreshold; c != nil && (*c < 0 || *c > 1) {
		return nil, badRequest("cache_hit_threshold", "cache_hit_threshold must be in the range [0.0, 1.0], got %v.", *c)
	}
	g := newGeneration(head)
	queries := make([]engine.Request, len(prompts))
	if p.goes != nil {
		g.said = p.goes.said
	}
	for i, prompt := range prompts {
		if fault := s.tooMuch(len(prompt)); fault != nil {
			return nil, fault
		}
		room := s.cfg.modelLen() - len(prompt)
		if limit > room || room < 1 {
			return nil, badRequest("max_tokens", "This model's maximum context length is %d tokens. However, you requested %d tokens "+
				"(%d in the prompt, %d in the completion). Please reduce the length of the prompt or the completion.",
				s.cfg.modelLen(), len(prompt)+limit, len(prompt), limit)
		}
		most := room
		if limit > 0 {
			most = limit
		}
		sum := token.Sum(prompt)
		seed := sum
		if p.goes != nil {
			seed = p.goes.seed
		}
		n := max(s.naturalLength(seed)-g.said, p.MinTokens, 0)
		if p.IgnoreEOS {
			n = most
		}
		queries[i] = engine.Request{
			Adapter: adapter, Salt: p.CacheSalt, Prompt: prompt, MaxTokens: most,
			Output: token.AppendAnswer(nil, seed, g.said+min(n, most), head)[g.said:],
		}
		c := &call{maxTokens: limit, streamed: p.Stream, wake: g.wake, seed: sum}
		if p.CacheHitThreshold != nil {
			queries[i].MinCached = *p.CacheHitThreshold
		}
		if i == 0 || s.cfg.Transfer.Connector == SharedStorage {
			s.disaggregate(p, id, c, &queries[i])
		}
		g.add(seed, len(prompt), c)
	}
	return g, s.submit(g, queries)
}

func newGeneration(head token.Head) *generation {
	return &generation{head: head, wake: make(chan struct{}, 1)}
}

func (g *generation) add(seed uint64, size int, c *call) {
	g.calls, g.seeds, g.sizes = append(g.calls, c), append(g.seeds, seed), append(g.sizes, size)
}

// submit hands g to the engine, all or nothing.
func (s *Server) submit(g *generation, queries []engine.Request) *apiError {
	s.driver.submit(queries, g.calls)
	for _, c := range g.calls {
		if c.over.Load() && c.rejected {
			s.driver.abort(g.calls)
			return rejection(c.reason, s.cfg.modelLen())
		}
	}
	return nil
}

// naturalLength is how long the answer with this seed is when nothing cuts it.
func (s *Server) naturalLength(seed uint64) int {
	return s.cfg.MinAnswer + int(seed>>8%uint64(s.cfg.MaxAnswer-s.cfg.MinAnswer+1))
}

// wait blocks until all calls of g have ended. It returns false, and aborts them, when ctx ends first.
func (s *Server) wait(ctx context.Context, g *generation) bool {
	for !g.over() {
		select {
		case <-g.wake:
		case <-ctx.Done():
			s.driver.abort(g.calls)
			return false
		}
	}
	return true
}

func (g *generation) over() bool {
	for _, c := range g.calls {
		if !c.over.Load() {
			return false
		}
	}
	return true
}

// usage is the account of g, which must be over.
func (g *generation) usage() usage {
	u := usage{PromptTokensDetails: &promptDetails{}}
	for i, c := range g.calls {
		u.PromptTokens += g.sizes[i]
		u.CompletionTokens += int(c.produced.Load())
		u.PromptTokensDetails.CachedTokens += c.cached
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// failed says whether a call of g, which must be over, lacked its prompt.
func (g *generation) failed() bool {
	for _, c := range g.calls {
		if c.reason == engine.Failed {
			return true
		}
	}
	return false
}

// text is the whole answer of call i.
func (g *generation) text(i int) string {
	return token.Text(g.seeds[i], g.said+int(g.calls[i].produced.Load()), g.head)[g.said*token.Size:]
}
