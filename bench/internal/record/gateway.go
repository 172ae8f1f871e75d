package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pointsman/pointsman/bench/internal/chat"
	"github.com/pointsman/pointsman/bench/internal/load"
	"github.com/pointsman/pointsman/bench/internal/mesh"
	"github.com/pointsman/pointsman/bench/internal/report"
)

// Names of what is compared by Gateway.
const (
	envoyAlone = "envoy alone"
	envoyWith  = "envoy + pointsman"
)

// GatewayConfig is what Gateway measures.
type GatewayConfig struct {
	// Binaries, Self, Endpoints, Bodies, Rounds, WarmUp and OpenWindow of it count, and
	// Rate, at which requests begin.
	Config
	// Envoy is its binary, and Bootstrap the file that comes with this repository.
	Envoy, Bootstrap string
}

// DefaultGatewayConfig returns the run of record.
func DefaultGatewayConfig() GatewayConfig {
	c := GatewayConfig{Config: DefaultConfig()}
	c.Endpoints, c.Bodies = []int{10, 100, 500}, []int{1 << 10, 8 << 10, 64 << 10, 400 << 10}
	c.Rate, c.WarmUp, c.OpenWindow = 100, 300*time.Millisecond, 3*time.Second
	return c
}

// Gateway measures what an endpoint picker adds to Envoy: the same requests at the same
// rate through Envoy alone, which takes servers in turn, and with every request asked of
// a router, over TLS, in interleaved rounds.
func Gateway(ctx context.Context, cfg GatewayConfig) ([]report.Row, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = func(string, ...any) {}
	}
	g := &gateway{cfg: cfg, bodies: make(map[int][][]byte)}
	for _, n := range cfg.Endpoints {
		if err := g.pool(ctx, n); err != nil {
			return nil, fmt.Errorf("%d endpoints: %w", n, err)
		}
	}
	return g.rows, nil
}

type gateway struct {
	cfg    GatewayConfig
	bodies map[int][][]byte
	rows   []report.Row
}

// pool measures all bodies over one pool.
func (g *gateway) pool(ctx context.Context, endpoints int) (err error) {
	fleet, err := mesh.StartFleet(g.cfg.Self, endpoints, g.cfg.LargePages)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Stop()) }()
	m, err := mesh.New(ctx, mesh.Config{
		Binaries: g.cfg.Binaries, Self: g.cfg.Self, Endpoints: fleet.Addresses(), ScrapeInterval: g.cfg.scrapeInterval(endpoints), Env: g.cfg.Env, ScorerEnv: g.cfg.ScorerEnv,
		RouterSets: []string{"listen.extProc.secureServing=true"}, // as gateways expect
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	alone, err := mesh.StartEnvoy(mesh.EnvoyConfig{Binary: g.cfg.Envoy, Bootstrap: g.cfg.Bootstrap, Endpoints: fleet.Addresses()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alone.Stop()) }()
	with, err := mesh.StartEnvoy(mesh.EnvoyConfig{Binary: g.cfg.Envoy, Bootstrap: g.cfg.Bootstrap, Picker: m.Router.Address("extProc")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, with.Stop()) }()
	both := []front{
		{subject: mesh.Subject{Name: envoyAlone, Parts: []mesh.Part{part(alone)}}, url: alone.URL},
		{subject: m.Subject(envoyWith), url: with.URL},
	}
	both[1].subject.Parts = append(both[1].subject.Parts, part(with))
	for _, size := range g.cfg.Bodies {
		if err := g.compare(ctx, both, fleet, size); err != nil {
			return err
		}
	}
	return nil
}

func part(e *mesh.Envoy) mesh.Part { return mesh.Part{Name: "envoy", Counted: true, PID: e.PID()} }

// front is what clients talk to.
type front struct {
	subject mesh.Subject
	url     string
}

func (g *gateway) compare(ctx context.Context, fronts []front, fleet *mesh.Fleet, size int) error {
	if g.bodies[size] == nil {
		g.bodies[size] = chat.Bodies(32, size)
	}
	rounds := make([][]report.Round, len(fronts))
	for n := range g.cfg.Rounds {
		for i := range fronts {
			f := &fronts[i]
			client := load.NewClient(f.url, 256, g.bodies[size], fleet.Addresses())
			one, err := measured(ctx, &f.subject, load.Config{Exchange: client.Exchange, Rate: g.cfg.Rate, Seed: uint64(n)}, window{g.cfg.WarmUp, g.cfg.OpenWindow}, []int{fleet.PID()})
			client.Close()
			if err != nil {
				return err
			}
			rounds[i] = append(rounds[i], one)
			g.cfg.Log("%s, %d endpoints, %d bytes: %.0f requests/s, %.0f µs, p50 %.2f ms, p99 %.2f ms, %d failed", f.subject.Name, len(fleet.Addresses()), size, one.PicksPerSecond, one.CPUMicros, one.P50Ms, one.P99Ms, one.Failures)
		}
	}
	for i := range fronts {
		g.rows = append(g.rows, report.NewRow(report.Case{
			Subject: fronts[i].subject.Name, Endpoints: len(fleet.Addresses()), BodyBytes: size, Rate: g.cfg.Rate,
		}, rounds[i]))
	}
	return nil
}

// GatewayTable writes what the picker adds.
func GatewayTable(r *report.Report) []string {
	lines := []string{"| endpoints | body | added p50 ms | added p99 ms | added CPU µs per request | Envoy's share of it | Envoy alone: p50, p99 ms, CPU µs |", "|---|---|---|---|---|---|---|"}
	for i := 0; i+1 < len(r.Rows); i += 2 {
		alone, with := &r.Rows[i], &r.Rows[i+1]
		envoy, _ := with.Part("envoy")
		lines = append(lines, fmt.Sprintf("| %d | %d KB | %.2f | %.2f | %.0f | %.0f | %.2f, %.2f, %.0f |", alone.Endpoints, alone.BodyBytes/1024,
			with.P50Ms.Median-alone.P50Ms.Median, with.P99Ms.Median-alone.P99Ms.Median, with.CPUMicros.Median-alone.CPUMicros.Median, envoy.CPUMicros.Median-alone.CPUMicros.Median,
			alone.P50Ms.Median, alone.P99Ms.Median, alone.CPUMicros.Median))
	}
	return lines
}
