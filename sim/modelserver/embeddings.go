package modelserver

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/http"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/token"
)

type embeddingBody struct {
	ID     string          `json:"id"`
	Object string          `json:"object"`
	Model  string          `json:"model"`
	Data   []embeddingItem `json:"data"`
	Usage  usage           `json:"usage"`
}

type embeddingItem struct {
	Index     int    `json:"index"`
	Object    string `json:"object"`
	Embedding any    `json:"embedding"` // []float32, or a base64 string
}

// embeddings computes prompts without generating anything.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	var q embeddingRequest
	fault := readJSON(w, r, &q)
	if fault != nil {
		fault.write(w)
		return
	}
	adapter, fault := s.adapter(q.Model)
	size := s.cfg.EmbeddingSize
	if q.Dimensions != nil {
		size = *q.Dimensions
	}
	switch {
	case fault != nil:
	case len(q.Input) == 0:
		fault = badRequest("input", "input must not be empty.")
	case size < 1 || size > s.cfg.EmbeddingSize:
		fault = badRequest("dimensions", "dimensions must be from 1 to %d, got %d.", s.cfg.EmbeddingSize, size)
	case q.EncodingFormat != "" && q.EncodingFormat != "float" && q.EncodingFormat != "base64":
		fault = badRequest("encoding_format", "encoding_format must be float or base64, got %q.", q.EncodingFormat)
	}
	if fault != nil {
		fault.write(w)
		return
	}
	g := newGeneration(token.Sentence)
	queries := make([]engine.Request, len(q.Input))
	for i, prompt := range q.Input {
		queries[i] = engine.Request{Adapter: adapter, Salt: q.CacheSalt, Prompt: prompt}
		g.add(token.Sum(prompt), len(prompt), &call{wake: g.wake})
	}
	if fault := s.submit(g, queries); fault != nil {
		fault.write(w)
		return
	}
	if !s.wait(r.Context(), g) {
		return
	}
	body := embeddingBody{ID: "embd-" + requestID(w), Object: "list", Model: q.Model, Usage: g.usage()}
	if body.Model == "" {
		body.Model = s.cfg.Model
	}
	for i, seed := range g.seeds {
		item := embeddingItem{Index: i, Object: "embedding", Embedding: vector(seed, size)}
		if q.EncodingFormat == "base64" {
			item.Embedding = encodeVector(vector(seed, size))
		}
		body.Data = append(body.Data, item)
	}
	writeWhole(w, r, mustJSON(body))
}

// vector is a vector of length 1 that follows from the seed.
func vector(seed uint64, size int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 0))
	v, square := make([]float32, size), 0.0
	for i := range v {
		x := rng.NormFloat64()
		v[i] = float32(x)
		square += x * x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(square))
	}
	return v
}

// encodeVector is what OpenAI calls base64: the floats' bytes, little-endian.
func encodeVector(v []float32) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}
