package app

import (
	"github.com/pointsman/pointsman/internal/kit/scorersvc"
	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/services/scorer-kv/internal/memory"
)

// types lists what is served here.
func types(s *scorersvc.Service) ([]scorer.Type, error) {
	judged := memory.Config{Roster: s.Roster, StalenessLimit: s.Config.Roster.StalenessLimit.D(), Abstained: s.Abstained}
	return []scorer.Type{
		memory.NewCache(judged),
		memory.NewAffinity(judged),
	}, nil
}
