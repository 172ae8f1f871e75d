package remote

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// Roster is where the loads come from that scorers are taught. *roster.Roster is one.
type Roster interface {
	// Now is the clock that the snapshots' times are on, in ns.
	Now() int64
	// SnapshotOf returns the newest view of a table, if it is still held.
	SnapshotOf(digest uint64) (*roster.Snapshot, bool)
}

// Pending tells which picks of this router a scorer may not have heard of.
type Pending interface {
	// Pending returns the picks in outcome batches above after, at positions of the
	// table; nil for none. The message is not changed afterwards.
	Pending(after uint64, table *roster.Table) *scorerv1.PendingPicks
}

// Deps is what a Set works with.
type Deps struct {
	// Roster is REQUIRED.
	Roster Roster
	// RouterID names this router process, as on the broadcast. REQUIRED.
	RouterID string
	// Embedded are the scorers in this process, by the names of their services. Those
	// that are built in are asked unless a configuration says where else they are.
	Embedded map[string]Embedded
	// Lookup finds the addresses of a host. Nil: the system's resolver.
	Lookup LookupFunc
}

// Set is all scorer services. Safe for concurrent use.
type Set struct {
	cfg      Config
	deps     Deps
	tel      *telemetry.Telemetry
	metrics  *metrics
	services []*service // built-in ones first, then in configuration order
	pending  Pending
	outboxes outboxes
	breaker  breakerConfig

	mu       sync.Mutex
	changed  chan struct{}   // closed at the next change of what is known
	ctx      context.Context // of the part; nil when it does not run
	waitEnds time.Time       // no configuration waits longer than this
	running  sync.WaitGroup
}

// New returns a Set that has not contacted anybody yet. It is an error if the
// configuration is wrong or a required dependency is missing.
func New(cfg Config, deps Deps, tel *telemetry.Telemetry) (*Set, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Roster == nil || deps.RouterID == "" {
		return nil, errors.New("scorers: no roster or no router id")
	}
	if deps.Lookup == nil {
		deps.Lookup = net.DefaultResolver.LookupHost
	}
	s := &Set{cfg: cfg, deps: deps, tel: tel, changed: make(chan struct{}), breaker: defaultBreaker()}
	configured := make(map[string]bool)
	for _, c := range cfg.Scorers {
		configured[c.Name] = true
	}
	for _, c := range complete(cfg.Scorers, deps.Embedded) {
		svc, err := newService(s, c, configured[c.Name])
		if err != nil {
			return nil, err
		}
		s.services = append(s.services, svc)
	}
	m, err := newMetrics(tel.Meter, s.services)
	if err != nil {
		return nil, err
	}
	s.metrics = m
	return s, nil
}

// SendPending sends the picks that p tells of along with calls by table reference.
// Call it before Part runs.
func (s *Set) SendPending(p Pending) { s.pending = p }

// Part connects to the scorers and keeps doing so. It is ready at once: nothing needs
// a scorer to be up. Built-in services that no configuration uses are left alone.
func (s *Set) Part() run.Part {
	return func(ctx context.Context, ready func()) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s.mu.Lock()
		s.ctx, s.waitEnds = ctx, time.Now().Add(s.cfg.ScorerWait.D())
		for _, svc := range s.services {
			if svc.wanted {
				s.start(svc)
			}
		}
		s.mu.Unlock()
		ready()
		<-ctx.Done()
		s.mu.Lock()
		s.ctx = nil
		s.mu.Unlock()
		s.running.Wait()
		return nil
	}
}

// Loading says that a configuration is about to be loaded: scorers that have not been
// reached are waited for anew, for Config.ScorerWait. Before Part runs it does nothing.
func (s *Set) Loading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx != nil {
		s.waitEnds = time.Now().Add(s.cfg.ScorerWait.D())
	}
}

// want starts connecting to a service, now or as soon as Part runs.
func (s *Set) want(svc *service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if svc.wanted {
		return
	}
	svc.wanted = true
	if s.ctx != nil {
		s.start(svc)
	}
}

func (s *Set) start(svc *service) {
	ctx := s.ctx
	s.running.Go(func() { svc.run(ctx) })
}

// change wakes everybody who waits for something to become known.
func (s *Set) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// next returns a channel that is closed at the next change, and how long it may still
// be waited for; zero if nobody shall wait.
func (s *Set) next() (<-chan struct{}, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		return s.changed, 0
	}
	return s.changed, max(0, time.Until(s.waitEnds))
}

// Status returns all services that are in use, in order.
func (s *Set) Status() []*routerv1.ScorerStatus {
	var all []*routerv1.ScorerStatus
	for _, svc := range s.services {
		s.mu.Lock()
		wanted := svc.wanted
		s.mu.Unlock()
		if wanted {
			all = append(all, svc.status())
		}
	}
	return all
}
