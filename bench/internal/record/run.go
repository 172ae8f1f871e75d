package record

import (
	"context"
	"errors"
	"fmt"

	"github.com/pointsman/pointsman/bench/internal/chat"
	"github.com/pointsman/pointsman/bench/internal/load"
	"github.com/pointsman/pointsman/bench/internal/mesh"
	"github.com/pointsman/pointsman/bench/internal/report"
)

// bodiesOf is how many different requests of one size there are.
const bodiesOf = 128

// comparedEndpoints and comparedBytes are the cell at which placements are compared.
const (
	comparedEndpoints = 100
	comparedBytes     = 8 << 10
)

// run is a run under way.
type run struct {
	cfg    Config
	floor  mesh.Subject
	bodies map[int][][]byte // by size
	rows   []report.Row
}

// Run measures all cases and returns their rows. What it started has ended by then.
func Run(ctx context.Context, cfg Config) (rows []report.Row, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = func(string, ...any) {}
	}
	floor, subject, err := mesh.StartFloor(cfg.Self, cfg.Env)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, floor.Stop()) }()
	r := &run{cfg: cfg, floor: subject, bodies: make(map[int][][]byte)}
	for _, n := range cfg.Endpoints {
		if err := r.table(ctx, n); err != nil {
			return nil, fmt.Errorf("%d endpoints: %w", n, err)
		}
	}
	if len(cfg.Placements) > 0 {
		if err := r.placements(ctx); err != nil {
			return nil, fmt.Errorf("placements: %w", err)
		}
	}
	return r.rows, nil
}

// table measures the cells of one pool.
func (r *run) table(ctx context.Context, endpoints int) (err error) {
	var sizes []int
	for _, size := range r.cfg.Bodies {
		if r.cfg.wants(endpoints, size) {
			sizes = append(sizes, size)
		}
	}
	if len(sizes) == 0 {
		return nil
	}
	fleet, err := mesh.StartFleet(r.cfg.Self, endpoints, r.cfg.LargePages)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Stop()) }()
	m, err := mesh.New(ctx, r.mesh(fleet.Addresses(), mesh.TCP))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for _, size := range sizes {
		cases := []subjectCase{
			{subject: m.Subject("pointsman"), placement: mesh.TCP},
			{subject: r.floor},
		}
		for _, o := range r.cfg.Others {
			cases = append(cases, subjectCase{subject: other(o)})
		}
		for i := range cases {
			cases[i].endpoints, cases[i].size, cases[i].streams = endpoints, size, r.cfg.Streams
		}
		if err := r.interleave(ctx, cases, []int{fleet.PID()}); err != nil {
			return err
		}
	}
	return nil
}

func other(o Other) mesh.Subject {
	s := mesh.Subject{Name: o.Name, Address: o.Address}
	for i, pid := range o.PIDs {
		s.Parts = append(s.Parts, mesh.Part{Name: fmt.Sprintf("%s-%d", o.Name, i+1), Counted: true, PID: pid})
	}
	return s
}

func (r *run) mesh(endpoints []string, p mesh.Placement) mesh.Config {
	return mesh.Config{
		Binaries: r.cfg.Binaries, Self: r.cfg.Self, Endpoints: endpoints, Placement: p,
		ScrapeInterval: r.cfg.scrapeInterval(len(endpoints)), Env: r.cfg.Env, ScorerEnv: r.cfg.ScorerEnv,
	}
}

// placements compares where scorers are, at full load and at a low one. Only one mesh
// runs at a time: what idles beside another is not free.
func (r *run) placements(ctx context.Context) (err error) {
	fleet, err := mesh.StartFleet(r.cfg.Self, comparedEndpoints, r.cfg.LargePages)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Stop()) }()
	for _, p := range r.cfg.Placements {
		if err := r.placement(ctx, p, fleet); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	floors := []subjectCase{{subject: r.floor, endpoints: comparedEndpoints, size: comparedBytes, rate: r.cfg.Rate}}
	return r.interleave(ctx, floors, []int{fleet.PID()})
}

func (r *run) placement(ctx context.Context, p mesh.Placement, fleet *mesh.Fleet) (err error) {
	m, err := mesh.New(ctx, r.mesh(fleet.Addresses(), p))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	base := subjectCase{subject: m.Subject("pointsman"), placement: p, endpoints: comparedEndpoints, size: comparedBytes}
	busy, idle := base, base
	busy.streams, idle.rate = r.cfg.Streams, r.cfg.Rate
	return r.interleave(ctx, []subjectCase{busy, idle}, []int{fleet.PID()})
}

// subjectCase is a subject and what it is asked.
type subjectCase struct {
	subject         mesh.Subject
	placement       mesh.Placement
	endpoints, size int
	streams         int
	rate            float64
}

// interleave measures the cases in turn, round after round, and adds a row for each.
func (r *run) interleave(ctx context.Context, cases []subjectCase, busy []int) error {
	rounds := make([][]report.Round, len(cases))
	for n := range r.cfg.Rounds {
		for i := range cases {
			c := &cases[i]
			one, err := r.round(ctx, c, uint64(n), busy)
			if err != nil {
				return err
			}
			rounds[i] = append(rounds[i], one)
			r.cfg.Log("%s %s, %d endpoints, %d bytes, rate %.0f: %.0f picks/s, %.0f µs, p99 %.1f ms, %d failed", c.subject.Name, c.placement, c.endpoints, c.size, c.rate, one.PicksPerSecond, one.CPUMicros, one.P99Ms, one.Failures)
		}
	}
	for i, c := range cases {
		scrape := 0
		if c.placement != "" {
			scrape = int(r.cfg.scrapeInterval(c.endpoints).Milliseconds())
		}
		r.rows = append(r.rows, report.NewRow(report.Case{
			Subject: c.subject.Name, Placement: string(c.placement), Endpoints: c.endpoints, BodyBytes: c.size, Streams: c.streams, Rate: c.rate, ScrapeMs: scrape,
		}, rounds[i]))
	}
	return nil
}

func (r *run) round(ctx context.Context, c *subjectCase, seed uint64, busy []int) (one report.Round, err error) {
	if r.bodies[c.size] == nil {
		r.bodies[c.size] = chat.Bodies(bodiesOf, c.size)
	}
	picker, err := load.NewPicker(load.PickerConfig{Address: c.subject.Address, Connections: 2, Bodies: r.bodies[c.size], Endpoints: c.subject.Endpoints})
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, picker.Close()) }()
	w := window{r.cfg.WarmUp, r.cfg.Window}
	cfg := load.Config{Exchange: picker.Exchange, Seed: seed}
	if c.rate > 0 {
		w.length, cfg.Rate = r.cfg.OpenWindow, c.rate
	} else {
		cfg.Concurrency = c.streams
	}
	one, err = measured(ctx, &c.subject, cfg, w, busy)
	if err == nil && r.cfg.Profiles != "" && int(seed) == r.cfg.Rounds-1 && c.placement != "" {
		err = r.profile(ctx, c, cfg)
	}
	return one, err
}

// profile loads a subject once more and profiles it meanwhile.
func (r *run) profile(ctx context.Context, c *subjectCase, cfg load.Config) error {
	runner, err := load.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer runner.Stop()
	return profile(ctx, &c.subject, r.cfg.Profiles, fmt.Sprintf("%s-%d-%d-%.0f", c.placement, c.endpoints, c.size, c.rate))
}
