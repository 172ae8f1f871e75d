package requests

import (
	"fmt"

	"github.com/pointsman/pointsman/internal/kit/parameters"
	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

const (
	defaultThreshold = 128
	mostThreshold    = 1 << 20
	thresholdKey     = "threshold"
)

const loadAwareSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "threshold": {"type": "integer", "minimum": 1, "maximum": 1048576, "default": 128, "description": "Waiting requests from which on the score is 0."}
  }
}`

// NewLoadAware returns load-aware-scorer: 0.5 × (1 − min(waiting, threshold)/threshold),
// so an endpoint where nobody waits has 0.5, and none has more.
func NewLoadAware(cfg Config) *Type {
	t := newType(cfg, "load-aware-scorer", "0.5 × (1 − min(waiting, threshold)/threshold): 0.5 where no request waits, 0 from the threshold on.", scale{}, figure{
		name:   "waiting",
		column: func(s *roster.Snapshot) []int32 { return s.Waiting },
		listed: func(l *scorerv1.EndpointLoad) *uint32 { return l.WaitingRequestCount },
	})
	t.info.ParametersSchema = loadAwareSchema
	return t
}

// scale rates by the distance to a threshold. Its instances are thresholds.
type scale struct{}

func (scale) parse(parametersJSON []byte) (any, *parameters.Reader) {
	r := parameters.Read(parametersJSON, thresholdKey)
	return r.Whole(thresholdKey, defaultThreshold, 1, mostThreshold), r
}

func (scale) rate(instance any, c *columns, scores []float32) float32 {
	threshold := instance.(int64)
	for i, e := range c.expected {
		if e >= 0 {
			scores[i] = float32(.5 * float64(threshold-min(e, threshold)) / float64(threshold))
		}
	}
	return float32(2 * threshold) // half a point is the threshold's worth
}

// words are as in "3 waiting + 2 credited of 128".
func (scale) words(instance any, c *columns, i int, figure string) string {
	return fmt.Sprintf("%d %s + %d credited of %d", c.scraped[i], figure, c.credited[i], instance.(int64))
}
