package feed

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
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
	cfg    Config
	index  *index.Index
	bus    *bus.Bus
	health *telemetry.Health
	log    *slog.Logger
	lender lender
	cold   func(endpoint string) // nil: nobody wants to know
	joined metric.Int64Counter
}

// New returns a feed. It subscribes on the bus, so call it before the bus runs.
func New(x *index.Index, b *bus.Bus, cfg Config, tel *telemetry.Telemetry) (*Feed, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := &Feed{
		cfg: cfg, index: x, bus: b, health: tel.Health, log: tel.Log,
		lender: lender{index: x, id: b.PublisherID(), pageBytes: cfg.PageBytes, loans: make(map[string]*loan)},
	}
	var err error
	f.joined, err = tel.Meter.Int64Counter("pointsman_prefix_indexer_copied_entries_total",
		metric.WithDescription("Index entries copied from another prefix-indexer."))
	if err != nil {
		return nil, err
	}
	f.health.Set(healthCheck, errNoEndpoints)
	bus.Subscribe(b, bus.Prefix, func() *statev1.PrefixBatch { return &statev1.PrefixBatch{} }, f.learn)
	bus.Respond(b, bus.GetPrefixes, func() *statev1.GetPrefixesRequest { return &statev1.GetPrefixesRequest{} }, f.lender.answer)
	return f, nil
}

// OnCold has f called with the endpoint of every prompt of which nobody held anything,
// in the order of their arrival. Call it before the bus runs.
func (f *Feed) OnCold(cold func(endpoint string)) { f.cold = cold }

// learn takes what a router has placed. The index counts what it cannot use.
func (f *Feed) learn(m *statev1.PrefixBatch, _ bus.Meta) {
	for _, p := range m.GetPlacements() {
		if p.GetCold() && f.cold != nil {
			f.cold(p.GetEndpointId())
		}
		if err := f.index.Place(keyOf(p), p.GetEndpointId(), p.GetHashes()); err != nil {
			f.log.Debug("prompt not learned", "router", m.GetStamp().GetPublisherId(), "endpoint", p.GetEndpointId(), "error", err)
		}
	}
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
			}
		}
	}
}
