package app

import (
	"context"
	"fmt"
	"io"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/scorersvc"
	"github.com/pointsman/pointsman/services/router/internal/remote"
)

// RunWith is Run with scorers within: services that can be asked in the router's own
// process, by target: embedded. The built-in ones among them are, unless the settings
// say where else they are.
func RunWith(ctx context.Context, args []string, stdout io.Writer, within ...scorersvc.Embeddable) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	o.within = within
	r, err := build(o)
	if err != nil {
		return err
	}
	return r.run(ctx, stdout)
}

// bound is a scorer within this process.
type bound struct {
	name   string
	scorer *scorersvc.Bound
}

// embed binds the scorers that are to be asked in this process.
func (r *router) embed() (map[string]remote.Embedded, error) {
	all := make(map[string]remote.Embedded)
	for _, e := range r.options.within {
		settings, wanted := r.options.Scorers.HasEmbedded(e.Name)
		if !wanted {
			continue
		}
		tel, _, err := r.tel.Child("scorer", e.Name)
		if err != nil {
			return nil, fmt.Errorf("embed %s: %w", e.Name, err)
		}
		b, err := e.Bind(scorersvc.Host{
			Pool: r.options.Pool, Roster: r.roster, StalenessLimit: r.options.Roster.StalenessLimit.D(), Bus: r.bus, Telemetry: tel, Settings: settings,
		})
		if err != nil {
			return nil, err
		}
		r.embedded = append(r.embedded, bound{e.Name, b})
		all[e.Name] = remote.Embedded{Server: b.Contract, Health: tel.Health}
	}
	return all, nil
}

// addEmbedded adds the parts of the scorers within.
func (r *router) addEmbedded(g *run.Group) {
	for _, b := range r.embedded {
		b.scorer.AddTo(g)
	}
}
