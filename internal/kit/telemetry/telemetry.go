package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// scope names who made instruments and spans, in exports.
const scope = "github.com/pointsman/pointsman"

// Telemetry is the log, the instruments and the health of one service.
type Telemetry struct {
	Log    *slog.Logger // carries the attribute service
	Meter  metric.Meter
	Tracer trace.Tracer // records only when an OTLP endpoint is set; always passes the caller's trace on
	Health *Health

	service  string
	cfg      Config
	build    Build
	mux      *http.ServeMux
	patterns []string // of the pages added with Handle
	registry *prometheus.Registry
	labels   prometheus.Labels // of a child
	children children

	instruments *instruments // shared with children

	export  *export // nil when there is no OTLP endpoint
	meters  *sdkmetric.MeterProvider
	tracers *sdktrace.TracerProvider // nil when there is no OTLP endpoint
}

// New returns the telemetry of a service. It starts nothing: Part does. The log goes to stderr.
// version is the service's version; empty means what the Go toolchain has stamped into the binary.
func New(service, version string, cfg Config, stderr io.Writer) (*Telemetry, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t := &Telemetry{
		Log:     newLogger(service, cfg.Log, stderr),
		Health:  new(Health),
		service: service,
		cfg:     cfg,
		build:   readBuild(service, version),
		mux:     http.NewServeMux(),
	}
	t.children.all = make(map[*Telemetry]bool)
	exp, err := newExport(t.build, cfg.Tracing, t.Log)
	if err != nil {
		return nil, err
	}
	t.export = exp
	if err := t.openMetrics(); err != nil {
		return nil, err
	}
	t.openTraces()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		t.build.collector(),
	} {
		if err := t.registry.Register(c); err != nil {
			return nil, fmt.Errorf("register process metrics: %w", err)
		}
	}
	return t, t.export.instrument(t.Meter)
}

// Discard returns telemetry for tests: no output, no admin server, instruments that Value reads.
func Discard() *Telemetry {
	t := &Telemetry{
		Log:     slog.New(slog.DiscardHandler),
		Health:  new(Health),
		service: "test",
		cfg:     Config{},
		build:   readBuild("test", ""),
		mux:     http.NewServeMux(),
	}
	t.children.all = make(map[*Telemetry]bool)
	if err := t.openMetrics(); err != nil {
		panic(fmt.Sprintf("telemetry: open an in-memory meter: %v", err)) // it needs nothing from outside
	}
	t.openTraces()
	return t
}

// Service returns the service's name, as given to New ("test" after Discard).
func (t *Telemetry) Service() string { return t.service }

// Handle adds an admin page. Call it before Part runs. pattern is as in [http.ServeMux].
func (t *Telemetry) Handle(pattern string, h http.Handler) {
	t.mux.Handle(pattern, h)
	t.patterns = append(t.patterns, pattern)
}

func (t *Telemetry) openTraces() {
	if t.export == nil {
		// Without an exporter nobody would ever see a span. The no-op tracer still hands the caller's context on.
		t.Tracer = noop.NewTracerProvider().Tracer(scope)
		return
	}
	t.tracers = sdktrace.NewTracerProvider(
		sdktrace.WithResource(t.export.resource),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(t.cfg.Tracing.SampleRatio))),
	)
	t.Tracer = t.tracers.Tracer(scope)
}

func newLogger(service string, cfg LogConfig, stderr io.Writer) *slog.Logger {
	l, _ := level(cfg.Level) // validated
	opts := &slog.HandlerOptions{Level: l}
	var h slog.Handler = slog.NewTextHandler(stderr, opts)
	if cfg.Format == "json" {
		h = slog.NewJSONHandler(stderr, opts)
	}
	return slog.New(h).With("service", service)
}
