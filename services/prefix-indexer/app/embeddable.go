package app

import (
	"github.com/pointsman/pointsman/internal/kit/scorersvc"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// Embeddable is the service as a part of another process.
func Embeddable() scorersvc.Embeddable {
	return scorersvc.Embed(Name, func() (scorersvc.Settings, scorersvc.Types) {
		cfg := DefaultConfig()
		return &cfg, func(s *scorersvc.Service) ([]scorer.Type, error) { return types(s, cfg) }
	})
}
