package inflight

import (
	"fmt"

	"github.com/pointsman/pointsman/internal/kit/parameters"
	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

const tokensKey = "queueThresholdTokens"

const tokensSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "queueThresholdTokens": {"type": "integer", "minimum": 1, "maximum": 1099511627776, "default": 4194304, "description": "Tokens in flight from which on the score is 0. Lower it to the tokens that an endpoint takes in a few seconds, or all scores are near 1."}
  }
}`

// NewTokens returns token-load-scorer: 1 − min(tokens, T)/T, where tokens are the
// prompt tokens in flight that were not believed to be cached, and T is
// queueThresholdTokens.
func NewTokens(cfg Config) *Type {
	return newType(cfg, "token-load-scorer", "1 − min(tokens, T)/T, where tokens are the prompt tokens in flight that were not believed to be cached, and T is queueThresholdTokens.", tokensSchema, measure{
		count: func(s *roster.Snapshot, pos int) int64 { return s.InFlightTokens(pos) },
		pending: func(p *scorerv1.PendingPicks, i int) int64 {
			if i < len(p.GetUncachedTokenCounts()) {
				return int64(p.GetUncachedTokenCounts()[i])
			}
			return 0
		},
	}, tokens{})
}

// tokens rates by prompt tokens. Its instances are thresholds.
type tokens struct{}

func (tokens) parse(parametersJSON []byte) (any, *parameters.Reader) {
	r := parameters.Read(parametersJSON, tokensKey)
	return r.Whole(tokensKey, 4194304, 1, 1<<40), r
}

func (tokens) rate(instance any, counts []int64, req *scorerv1.InferenceRequest, scores []float32) float32 {
	threshold := instance.(int64)
	for i, n := range counts {
		if n >= 0 {
			scores[i] = float32(1 - float64(min(n, threshold))/float64(threshold))
		}
	}
	// The picks of a burst are like this request.
	if own := req.GetPromptTokenCount(); own > 0 {
		return float32(max(float64(threshold)/float64(own), 1))
	}
	return 0
}

func (tokens) byRequest() bool { return true }

// words are as in "5000 uncached prompt tokens in flight of 4194304".
func (tokens) words(instance any, count int64) string {
	return fmt.Sprintf("%s in flight of %d", plural(count, "uncached prompt token"), instance.(int64))
}
