package app

import (
	"context"

	"github.com/pointsman/pointsman/services/router/internal/epconfig"
)

// loadConfiguration loads the EndpointPickerConfig. It comes after the scorers have
// begun to connect, since they say which types and parameters there are.
func (r *router) loadConfiguration(ctx context.Context, ready func()) error {
	loaded, err := epconfig.Load(r.options.source, r.options.text, epconfig.Deps{Scorers: r.scorers})
	if err != nil {
		return err
	}
	for _, n := range loaded.Infos {
		r.tel.Log.Info("configuration", "note", n.String())
	}
	for _, n := range loaded.Warnings {
		r.tel.Log.Warn("configuration", "note", n.String())
	}
	r.scheduler.Use(loaded.Config)
	r.tel.Log.Info("configuration in use", "source", r.options.source, "profiles", len(loaded.Config.Profiles))
	r.tel.Log.Debug("effective configuration", "text", string(loaded.Effective))
	ready()
	<-ctx.Done()
	return nil
}
