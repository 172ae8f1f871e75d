package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/broadcast"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/discover"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/scrape"
)

// Name is the service's name.
const Name = "metrics-collector"

// Run runs the service until ctx ends. args are the command line without the
// program's name; the addresses of the listeners are printed on stdout.
func Run(ctx context.Context, args []string, stdout io.Writer) error {
	cfg, err := load(args, stdout)
	if err != nil {
		return err
	}
	tel, err := telemetry.New(Name, "", cfg.Telemetry, os.Stderr)
	if err != nil {
		return err
	}
	group, err := assemble(cfg, tel, stdout)
	if err != nil {
		return err
	}
	return group.Run(ctx)
}

// assemble makes all parts and puts them in order. It starts nothing.
//
// Discovery comes before the bus, so that a wrong endpoints file is told although NATS
// is away; what is found waits in the fleet until the other collectors were asked.
func assemble(cfg Config, tel *telemetry.Telemetry, stdout io.Writer) (*run.Group, error) {
	b, err := bus.New(cfg.NATS, cfg.Pool, bus.NewPublisherID(Name), tel)
	if err != nil {
		return nil, err
	}
	wake := make(chan struct{}, 1)
	f := fleet.New(fleet.Config{Self: b.PublisherID(), DeadAfter: cfg.Broadcast.DeadAfter.D()}, func() {
		select {
		case wake <- struct{}{}:
		default: // it will look anyway
		}
	})
	d, err := discover.New(cfg.Discover, tel, func(targets []*fleet.Target) { f.Discovered(time.Now(), targets) })
	if err != nil {
		return nil, fmt.Errorf("create discovery: %w", err)
	}
	s, err := scrape.New(cfg.Scrape, engine.NewCatalog(), f, tel.Log, tel.Meter)
	if err != nil {
		return nil, fmt.Errorf("create scraper: %w", err)
	}
	c, err := broadcast.New(cfg.Broadcast, b, f, wake, tel, func(v *fleet.View) {
		if err := s.Assign(assignments(v)); err != nil {
			tel.Log.Error("an endpoint cannot be scraped at all", "error", err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("create broadcast: %w", err)
	}

	d.OnPolicy(func(p *fleet.Policy) {
		if err := c.UsePolicy(p); err != nil {
			tel.Log.Error("what is said of requests cannot be told; it stays as it was", "error", err)
		}
	})

	group := run.NewGroup(tel.Log)
	group.Add("admin", tel.Part(stdout))
	group.Add("discovery", d.Part())
	group.Add("scraper", s.Part())
	group.Add("bus", b.Part())
	group.Add("broadcast", c.Part())
	group.Add("readiness", readiness(tel.Health, f, s))
	return group, nil
}

// assignments are the endpoints that this collector scrapes.
func assignments(v *fleet.View) []scrape.Assignment {
	as := make([]scrape.Assignment, 0, len(v.Owned))
	for _, i := range v.Owned {
		as = append(as, scrape.Assignment{ID: v.Members[i].ID, Target: v.Members[i].Target})
	}
	return as
}
