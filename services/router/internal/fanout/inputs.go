package fanout

import (
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

const maxHashes = 8192 // the contract's limit for PrefixBlocks

// inputs is the memory of the request as one instance is told it.
type inputs struct {
	request      scorerv1.InferenceRequest
	prefix       scorerv1.PrefixBlocks
	headers      []*scorerv1.Header
	promptTokens uint32
	outputTokens uint32
}

// forget lets go of what belongs to a request.
func (in *inputs) forget() {
	in.prefix.Hashes = nil
	r := &in.request
	r.RequestId, r.Model, r.Adapter, r.SessionKey, r.PromptText = "", "", "", "", ""
	for _, h := range in.headers {
		h.Value = ""
	}
}

// chain is a prefix as asked for, computed once for all instances that ask alike.
type chain struct {
	size, limit int
	hashes      []uint64
}

// Inference returns the request to be routed with what needs asks for and nothing
// else. Only for use within Start; the message lives as long as the call.
func (c *Call) Inference(needs *Needs) *scorerv1.InferenceRequest {
	req, in := c.round.cycle.Request, &c.inputs
	m := &in.request
	m.RequestId, m.Model, m.Adapter, m.SessionKey, m.Priority = req.ID, req.Model, req.Adapter, req.SessionKey, req.Priority
	m.PromptTokenCount, m.MaxOutputTokenCount = nil, nil
	if req.PromptTokens > 0 {
		in.promptTokens = req.PromptTokens
		m.PromptTokenCount = &in.promptTokens
	}
	if req.MaxOutputTokens >= 0 {
		in.outputTokens = uint32(min(req.MaxOutputTokens, 1<<32-1)) //nolint:gosec // bounded
		m.MaxOutputTokenCount = &in.outputTokens
	}
	m.Prefix, m.PromptText, m.Headers = nil, "", nil
	if needs.Prefix && req.Prompt != nil {
		in.prefix.Scheme = route.Scheme
		size := route.BlockSize(c.round.snapshot.Table, needs.BlockSize, needs.FollowsCache)
		in.prefix.BlockSizeBytes = uint32(size) //nolint:gosec // it came as a uint32
		in.prefix.Hashes = c.round.blocks(req.Prompt, size, needs.BlockLimit)
		m.Prefix = &in.prefix
	}
	if needs.PromptText && req.Prompt != nil {
		m.PromptText = req.Prompt.Text()
	}
	if len(needs.Headers) > 0 {
		m.Headers = in.named(req.Headers, needs.Headers)
	}
	return m
}

// named returns the headers that are there.
func (in *inputs) named(from route.Headers, names []string) []*scorerv1.Header {
	n := 0
	for _, name := range names {
		v := from.Get(name)
		if v == "" {
			continue
		}
		if n == len(in.headers) {
			in.headers = append(in.headers, &scorerv1.Header{})
		}
		in.headers[n].Name, in.headers[n].Value = name, v
		n++
	}
	return in.headers[:n]
}

// blocks returns the prompt's chain; the same question is computed once.
func (r *round) blocks(p route.Prompt, size, limit int) []uint64 {
	limit = min(limit, maxHashes)
	for i := range r.chain {
		if r.chain[i].size == size && r.chain[i].limit == limit {
			return r.chain[i].hashes
		}
	}
	h := p.Blocks(size, limit)
	r.chain = append(r.chain, chain{size, limit, h})
	return h
}
