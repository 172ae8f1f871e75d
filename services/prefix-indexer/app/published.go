package app

import (
	"github.com/pointsman/pointsman/internal/kit/scorersvc"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// Published is what the service says of itself, and how it checks parameters, without
// running it. Scores are not to be asked for.
func Published() (scorerv1.ScorerServiceServer, error) {
	cfg := DefaultConfig()
	return scorersvc.Published(Name, &cfg, func(s *scorersvc.Service) ([]scorer.Type, error) { return types(s, cfg) })
}
