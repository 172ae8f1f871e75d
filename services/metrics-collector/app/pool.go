package app

import (
	"fmt"
	"time"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/broadcast"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/discover"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/kube"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/scrape"
)

// pool is what collects for one pool, whoever discovers its endpoints.
type pool struct {
	defaults discover.DefaultsConfig
	tel      *telemetry.Telemetry
	bus      *bus.Bus
	fleet    *fleet.Fleet
	scraper  *scrape.Scraper
	voice    *broadcast.Broadcaster
}

// newPool makes a pool's parts, to be told under this name. It starts nothing.
func newPool(cfg Config, name string, tel *telemetry.Telemetry) (*pool, error) {
	p := &pool{defaults: cfg.Discover.Defaults, tel: tel}
	var err error
	if p.bus, err = bus.New(cfg.NATS, name, bus.NewPublisherID(Name), tel); err != nil {
		return nil, err
	}
	wake := make(chan struct{}, 1)
	p.fleet = fleet.New(fleet.Config{Self: p.bus.PublisherID(), DeadAfter: cfg.Broadcast.DeadAfter.D()}, func() {
		select {
		case wake <- struct{}{}:
		default: // it will look anyway
		}
	})
	if p.scraper, err = scrape.New(cfg.Scrape, engine.NewCatalog(), p.fleet, tel.Log, tel.Meter); err != nil {
		return nil, fmt.Errorf("create scraper: %w", err)
	}
	p.voice, err = broadcast.New(cfg.Broadcast, p.bus, p.fleet, wake, tel, func(v *fleet.View) {
		if err := p.scraper.Assign(assignments(v)); err != nil {
			tel.Log.Error("an endpoint cannot be scraped at all", "error", err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("create broadcast: %w", err)
	}
	return p, nil
}

// addTo adds the pool's parts, after its discovery.
func (p *pool) addTo(group *run.Group) {
	group.Add("scraper", p.scraper.Part())
	group.Add("bus", p.bus.Part())
	group.Add("broadcast", p.voice.Part())
	group.Add("readiness", readiness(p.tel.Health, p.fleet, p.scraper))
}

// usePolicy has it told what is said of requests.
func (p *pool) usePolicy(policy *fleet.Policy) {
	if err := p.voice.UsePolicy(policy); err != nil {
		p.tel.Log.Error("what is said of requests cannot be told; it stays as it was", "error", err)
	}
}

// found takes the endpoints that are in Kubernetes.
func (p *pool) found(endpoints []kube.Endpoint) {
	targets := make([]*fleet.Target, 0, len(endpoints))
	for i := range endpoints {
		e := &endpoints[i]
		targets = append(targets, p.defaults.Target(e.ID, e.Host, discover.Traits{Port: int(e.Port), Labels: e.Labels}))
	}
	p.fleet.Discovered(time.Now(), targets)
}

// assignments are the endpoints that this collector scrapes.
func assignments(v *fleet.View) []scrape.Assignment {
	as := make([]scrape.Assignment, 0, len(v.Owned))
	for _, i := range v.Owned {
		as = append(as, scrape.Assignment{ID: v.Members[i].ID, Target: v.Members[i].Target})
	}
	return as
}
