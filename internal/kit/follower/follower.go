package follower

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/outcomes"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

const (
	askTimeout = time.Second            // for one answer
	joinQuiet  = 100 * time.Millisecond // after the last router's answer
	retryJoin  = 500 * time.Millisecond // while no table is held
	dropPause  = 30 * time.Second       // between two log lines about messages that cannot be used
)

var errNoTable = errors.New("no endpoint table yet: is a metrics-collector of this pool running?")

// Follower applies the broadcast to a roster.
type Follower struct {
	roster *roster.Roster
	bus    *bus.Bus
	health *telemetry.Health
	log    *slog.Logger

	mu       sync.Mutex
	tables   tables
	policies policies
	routers  routers
	heard    int64 // ns of the last table or load; 0: never

	heardRouters atomic.Int32
	hearing      hearing

	asks  chan string   // routers whose open picks are to be asked for
	joins chan struct{} // all state is to be asked for

	resyncs, dropped metric.Int64Counter
	quietUntil       atomic.Int64 // ns of the roster's clock: when drop may warn again
}

// New returns a follower. It subscribes on the bus, so call it before the bus runs.
func New(r *roster.Roster, b *bus.Bus, tel *telemetry.Telemetry) (*Follower, error) {
	f := &Follower{
		roster: r, bus: b, health: tel.Health, log: tel.Log,
		routers: routers{roster: r, feeds: make(map[string]*feed)},
		asks:    make(chan string, 64), joins: make(chan struct{}, 1),
	}
	if err := f.instruments(tel.Meter); err != nil {
		return nil, err
	}
	f.health.Set("roster", errNoTable)
	bus.Subscribe(b, bus.Table, func() *statev1.EndpointTable { return &statev1.EndpointTable{} }, f.onTable)
	bus.Subscribe(b, bus.Load, func() *statev1.EndpointLoads { return &statev1.EndpointLoads{} }, f.onLoads)
	batch := &outcomes.Batch{Deaf: b.PublisherID()}
	bus.Subscribe(b, bus.Outcome, func() *outcomes.Batch { return batch }, f.onOutcomes)
	b.OnReset(f.join)
	return f, nil
}

// StateAge returns how long ago a collector was heard; false if never.
func (f *Follower) StateAge() (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.roster.Now() - f.heard), f.heard != 0
}

// Routers returns how many routers are heard, this process's own not counted.
func (f *Follower) Routers() int { return int(f.heardRouters.Load()) }

// Part asks for what was missed and ends the picks of routers that fell silent.
func (f *Follower) Part() run.Part {
	return func(ctx context.Context, ready func()) error {
		ready()
		f.join()
		retry, janitor := time.NewTicker(retryJoin), time.NewTicker(time.Second)
		defer retry.Stop()
		defer janitor.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-f.joins:
				f.askState(ctx)
				f.askAllPicks(ctx)
			case id := <-f.asks:
				f.askPicks(ctx, id)
			case <-retry.C:
				if f.roster.Snapshot().Len() == 0 {
					f.askState(ctx)
				}
			case <-janitor.C:
				f.dropSilent()
				f.askDoubtful()
			}
		}
	}
}

func (f *Follower) join() {
	select {
	case f.joins <- struct{}{}:
	default: // already asked for
	}
}

func (f *Follower) onTable(m *statev1.EndpointTable, _ bus.Meta) {
	now := f.roster.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = now
	t, err := f.tables.hear(m, now)
	if err != nil {
		f.drop("table", err)
		return
	}
	f.roster.SetTable(t)
	f.health.Set("roster", nil)
}

func (f *Follower) onLoads(m *statev1.EndpointLoads, _ bus.Meta) {
	now := f.roster.Now()
	f.mu.Lock()
	f.heard = now
	f.mu.Unlock()
	if err := f.roster.ApplyLoads(LoadsFromProto(m), now); err != nil {
		f.drop("load", err)
	}
}

func (f *Follower) onOutcomes(m *outcomes.Batch, _ bus.Meta) {
	id := m.GetStamp().GetPublisherId()
	if id == f.bus.PublisherID() {
		f.hearing.echo(m.GetStamp())
		return
	}
	f.mu.Lock()
	ask := f.routers.hear(m, f.roster.Now())
	f.countRouters()
	f.mu.Unlock()
	if ask {
		f.ask(id)
	}
}

// ask has a router's open picks asked for.
func (f *Follower) ask(id string) {
	select {
	case f.asks <- id:
	default: // so many at once: ask everybody
		f.join()
	}
}

// drop counts a message that cannot be used. Whoever sends one is likely to send
// more, 20 a second, so only the first in a while is a warning. A load for a table not
// held is usual for a moment when members change, so it is no more than a debug line.
func (f *Follower) drop(kind string, err error) {
	level := slog.LevelDebug
	if now, quiet := f.roster.Now(), f.quietUntil.Load(); now >= quiet && !errors.Is(err, roster.ErrTableNotHeld) &&
		f.quietUntil.CompareAndSwap(quiet, now+int64(dropPause)) {
		level = slog.LevelWarn
	}
	f.log.Log(context.Background(), level, "dropped a broadcast message", "kind", kind, "error", err)
	f.dropped.Add(context.Background(), 1, metric.WithAttributes(attribute.String("kind", kind)))
}

func (f *Follower) askState(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	a, err := bus.Request(ctx, f.bus, bus.GetState, &statev1.GetStateRequest{}, func() *statev1.GetStateResponse { return &statev1.GetStateResponse{} })
	if err != nil {
		f.log.Debug("nobody told the endpoint table", "error", err)
		return
	}
	if a.GetPolicy() != nil && f.policies.use != nil {
		f.onPolicy(a.GetPolicy(), bus.Meta{}) // before there is anybody to send to
	}
	if a.GetTable() != nil {
		f.onTable(a.GetTable(), bus.Meta{})
	}
	if a.GetLoads() != nil {
		f.onLoads(a.GetLoads(), bus.Meta{})
	}
}

func (f *Follower) askAllPicks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	as, err := bus.RequestMany(ctx, f.bus, bus.GetPicks, &statev1.GetPicksRequest{}, newPicks, joinQuiet)
	if err != nil {
		f.log.Debug("open picks of the routers are not known", "error", err)
	}
	answered := make(map[string]bool, len(as))
	for _, a := range as {
		answered[a.GetStamp().GetPublisherId()] = true
		f.takePicks(a.GetStamp().GetPublisherId(), a)
	}
	// Whoever was being asked when the question to all replaced it must not wait.
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, fd := range f.routers.feeds {
		if fd.asking && !answered[id] {
			f.routers.answered(id, nil, f.roster.Now())
		}
	}
}

func (f *Follower) askPicks(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	f.resyncs.Add(ctx, 1)
	a, err := bus.Request(ctx, f.bus, bus.GetPicks, &statev1.GetPicksRequest{RouterId: id}, newPicks)
	if err != nil {
		f.log.Debug("open picks of a router are not known", "router", id, "error", err)
		a = nil
	}
	f.takePicks(id, a)
}

func newPicks() *statev1.GetPicksResponse { return &statev1.GetPicksResponse{} }

func (f *Follower) takePicks(id string, a *statev1.GetPicksResponse) {
	if id == f.bus.PublisherID() {
		return
	}
	f.mu.Lock()
	again := f.routers.answered(id, a, f.roster.Now())
	f.countRouters()
	f.mu.Unlock()
	if again {
		f.ask(id)
	}
}

// countRouters is called with mu held.
func (f *Follower) countRouters() { f.heardRouters.Store(int32(len(f.routers.feeds))) } //nolint:gosec // a handful

// askDoubtful asks again where nobody answered and something is missing.
func (f *Follower) askDoubtful() {
	f.mu.Lock()
	ids := f.routers.doubtful(f.roster.Now())
	f.mu.Unlock()
	for _, id := range ids {
		f.ask(id)
	}
}

func (f *Follower) dropSilent() {
	f.mu.Lock()
	gone := f.routers.silent(f.roster.Now())
	f.countRouters()
	f.mu.Unlock()
	for _, id := range gone {
		f.log.Warn("router fell silent, its open picks are ended", "router", id)
	}
}
