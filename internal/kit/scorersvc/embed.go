package scorersvc

import (
	"fmt"
	"time"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// Host is what a process offers to a scorer that runs within it. The host keeps the
// roster in step, runs the bus and shows the telemetry; the scorer only uses them.
type Host struct {
	// Pool names the pool whose state Roster holds.
	Pool string
	// Roster is the host's, its own picks included.
	Roster *roster.Roster
	// StalenessLimit is the one that Roster goes by.
	StalenessLimit time.Duration
	// Bus does not run yet.
	Bus *bus.Bus
	// Telemetry is the scorer's alone: its health is that of the scorer.
	Telemetry *telemetry.Telemetry
	// Settings is a file as the service takes it with --config; empty: the service's
	// defaults. What belongs to the host is not taken from it: pool, nats, listen,
	// roster, admin, log, tracing.
	Settings string
}

// Embeddable is a scorer service that can run within another process.
type Embeddable struct {
	// Name is the service's name.
	Name string
	// Bind makes the scorer and starts nothing. Call it once for each host, before its
	// bus runs.
	Bind func(Host) (*Bound, error)
}

// Bound is a scorer within its host's process.
type Bound struct {
	// Contract answers calls; it is to be called directly.
	Contract *scorer.Server

	own []part
}

// AddTo adds the scorer's own parts to the host's, after the bus and whatever keeps the
// roster in step.
func (b *Bound) AddTo(g *run.Group) {
	for _, p := range b.own {
		g.Add(p.name, p.run)
	}
}

// Embed makes a service embeddable, of the same settings and types as [Run] takes.
// settings returns new ones, with the defaults.
func Embed(name string, settings func() (Settings, Types)) Embeddable {
	return Embeddable{Name: name, Bind: func(h Host) (*Bound, error) {
		s, types := settings()
		b, err := bind(name, h, s, types)
		if err != nil {
			return nil, fmt.Errorf("embed %s: %w", name, err)
		}
		return b, nil
	}}
}

func bind(name string, h Host, settings Settings, types Types) (*Bound, error) {
	if err := conf.Load(h.Settings, nil, settings); err != nil {
		return nil, err
	}
	m, err := newMeters(name, h.Telemetry.Meter)
	if err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	cfg := *settings.Common()
	cfg.Pool, cfg.Roster.StalenessLimit = h.Pool, conf.Duration(h.StalenessLimit)
	s := &Service{Config: cfg, Roster: h.Roster, Bus: h.Bus, Telemetry: h.Telemetry, meters: m}
	served, err := types(s)
	if err != nil {
		return nil, err
	}
	contract, err := s.contract(name, served)
	if err != nil {
		return nil, err
	}
	for i := range s.own {
		s.own[i].name = name + " " + s.own[i].name
	}
	return &Bound{Contract: contract, own: s.own}, nil
}
