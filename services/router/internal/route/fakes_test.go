package route_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/pick"
	"github.com/pointsman/pointsman/services/router/internal/profile"
	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

type pod = routetest.Pod

// fan answers as told, one function per scorer.
type fan struct {
	answers []func(c *route.Cycle, candidates []int32) route.Scores
	before  func(ctx context.Context) // called before the answers are given
	asked   atomic.Int64
}

func (f *fan) Score(ctx context.Context, c *route.Cycle, scorers []route.Scorer, candidates []int32, out []route.Scores) {
	f.asked.Add(1)
	for i := range scorers {
		out[i] = f.answers[i](c, candidates)
	}
	if f.before != nil {
		f.before(ctx)
	}
}

// gives answers with fixed scores, one per candidate.
func gives(values ...float32) func(*route.Cycle, []int32) route.Scores {
	return func(*route.Cycle, []int32) route.Scores { return route.Scores{Verdict: route.Scored, Values: values} }
}

// counts is gives for a scorer that rates by counts of requests.
func counts(values ...float32) func(*route.Cycle, []int32) route.Scores {
	return func(*route.Cycle, []int32) route.Scores {
		return route.Scores{Verdict: route.Scored, Values: values, RequestsPerPoint: 1}
	}
}

// says answers without scores.
func says(v route.Verdict, reason string) func(*route.Cycle, []int32) route.Scores {
	return func(*route.Cycle, []int32) route.Scores { return route.Scores{Verdict: v, Reason: reason} }
}

// ledger reserves in a roster.
type ledger struct {
	r    *roster.Roster
	last atomic.Uint64
	mu   sync.Mutex
	open map[uint64]roster.ID
	all  map[roster.ID]int
	here int // reservations that prefill after all
}

func newLedger(r *roster.Roster) *ledger {
	return &ledger{r: r, open: map[uint64]roster.ID{}, all: map[roster.ID]int{}}
}

func (l *ledger) Reserve(_ *route.Cycle, e *roster.Endpoint, res *route.ProfileResult) route.Reservation {
	id := l.last.Add(1)
	l.r.Pick("self", id, e.ID, 0, l.r.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id] = e.ID
	l.all[e.ID]++
	return &reservation{l: l, id: id, work: res.Work}
}

type reservation struct {
	l    *ledger
	id   uint64
	work route.Work
}

func (*reservation) PickID() string { return "" }
func (*reservation) FirstToken()    {}

func (r *reservation) Move(to *roster.Endpoint) {
	r.l.r.Finish("self", r.id)
	r.l.r.Pick("self", r.id, to.ID, 0, r.l.r.Now())
}

func (r *reservation) PrefillHere() {
	if r.work == route.WorkDecode {
		r.work = route.WorkAll
		r.l.here++
	}
}
func (r *reservation) Finish(bool, route.Usage) {
	r.l.r.Finish("self", r.id)
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	delete(r.l.open, r.id)
}

// observer keeps what it was told, with all columns.
type observer struct {
	mu   sync.Mutex
	seen []*route.Decision
}

func (o *observer) Decided(d *route.Decision) {
	d.Keep()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, d)
}

// rig is a scheduler and what it works with.
type rig struct {
	*route.Scheduler
	r *roster.Roster
	l *ledger
	o *observer
}

// with makes a profile's contents.
type with struct {
	filters []route.Filter
	scorers []route.Scorer
	picker  route.Picker
	handler route.Handler
	others  int // routers beside this one
}

func (w with) config() *route.Config {
	if w.picker == nil {
		w.picker = pick.NewMaxScore("max-score-picker", 1)
	}
	if w.handler == nil {
		w.handler = profile.NewSingle("single-profile-handler")
	}
	p := &route.Profile{Name: "default", Filters: w.filters, Scorers: w.scorers, Picker: w.picker}
	return &route.Config{Name: "test", Handler: w.handler, Profiles: []*route.Profile{p}}
}

func newRig(t testing.TB, f route.Fan, w with, pods ...pod) *rig {
	t.Helper()
	return newRigDeps(t, route.Deps{Fan: f}, w, pods...)
}

func newRigDeps(t testing.TB, deps route.Deps, w with, pods ...pod) *rig {
	t.Helper()
	g := &rig{r: routetest.Roster(t, pods...), o: &observer{}}
	g.l = newLedger(g.r)
	deps.Roster, deps.Ledger, deps.Observer = g.r, g.l, g.o
	s, err := route.NewScheduler(deps)
	if err != nil {
		t.Fatal(err)
	}
	s.Use(w.config())
	g.Scheduler = s
	return g
}

func scorers(weights ...float64) []route.Scorer {
	var all []route.Scorer
	for i, w := range weights {
		all = append(all, route.Scorer{Plugin: string(rune('a' + i)), Weight: w})
	}
	return all
}

func request() *route.Request { return &route.Request{ID: "r", Headers: route.NoHeaders{}} }
