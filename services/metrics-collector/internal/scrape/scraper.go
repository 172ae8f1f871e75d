package scrape

import (
	"context"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

// Sink takes what is read. Its methods are called from many goroutines.
type Sink interface {
	// Observed tells a page's figures. At is when the scrape began.
	Observed(fleet.ID, fleet.Reading)
	// Learned tells an endpoint's details, when they change.
	Learned(fleet.ID, fleet.Details)
}

// Assignment is an endpoint to be scraped.
type Assignment struct {
	ID     fleet.ID
	Target *fleet.Target
}

// Scraper scrapes the endpoints that it is assigned.
type Scraper struct {
	cfg     Config
	catalog *engine.Catalog
	sink    Sink
	log     *slog.Logger
	meters  *meters

	mu        sync.Mutex
	ctx       context.Context // of the part; nil before it runs
	loops     sync.WaitGroup
	endpoints map[fleet.ID]*endpoint
}

// New returns a scraper without endpoints.
func New(cfg Config, catalog *engine.Catalog, sink Sink, log *slog.Logger, meter metric.Meter) (*Scraper, error) {
	s := &Scraper{cfg: cfg, catalog: catalog, sink: sink, log: log, endpoints: make(map[fleet.ID]*endpoint)}
	var err error
	s.meters, err = newMeters(meter, s.each)
	return s, err
}

// Part scrapes until its context ends, and then waits for all scrapes to be cut off.
func (s *Scraper) Part() run.Part {
	return func(ctx context.Context, ready func()) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s.mu.Lock()
		s.ctx = ctx
		for _, e := range s.endpoints {
			s.start(e)
		}
		s.mu.Unlock()
		ready()
		<-ctx.Done()
		s.mu.Lock()
		s.endpoints = make(map[fleet.ID]*endpoint)
		s.mu.Unlock()
		s.loops.Wait()
		return nil
	}
}

// Assign says what is to be scraped from now on. An endpoint that is there already
// with the same target goes on undisturbed. It is an error if an endpoint's address
// makes no URL; the others are scraped all the same.
func (s *Scraper) Assign(assignments []Assignment) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx != nil && s.ctx.Err() != nil {
		return nil
	}
	fresh := make(map[fleet.ID]*endpoint, len(assignments))
	var fault error
	for _, a := range assignments {
		if old := s.endpoints[a.ID]; old != nil && old.target == a.Target {
			fresh[a.ID] = old
			continue
		}
		e, err := s.newEndpoint(a)
		if err != nil {
			fault = err
			continue
		}
		fresh[a.ID] = e
	}
	for id, old := range s.endpoints {
		if fresh[id] != old && old.cancel != nil {
			old.cancel()
		}
	}
	started := s.endpoints
	s.endpoints = fresh
	if s.ctx != nil {
		for id, e := range fresh {
			if started[id] != e {
				s.start(e)
			}
		}
	}
	return fault
}

func (s *Scraper) newEndpoint(a Assignment) (*endpoint, error) {
	t := a.Target
	e := &endpoint{id: a.ID, target: t, cfg: &s.cfg, sink: s.sink, log: s.log, meters: s.meters, reader: s.catalog.Reader(engine.Name(t.Engine))}
	var err error
	if e.page, err = newFetcher(t.URL(&t.Metrics), pageAccept, &t.Metrics, s.cfg.ConnectTimeout.D(), s.cfg.MaxPageBytes); err != nil {
		return nil, err
	}
	if len(t.Models) > 0 {
		return e, nil
	}
	e.list, err = newFetcher(t.URL(&t.ModelList), "application/json", &t.ModelList, s.cfg.ConnectTimeout.D(), maxListBytes)
	if err != nil {
		return nil, err
	}
	e.list.request.Close = true // half a minute is too long to keep a connection open for
	return e, e.list.wire.use(e.list.request)
}

// start begins the endpoint's loops. Called with mu held, while the part runs.
func (s *Scraper) start(e *endpoint) {
	ctx, cancel := context.WithCancel(s.ctx)
	e.cancel = cancel
	s.loops.Go(func() { e.scrapeLoop(ctx) })
	if e.list != nil {
		s.loops.Go(func() { e.listLoop(ctx) })
	}
}

// Attempted returns how many of the assigned endpoints have been scraped at least
// once, well or badly, and how many are assigned.
func (s *Scraper) Attempted() (attempted, assigned int) {
	s.each(func(e *endpoint) {
		assigned++
		if e.attempted.Load() {
			attempted++
		}
	})
	return attempted, assigned
}

func (s *Scraper) each(f func(*endpoint)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.endpoints {
		f(e)
	}
}
