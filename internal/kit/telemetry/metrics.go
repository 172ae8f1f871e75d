package telemetry

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/otlptranslator"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// maxSeries bounds the label sets of one instrument: some carry a label per endpoint, of which there may be thousands.
const maxSeries = 20_000

// SecondsBuckets returns the upper bounds, in seconds, of the buckets that histograms have by default: 0.5 ms to 60 s.
func SecondsBuckets() []float64 {
	return []float64{
		.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
	}
}

// openMetrics opens the meter over a registry of its own, and over the OTLP export if there is one.
func (t *Telemetry) openMetrics() error {
	t.registry = prometheus.NewRegistry()
	exporter, err := otelprom.New(
		otelprom.WithRegisterer(prometheus.WrapRegistererWith(t.labels, t.registry)),
		otelprom.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithoutSuffixes),
		otelprom.WithoutScopeInfo(),
		otelprom.WithoutTargetInfo(),
		otelprom.WithAggregationSelector(aggregation),
	)
	if err != nil {
		return fmt.Errorf("open the Prometheus exporter: %w", err)
	}
	opts := []sdkmetric.Option{
		sdkmetric.WithReader(exporter),
		sdkmetric.WithCardinalityLimit(maxSeries),
	}
	if t.export != nil {
		opts = append(opts, sdkmetric.WithReader(t.export.reader), sdkmetric.WithResource(t.export.resource))
	}
	t.meters = sdkmetric.NewMeterProvider(opts...)
	if t.instruments == nil {
		t.instruments = &instruments{}
	}
	t.Meter = notedMeter{t.meters.Meter(scope), t.instruments}
	return nil
}

// aggregation gives histograms our buckets. It is asked of readers, not a view, because a view would also
// override the boundaries that an instrument brings along.
func aggregation(kind sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	if kind == sdkmetric.InstrumentKindHistogram {
		return sdkmetric.AggregationExplicitBucketHistogram{Boundaries: SecondsBuckets()}
	}
	return sdkmetric.DefaultAggregationSelector(kind)
}

// Value is for tests. It returns the present value of a metric by its Prometheus name, summed over the series that carry all
// the label pairs in attrs ("scorer", "kv"). A histogram is read as name_count or name_sum; its plain name is the count.
// 0 if there is no such series.
func (t *Telemetry) Value(name string, attrs ...string) float64 {
	if len(attrs)%2 != 0 {
		panic("telemetry: Value wants label names and values in pairs")
	}
	families, _ := t.Gather() // what could not be gathered reads as 0
	var sum float64
	for _, f := range families {
		field, ok := strings.CutPrefix(name, f.GetName())
		if !ok {
			continue
		}
		for _, m := range f.GetMetric() {
			if matches(m, attrs) {
				sum += value(m, field)
			}
		}
	}
	return sum
}

// value reads one series; field is what the asked name has beyond the family's.
func value(m *dto.Metric, field string) float64 {
	h := m.GetHistogram()
	switch {
	case h != nil && (field == "_count" || field == ""):
		return float64(h.GetSampleCount())
	case h != nil && field == "_sum":
		return h.GetSampleSum()
	case h != nil || field != "":
		return 0
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	}
	return m.GetUntyped().GetValue()
}

func matches(m *dto.Metric, attrs []string) bool {
	for i := 0; i < len(attrs); i += 2 {
		if !hasLabel(m, attrs[i], attrs[i+1]) {
			return false
		}
	}
	return true
}

func hasLabel(m *dto.Metric, name, value string) bool {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue() == value
		}
	}
	return false
}
