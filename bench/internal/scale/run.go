package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pointsman/pointsman/bench/internal/chat"
	"github.com/pointsman/pointsman/bench/internal/load"
	"github.com/pointsman/pointsman/bench/internal/measure"
	"github.com/pointsman/pointsman/bench/internal/mesh"
	"github.com/pointsman/pointsman/bench/internal/traffic"
)

// bodiesOf is how many different requests of one size there are: no multiple of any
// number of routers, so that each is asked them all.
const bodiesOf = 127

// ScoringTimeout is how long routers wait for scores: far longer than they would
// otherwise, since a dozen processes on two cores answer late, and a pick that goes
// without scores is cheaper.
const ScoringTimeout = 500 * time.Millisecond

// run is a run under way.
type run struct {
	cfg    Config
	fleets map[int]*mesh.Fleet // by endpoints
	bodies map[int][][]byte    // by size
	rounds map[Case][]round
}

// Run measures all cases and returns their rows, setup after setup. Every round starts
// every mesh anew, so that what the machine does to one it does to all; only one runs at
// a time. What was started has ended when it returns.
func Run(ctx context.Context, cfg Config) (rows []Row, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = func(string, ...any) {}
	}
	r := &run{cfg: cfg, fleets: make(map[int]*mesh.Fleet), bodies: make(map[int][][]byte), rounds: make(map[Case][]round)}
	defer func() {
		for _, f := range r.fleets {
			err = errors.Join(err, f.Stop())
		}
	}()
	for _, s := range cfg.Setups {
		if r.fleets[s.Endpoints] != nil {
			continue
		}
		if r.fleets[s.Endpoints], err = mesh.StartFleet(cfg.Self, s.Endpoints, cfg.LargePages); err != nil {
			delete(r.fleets, s.Endpoints)
			return nil, err
		}
	}
	for n := range cfg.Rounds {
		for _, s := range cfg.Setups {
			if err := r.setup(ctx, s, n); err != nil {
				return nil, fmt.Errorf("%s: %w", s.cell(0, Idle).Name(), err)
			}
		}
	}
	for _, s := range cfg.Setups {
		for _, c := range s.cases() {
			rows = append(rows, newRow(c, r.rounds[c]))
		}
	}
	return rows, nil
}

// cell is one case of a setup.
func (s Setup) cell(size int, l Load) Case {
	return Case{Endpoints: s.Endpoints, Routers: s.Routers, Indexers: s.Indexers, Scorers: s.Scorers, ScrapeMs: int(s.Scrape.Milliseconds()), BodyBytes: size, Load: l}
}

// cases are all cases of a setup, the idle one first.
func (s Setup) cases() []Case {
	all := []Case{s.cell(0, Idle)}
	for _, size := range s.Bodies {
		all = append(all, s.cell(size, Open), s.cell(size, Closed))
	}
	return all
}

// setup measures one round of a mesh.
func (r *run) setup(ctx context.Context, s Setup, number int) (err error) {
	fleet := r.fleets[s.Endpoints]
	m, err := mesh.New(ctx, mesh.Config{
		Binaries: r.cfg.Binaries, Self: r.cfg.Self, Endpoints: fleet.Addresses(), ScrapeInterval: s.Scrape, Env: r.cfg.Env,
		RouterSets: []string{"scoring.timeout=" + ScoringTimeout.String()},
		Routers:    s.Routers, Replicas: map[string]int{indexer: s.Indexers, queue: s.Scorers, kv: s.Scorers},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	subject := m.Subject("pointsman")
	var idle round
	for _, c := range s.cases() {
		w := measure.Window{WarmUp: r.cfg.WarmUp, Busy: []int{fleet.PID()}}
		if c.Load == Idle {
			w.Length = r.cfg.Idle
			f, err := measure.Idle(ctx, &subject, w)
			if err != nil {
				return err
			}
			idle = newRound(&subject, f, nil)
			r.rounds[c] = append(r.rounds[c], idle)
			continue
		}
		one, err := r.loaded(ctx, m, &subject, c, w, number, &idle)
		if err != nil {
			return err
		}
		r.rounds[c] = append(r.rounds[c], one)
		r.cfg.Log("%s: %.0f picks/s, p99 %.1f ms, CPU %.0f µs, NATS %.2f messages and %.0f bytes in per pick, %d failed", c.Name(), one.rate, one.p99, one.pick(), one.perPick.MessagesIn, one.perPick.BytesIn, one.failures)
	}
	return nil
}

// loaded measures one round of a case that asks.
func (r *run) loaded(ctx context.Context, m *mesh.Mesh, s *mesh.Subject, c Case, w measure.Window, number int, idle *round) (one round, err error) {
	if r.bodies[c.BodyBytes] == nil {
		r.bodies[c.BodyBytes] = chat.Bodies(bodiesOf, c.BodyBytes)
	}
	var asked []load.Exchange
	for _, address := range m.ExtProc() {
		p, err := load.NewPicker(load.PickerConfig{Address: address, Connections: 2, Bodies: r.bodies[c.BodyBytes], Endpoints: s.Endpoints})
		if err != nil {
			return one, err
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		asked = append(asked, p.Exchange)
	}
	cfg := load.Config{Exchange: load.Spread(asked), Seed: uint64(number)} //nolint:gosec // a round's number
	var counted *Counted
	if c.Load == Open {
		w.Length, cfg.Rate = r.cfg.Open, r.cfg.Rate
		if number == 0 {
			w.Then = func(ctx context.Context, runner *load.Runner) (err error) {
				runner.Begin()
				subjects, err := traffic.BySubject(ctx, m.NATS(), r.cfg.Count)
				res := runner.End()
				counted = &Counted{PicksPerSecond: float64(res.Completed) / res.Window.Seconds(), Subjects: subjects}
				return err
			}
		}
	} else {
		w.Length, cfg.Concurrency = r.cfg.Closed, r.cfg.Streams
	}
	f, err := measure.Loaded(ctx, s, cfg, w)
	if err != nil {
		return one, err
	}
	one = newRound(s, f, idle)
	one.counted = counted
	return one, nil
}
