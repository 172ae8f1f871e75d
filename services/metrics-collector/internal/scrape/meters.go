package scrape

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
)

var errNoFigures = errors.New("the page has none of the engine's figures: check engine, metrics.path and metrics.port")

// figureNames are the figures of a page, by their bit in endpoint.unknown.
func figureNames() []string {
	return []string{"waiting_requests", "running_requests", "kv_cache_usage", "kv_cache_blocks"}
}

// unknownBits has a bit for each figure that the page lacks.
func unknownBits(f *engine.Figures) (bits uint32) {
	for i, known := range []bool{
		f.Waiting != engine.Unknown, f.Running != engine.Unknown, f.KVCacheUsage != engine.Unknown, f.BlockSize != 0 && f.BlockCount != 0,
	} {
		if !known {
			bits |= 1 << i
		}
	}
	return bits
}

// meters are what is shown of scraping. Counts are kept here and read when somebody
// looks, which costs a scrape nothing.
type meters struct {
	buffers  buffers
	results  [reasons]atomic.Uint64
	lists    [2]atomic.Uint64 // failed, ok
	duration metric.Float64Histogram
	bytes    metric.Int64Histogram
}

func newMeters(m metric.Meter, endpoints func(func(*endpoint))) (*meters, error) {
	t := &meters{}
	var errs [6]error
	t.duration, errs[0] = m.Float64Histogram("pointsman_metrics_collector_scrape_duration_seconds",
		metric.WithDescription("Time from the request to the end of the page, of pages that arrived."))
	t.bytes, errs[1] = m.Int64Histogram("pointsman_metrics_collector_page_bytes",
		metric.WithDescription("Size of the pages that arrived."), metric.WithExplicitBucketBoundaries(1<<10, 4<<10, 16<<10, 64<<10, 256<<10, 1<<20, 4<<20))
	scrapes, err := m.Int64ObservableCounter("pointsman_metrics_collector_scrapes_total",
		metric.WithDescription("Scrapes, by result: ok, or why they failed."))
	errs[2] = err
	lists, err := m.Int64ObservableCounter("pointsman_metrics_collector_model_lists_total",
		metric.WithDescription("Questions to endpoints for their models, by result."))
	errs[3] = err
	unknown, err := m.Int64ObservableGauge("pointsman_metrics_collector_unknown_figures",
		metric.WithDescription("Endpoints scraped here whose last good page lacks a figure, by figure."))
	errs[4] = err
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	_, errs[5] = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for r := range t.results {
			o.ObserveInt64(scrapes, int64(t.results[r].Load()), result(reason(r).String())) //nolint:gosec // counts
		}
		o.ObserveInt64(lists, int64(t.lists[0].Load()), result("failed")) //nolint:gosec // counts
		o.ObserveInt64(lists, int64(t.lists[1].Load()), result("ok"))     //nolint:gosec // counts
		counts := make([]int64, len(figureNames()))
		endpoints(func(e *endpoint) {
			bits := e.unknown.Load()
			for i := range counts {
				counts[i] += int64(bits >> i & 1)
			}
		})
		for i, name := range figureNames() {
			o.ObserveInt64(unknown, counts[i], metric.WithAttributes(attribute.String("figure", name)))
		}
		return nil
	}, scrapes, lists, unknown)
	return t, errs[5]
}

func result(r string) metric.ObserveOption {
	return metric.WithAttributes(attribute.String("result", r))
}

// page notes a page that arrived.
func (t *meters) page(ctx context.Context, took time.Duration, bytes int) {
	t.duration.Record(ctx, took.Seconds())
	t.bytes.Record(ctx, int64(bytes))
}

// result counts a scrape.
func (t *meters) result(err error) { t.results[reasonOf(err)].Add(1) }

// list counts a question for models.
func (t *meters) list(err error) {
	if err == nil {
		t.lists[1].Add(1)
	} else {
		t.lists[0].Add(1)
	}
}

func reasonOf(err error) reason {
	if err == nil {
		return ok
	}
	if f, is := errors.AsType[*failure](err); is {
		return f.reason
	}
	return cut
}
