package scorersvc

import (
	"fmt"
	"io"

	"google.golang.org/grpc"
	"time"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/sdk/scorer/wire"
)

// Service is what the types of a service can work with.
type Service struct {
	// Config has the settings that all scorer services have.
	Config Config
	// Roster is kept in step with the broadcast.
	Roster *roster.Roster
	// Bus is connected when the service's own parts start. Subscriptions are made
	// before.
	Bus *bus.Bus
	// Telemetry has log, instruments and health.
	Telemetry *telemetry.Telemetry

	meters *meters
	own    []part
}

// part is a part of the service's own.
type part struct {
	name string
	run  run.Part
}

// Abstained counts candidates that a type had no opinion on. It is quick, and may be
// called from many goroutines.
func (s *Service) Abstained(scorerType string, reason scorerv1.AbstainReason, candidates int) {
	s.meters.abstained(scorerType, reason, candidates)
}

// Add adds a part that starts when the roster is followed and before anybody is
// served.
func (s *Service) Add(name string, p run.Part) { s.own = append(s.own, part{name, p}) }

// newService makes what every service has. It starts nothing.
func newService(name string, cfg Config, tel *telemetry.Telemetry) (*Service, error) {
	b, err := bus.New(cfg.NATS, cfg.Pool, bus.NewPublisherID(name), tel)
	if err != nil {
		return nil, err
	}
	m, err := newMeters(name, tel.Meter)
	if err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	r := roster.New(roster.Config{StalenessLimit: cfg.Roster.StalenessLimit.D()})
	return &Service{Config: cfg, Roster: r, Bus: b, Telemetry: tel, meters: m}, nil
}

// group makes the other parts and puts all in order. It starts nothing.
func (s *Service) group(name string, types Types, stdout io.Writer) (*run.Group, error) {
	f, err := follower.New(s.Roster, s.Bus, s.Telemetry)
	if err != nil {
		return nil, err
	}
	served, err := types(s)
	if err != nil {
		return nil, err
	}
	contract, err := s.contract(name, served)
	if err != nil {
		return nil, err
	}
	server, err := rpc.NewServer("grpc", s.Config.Listen.GRPC, s.Telemetry, grpc.ForceServerCodecV2(wire.Codec()))
	if err != nil {
		return nil, err
	}
	contract.Register(server)
	server.OnDrain(contract.Drain)

	g := run.NewGroup(s.Telemetry.Log)
	g.StopTimeout = max(run.DefaultStopTimeout, s.Config.Listen.GRPC.DrainTimeout.D()+5*time.Second)
	g.Add("admin", s.Telemetry.Part(stdout))
	g.Add("bus", s.Bus.Part())
	g.Add("follower", f.Part())
	for _, p := range s.own {
		g.Add(p.name, p.run)
	}
	g.Add("grpc", server.Part(stdout))
	return g, nil
}

// contract is the server side of the contract.
func (s *Service) contract(name string, types []scorer.Type) (*scorer.Server, error) {
	cfg := scorer.DefaultConfig()
	cfg.Log, cfg.Observe = s.Telemetry.Log, s.meters.observe
	return scorer.NewServer(name, s.Telemetry.Build().Version, []scorerv1.Capability{
		scorerv1.Capability_CAPABILITY_TABLE_REFERENCE,
		scorerv1.Capability_CAPABILITY_EXPLAIN,
		scorerv1.Capability_CAPABILITY_STREAM,
		scorerv1.Capability_CAPABILITY_FOLLOWS_BROADCAST,
	}, types, cfg)
}
