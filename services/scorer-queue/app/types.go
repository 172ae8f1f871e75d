package app

import (
	"github.com/pointsman/pointsman/internal/kit/scorersvc"
	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/services/scorer-queue/internal/inflight"
	"github.com/pointsman/pointsman/services/scorer-queue/internal/length"
	"github.com/pointsman/pointsman/services/scorer-queue/internal/requests"
)

// types lists what is served here.
func types(s *scorersvc.Service) ([]scorer.Type, error) {
	judged := requests.Config{Roster: s.Roster, StalenessLimit: s.Config.Roster.StalenessLimit.D(), Abstained: s.Abstained}
	counted := inflight.Config{Roster: s.Roster, Abstained: s.Abstained}
	return []scorer.Type{
		requests.NewQueue(judged),
		requests.NewRunning(judged),
		requests.NewLoadAware(judged),
		inflight.NewActive(counted),
		inflight.NewTokens(counted),
		length.New(length.Config{Roster: s.Roster, Abstained: s.Abstained}),
	}, nil
}
