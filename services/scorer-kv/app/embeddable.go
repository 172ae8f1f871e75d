package app

import "github.com/pointsman/pointsman/internal/kit/scorersvc"

// Embeddable is the service as a part of another process.
func Embeddable() scorersvc.Embeddable {
	return scorersvc.Embed(Name, func() (scorersvc.Settings, scorersvc.Types) {
		cfg := scorersvc.DefaultConfig()
		return &cfg, types
	})
}
