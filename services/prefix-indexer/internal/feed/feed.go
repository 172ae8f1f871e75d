package feed

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/internal/kit/bus"
	told "github.com/pointsman/pointsman/internal/kit/outcomes"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/audit"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/recency"
)

const (
	healthCheck = "prefixes"
	// janitorPeriod is how often exports that nobody goes on with are looked for.
	janitorPeriod = 10 * time.Second
)

// Errors of the health check.
var (
	errNoEndpoints = errors.New("waiting for the endpoint table before asking for prefixes")
	errCopying     = errors.New("copying the index of another prefix-indexer")
)

// Feed fills an index. Its Part may run once.
type Feed struct {
	cfg      Config
	index    *index.Index
	bus      *bus.Bus
	health   *telemetry.Health
	log      *slog.Logger
	lender   lender
	outcomes outcomes
	order    *recency.Order
	joined   metric.Int64Counter
}

// New returns a feed that fills the index, and the order in which endpoints were sent
// cold prompts. It subscribes on the bus, so call it before the bus runs.
func New(x *index.Index, order *recency.Order, b *bus.Bus, cfg Config, tel *telemetry.Telemetry) (*Feed, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := &Feed{
		cfg: cfg, index: x, order: order, bus: b, health: tel.Health, log: tel.Log,
		lender: lender{index: x, order: order, id: b.PublisherID(), pageBytes: cfg.PageBytes, loans: make(map[string]*loan)},
	}
	var err error
	f.joined, err = tel.Meter.Int64Counter("pointsman_prefix_indexer_copied_entries_total",
		metric.WithDescription("Index entries copied from another prefix-indexer."))
	if err != nil {
		return nil, err
	}
	f.outcomes = outcomes{feed: f, picks: picks{open: make(map[pickID]*pick)}, judge: audit.NewJudge()}
	if err := f.outcomes.instruments(tel.Meter); err != nil {
		return nil, err
	}
	f.health.Set(healthCheck, errNoEndpoints)
	bus.Subscribe(b, bus.Prefix, func() *statev1.PrefixBatch { return &statev1.PrefixBatch{} }, f.learn)
	batch := &told.Batch{}
	bus.Subscribe(b, bus.Outcome, func() *told.Batch { return batch }, f.outcomes.hear)
	bus.Respond(b, bus.GetPrefixes, func() *statev1.GetPrefixesRequest { return &statev1.GetPrefixesRequest{} }, f.lender.answer)
	return f, nil
}

// learn takes what a router has placed. The index counts what it cannot use.
func (f *Feed) learn(m *statev1.PrefixBatch, _ bus.Meta) {
	router, now := m.GetStamp().GetPublisherId(), time.Now()
	for _, p := range m.GetPlacements() {
		if p.GetCold() {
			f.order.Touch(p.GetEndpointId())
		}
		placed, err := f.index.Place(keyOf(p), p.GetEndpointId(), p.GetHashes())
		if err != nil {
			f.log.Debug("prompt not learned", "router", router, "endpoint", p.GetEndpointId(), "error", err)
		}
		if p.GetPickId() == 0 || placed.Mark == 0 {
			continue
		}
		claim := f.outcomes.judge.Begin(keyOf(p), p.GetEndpointId(), placed, now)
		var chain []uint64
		if f.outcomes.served != nil {
			chain = p.GetHashes()
		}
		f.outcomes.claim(pickID{router, p.GetPickId()}, now, claim, chain)
	}
	for _, p := range m.GetPlacements() { // all of a pick's come together
		if o := f.outcomes.picks.placed(pickID{router, p.GetPickId()}); o != nil && o.full {
			f.outcomes.finish(o, o.usage, now)
		}
	}
}

// OnServed has f called with every prompt that was answered in full, and by whom. It must
// not block, and may keep the chain. Call it before the bus runs.
func (f *Feed) OnServed(served func(k index.Key, endpoint string, chain []uint64)) {
	f.outcomes.served = served
}

// Keep forgets what is known of endpoints other than these, apart from the index, which
// has to be told itself.
func (f *Feed) Keep(endpoints []string) {
	f.order.Keep(endpoints)
	f.outcomes.keep(endpoints)
}

// Part copies another indexer's index, then answers those who want to copy this one.
func (f *Feed) Part() run.Part {
	return func(ctx context.Context, ready func()) error {
		ready()
		f.join(ctx)
		if ctx.Err() != nil {
			return nil
		}
		f.lender.open()
		f.health.Set(healthCheck, nil)
		janitor := time.NewTicker(janitorPeriod)
		defer janitor.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case now := <-janitor.C:
				f.lender.sweep(now)
				f.outcomes.sweep(now)
			}
		}
	}
}
