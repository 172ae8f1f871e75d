package inflight

import (
	"fmt"

	"github.com/pointsman/pointsman/internal/kit/parameters"
	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

const activeSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "idleThreshold": {"type": "integer", "minimum": 0, "maximum": 1048576, "default": 0, "description": "Requests in flight up to which an endpoint counts as idle."},
    "maxBusyScore": {"type": "number", "minimum": 0, "maximum": 1, "default": 1, "description": "Score that an endpoint which is not idle comes near with few requests."},
    "requestTimeout": {"type": "string", "description": "Accepted and without effect: what is in flight ends when it ends, or with its router."}
  }
}`

// NewActive returns active-request-scorer: 1 for endpoints with at most idleThreshold
// requests in flight, and for the others (most − count)/most × maxBusyScore, where most
// is the greatest count of the candidates.
func NewActive(cfg Config) *Type {
	return newType(cfg, "active-request-scorer", "1 for endpoints with at most idleThreshold requests in flight; for the others (most − count)/most × maxBusyScore, where most is the greatest count of the candidates.", activeSchema, measure{
		count:   func(s *roster.Snapshot, pos int) int64 { return s.InFlight(pos) },
		pending: func(*scorerv1.PendingPicks, int) int64 { return 1 },
	}, active{})
}

// active rates by requests. Its instances are *activeSettings.
type active struct{}

type activeSettings struct {
	idle int64
	busy float64
}

func (active) parse(parametersJSON []byte) (any, *parameters.Reader) {
	r := parameters.Read(parametersJSON, "idleThreshold", "maxBusyScore", "requestTimeout")
	s := &activeSettings{idle: r.Whole("idleThreshold", 0, 0, 1<<20), busy: r.Number("maxBusyScore", 1, 0, 1)}
	r.Text("requestTimeout", "")
	return s, r
}

func (active) rate(instance any, counts []int64, _ *scorerv1.InferenceRequest, scores []float32) float32 {
	s := instance.(*activeSettings)
	most := int64(0)
	for _, n := range counts {
		most = max(most, n)
	}
	for i, n := range counts {
		switch {
		case n < 0:
		case n <= s.idle:
			scores[i] = 1
		default:
			scores[i] = float32(float64(most-n) / float64(most) * s.busy)
		}
	}
	// Of the busy, most/busy requests make a point; of the idle, as many as make the
	// idlest of them busy.
	if most <= s.idle || s.busy == 0 {
		return float32(s.idle + 1)
	}
	return float32(float64(most) / s.busy)
}

func (active) byRequest() bool { return false }

// words are as in "3 requests in flight".
func (active) words(instance any, count int64) string {
	text := plural(count, "request") + " in flight"
	if s := instance.(*activeSettings); count <= s.idle && s.idle > 0 {
		text += fmt.Sprintf(", idle up to %d", s.idle)
	}
	return text
}
