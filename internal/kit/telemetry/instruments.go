package telemetry

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/metric"
)

// Instrument is a metric that a process has, whether or not it has a value yet.
type Instrument struct {
	Name        string
	Kind        string // counter, gauge or histogram
	Description string
}

// instruments notes what is made of a meter.
type instruments struct {
	mu  sync.Mutex
	all map[string]Instrument
}

// list returns the instruments, ascending by name.
func (i *instruments) list() []Instrument {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := make([]Instrument, 0, len(i.all))
	for _, in := range i.all {
		out = append(out, in)
	}
	slices.SortFunc(out, func(a, b Instrument) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (i *instruments) note(name, kind, description string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.all == nil {
		i.all = make(map[string]Instrument)
	}
	i.all[name] = Instrument{name, kind, description}
}

// Instruments returns the metrics that the service has made so far, ascending by name; not those of the Go runtime and of the
// process.
func (t *Telemetry) Instruments() []Instrument { return t.instruments.list() }

// showInstruments is the page that lists them: name, kind and description, separated by tabs.
func (t *Telemetry) showInstruments(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, i := range t.Instruments() {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", i.Name, i.Kind, i.Description) // whoever asked has gone
	}
}

// notedMeter is a meter whose instruments are noted.
type notedMeter struct {
	metric.Meter
	notes *instruments
}

func (m notedMeter) Int64Counter(name string, o ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	m.notes.note(name, "counter", metric.NewInt64CounterConfig(o...).Description())
	return m.Meter.Int64Counter(name, o...)
}

func (m notedMeter) Float64Counter(name string, o ...metric.Float64CounterOption) (metric.Float64Counter, error) {
	m.notes.note(name, "counter", metric.NewFloat64CounterConfig(o...).Description())
	return m.Meter.Float64Counter(name, o...)
}

func (m notedMeter) Int64UpDownCounter(name string, o ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	m.notes.note(name, "gauge", metric.NewInt64UpDownCounterConfig(o...).Description())
	return m.Meter.Int64UpDownCounter(name, o...)
}

func (m notedMeter) Float64UpDownCounter(name string, o ...metric.Float64UpDownCounterOption) (metric.Float64UpDownCounter, error) {
	m.notes.note(name, "gauge", metric.NewFloat64UpDownCounterConfig(o...).Description())
	return m.Meter.Float64UpDownCounter(name, o...)
}

func (m notedMeter) Int64Gauge(name string, o ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	m.notes.note(name, "gauge", metric.NewInt64GaugeConfig(o...).Description())
	return m.Meter.Int64Gauge(name, o...)
}

func (m notedMeter) Float64Gauge(name string, o ...metric.Float64GaugeOption) (metric.Float64Gauge, error) {
	m.notes.note(name, "gauge", metric.NewFloat64GaugeConfig(o...).Description())
	return m.Meter.Float64Gauge(name, o...)
}

func (m notedMeter) Int64Histogram(name string, o ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	m.notes.note(name, "histogram", metric.NewInt64HistogramConfig(o...).Description())
	return m.Meter.Int64Histogram(name, o...)
}

func (m notedMeter) Float64Histogram(name string, o ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	m.notes.note(name, "histogram", metric.NewFloat64HistogramConfig(o...).Description())
	return m.Meter.Float64Histogram(name, o...)
}

func (m notedMeter) Int64ObservableCounter(name string, o ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	m.notes.note(name, "counter", metric.NewInt64ObservableCounterConfig(o...).Description())
	return m.Meter.Int64ObservableCounter(name, o...)
}

func (m notedMeter) Float64ObservableCounter(name string, o ...metric.Float64ObservableCounterOption) (metric.Float64ObservableCounter, error) {
	m.notes.note(name, "counter", metric.NewFloat64ObservableCounterConfig(o...).Description())
	return m.Meter.Float64ObservableCounter(name, o...)
}

func (m notedMeter) Int64ObservableGauge(name string, o ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	m.notes.note(name, "gauge", metric.NewInt64ObservableGaugeConfig(o...).Description())
	return m.Meter.Int64ObservableGauge(name, o...)
}

func (m notedMeter) Float64ObservableGauge(name string, o ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	m.notes.note(name, "gauge", metric.NewFloat64ObservableGaugeConfig(o...).Description())
	return m.Meter.Float64ObservableGauge(name, o...)
}
