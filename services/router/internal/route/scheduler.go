package route

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// maxRounds bounds how often a handler is asked for more profiles.
const maxRounds = 16

// Roster is where snapshots come from.
type Roster interface {
	// Snapshot returns the current view, never nil.
	Snapshot() *roster.Snapshot
	// Now returns the clock that the snapshots' times are on, in ns.
	Now() int64
}

// Observer is told of every decision that was made, dry runs excepted.
type Observer interface {
	// Decided is called once per decision, after it is complete and outside all
	// locks. It must be quick, and must not change d. If it looks at the columns of d's
	// results later, it keeps them by d.Keep.
	Decided(d *Decision)
}

// Deps are what a Scheduler works with.
type Deps struct {
	// Roster is REQUIRED.
	Roster Roster
	// Pool names the pool, for the tokens of sessions. It may be empty.
	Pool string
	// Fan asks the scorers. REQUIRED.
	Fan Fan
	// Ledger makes the reservations. REQUIRED.
	Ledger Ledger
	// Quarantine may be nil: nobody is out.
	Quarantine Quarantine
	// Observer may be nil.
	Observer Observer
	// Admitter may be nil: everybody is let in.
	Admitter Admitter
	// Counts are the requests in flight of all routers, for pickers that go by them.
	// Nil: those pickers go by what this router knows.
	Counts Counts
	// OtherRouters returns how many other routers share the pool. It must be quick.
	// Nil: none.
	OtherRouters func() int
	// Hearing returns about how long a pick takes to be heard of by other routers. Nil
	// or little: 5 ms.
	Hearing func() time.Duration
	// Rand returns a uniform number in [0, n) and is safe for concurrent use. Nil:
	// the process's generator.
	Rand func(n int) int
}

// Config is one complete routing configuration. It is immutable once in use.
type Config struct {
	// Name says where it came from, such as a file name.
	Name string
	// Handler is never nil.
	Handler Handler
	// Profiles are in configuration order, at least one.
	Profiles []*Profile
	// Detector says whether endpoints have room. Nil: they always do.
	Detector Detector
}

// Scheduler makes decisions. Safe for concurrent use.
type Scheduler struct {
	deps      Deps
	config    atomic.Pointer[Config]
	identity  atomic.Pointer[[]int32]
	addresses atomic.Pointer[addressIndex]
	scratch   sync.Pool // of *[]int64
	columns   sync.Pool // of *columns

	// pickMu makes reading the counts in flight, picking by them and reserving the
	// pick one step, so that the next pick sees this one.
	pickMu sync.Mutex
	recent []recentPick  // own picks, oldest first; for unheard
	guess  []int64       // of unheard
	picks  atomic.Uint64 // of this router, ever; written under pickMu
}

// NewScheduler returns a Scheduler without a configuration. It is an error if a
// required dependency is missing.
func NewScheduler(deps Deps) (*Scheduler, error) {
	var faults []error
	if deps.Roster == nil {
		faults = append(faults, errors.New("scheduler: no roster"))
	}
	if deps.Fan == nil {
		faults = append(faults, errors.New("scheduler: no fan"))
	}
	if deps.Ledger == nil {
		faults = append(faults, errors.New("scheduler: no ledger"))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if deps.Rand == nil {
		deps.Rand = rand.IntN
	}
	return &Scheduler{deps: deps}, nil
}

// Use makes cfg the configuration of all decisions that begin from now on. Those
// under way finish by the one they began with.
func (s *Scheduler) Use(cfg *Config) { s.config.Store(cfg) }

// Config returns the configuration in use; nil before the first Use.
func (s *Scheduler) Config() *Config { return s.config.Load() }

// Decide decides on a request and reserves the pick. It never returns nil; a
// decision without an endpoint has Err.
func (s *Scheduler) Decide(ctx context.Context, req *Request) *Decision {
	d := s.decide(ctx, req, false)
	if s.deps.Observer != nil {
		s.deps.Observer.Decided(d)
	}
	d.forget()
	return d
}

// Explain decides as Decide would now, with all that there is to tell, and neither
// reserves nor counts anything.
func (s *Scheduler) Explain(ctx context.Context, req *Request) *Decision {
	return s.decide(ctx, req, true)
}

func (s *Scheduler) decide(ctx context.Context, req *Request, dry bool) *Decision {
	began := time.Now()
	f := &frame{}
	d, c := &f.decision, &f.cycle
	*d = Decision{Request: req, Pool: s.deps.Pool, Snapshot: s.deps.Roster.Snapshot(), Config: s.config.Load(), Time: began, DryRun: dry}
	*c = Cycle{Request: req, Snapshot: d.Snapshot, Now: s.deps.Roster.Now(), Explain: dry, Rand: s.deps.Rand}
	if d.Config == nil {
		d.Err = fmt.Errorf("%w: no configuration is in use", ErrNoEndpoint)
	} else {
		s.route(ctx, f)
	}
	d.Elapsed = time.Since(began)
	return d
}

// route finds out who could serve the request, whether it is let in, and who gets it.
func (s *Scheduler) route(ctx context.Context, f *frame) {
	in := s.eligible(&f.cycle)
	f.decision.QuarantineWaived = in.waived
	if f.decision.Err = s.admit(f, &in); f.decision.Err != nil {
		return
	}
	s.runProfiles(ctx, f, in)
	if in.whole != nil && errors.Is(f.decision.Err, ErrNoEndpoint) {
		// Of those whom a profile's filters let through, all are in quarantine, such as the
		// only one that decodes.
		in.waive()
		f.decision.Err, f.decision.QuarantineWaived = nil, true
		s.runProfiles(ctx, f, in)
	}
}

// runProfiles runs what the handler names and takes over the primary result.
func (s *Scheduler) runProfiles(ctx context.Context, f *frame, in eligible) {
	d, c := &f.decision, &f.cycle
	d.Results = f.results[:0]
	h := d.Config.Handler
	for range maxRounds {
		next := h.Next(c, d.Config.Profiles, d.Results)
		if len(next) == 0 {
			break
		}
		for _, p := range next {
			d.Results = append(d.Results, s.runProfile(ctx, f, p, in))
		}
	}
	primary, err := h.Primary(c, d.Results)
	if err == nil && primary == nil {
		err = fmt.Errorf("%w: %s named no result", ErrNoEndpoint, h.Name())
	}
	if err == nil {
		err = primary.Err
	}
	if err == nil {
		err = f.plan(primary)
	}
	if err != nil {
		d.Err = err
		for _, r := range d.Results {
			if r.Reservation != nil {
				r.Reservation.Finish(false, NoUsage())
				r.Reservation = nil
			}
		}
		return
	}
	d.SessionHeaders = sessionHeaders(primary.Profile)
	d.Reservation = together(primary, d.Results)
	d.Fallbacks = f.fallbacks[:0]
	for i, at := range primary.Ranked {
		e := &d.Snapshot.Table.Endpoints[primary.Candidates[at]]
		if i == 0 {
			d.Endpoint = e
		} else {
			d.Fallbacks = append(d.Fallbacks, e)
		}
	}
}
