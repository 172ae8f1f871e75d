package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	exportInterval = 15 * time.Second // of metrics
	exportTimeout  = 3 * time.Second  // of one export of metrics, and of all that is sent at the end
)

// export is what goes to an OTLP collector.
type export struct {
	url      string // empty: the exporters read it from the environment
	log      *slog.Logger
	resource *resource.Resource
	reader   *sdkmetric.ManualReader // collected by sendMetrics
	errors   metric.Int64Counter

	mu      sync.Mutex
	readers []*sdkmetric.ManualReader // of children

	traces  signal
	metrics signal
}

// signal is one kind of telemetry that is exported.
type signal struct {
	name    string
	failing atomic.Bool
}

// newExport returns nil when no endpoint is set.
func newExport(b Build, cfg TracingConfig, log *slog.Logger) (*export, error) {
	e := &export{log: log}
	e.traces.name, e.metrics.name = "traces", "metrics"
	switch {
	case cfg.OTLPEndpoint != "":
		u, err := endpointURL(cfg.OTLPEndpoint)
		if err != nil {
			return nil, fmt.Errorf("tracing.otlpEndpoint: %w", err)
		}
		e.url = u
	case os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "":
		return nil, nil
	}
	res, err := resource.New(context.Background(),
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithAttributes(
			attribute.String("service.namespace", "pointsman"),
			attribute.String("service.name", b.Service),
			attribute.String("service.version", b.Version),
		),
		resource.WithFromEnv(), // last: OTEL_RESOURCE_ATTRIBUTES wins
	)
	if err != nil {
		return nil, fmt.Errorf("describe this process to OpenTelemetry: %w", err)
	}
	e.resource = res
	e.reader = sdkmetric.NewManualReader(sdkmetric.WithAggregationSelector(aggregation))
	return e, nil
}

// instrument makes the export's own counter; nothing for a nil export.
func (e *export) instrument(m metric.Meter) (err error) {
	if e == nil {
		return nil
	}
	e.errors, err = m.Int64Counter("pointsman_telemetry_export_errors_total",
		metric.WithDescription("Exports to the OTLP collector that failed, by signal."))
	return err
}

// open opens the exporters, which does not reach out yet, and returns the function that exports until its context ends, and
// then once more.
func (e *export) open(ctx context.Context, tracers *sdktrace.TracerProvider) (func(context.Context) error, error) {
	traceOpts := []otlptracegrpc.Option{otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
		Enabled: true, InitialInterval: 500 * time.Millisecond, MaxInterval: 5 * time.Second, MaxElapsedTime: 20 * time.Second,
	})}
	metricOpts := []otlpmetricgrpc.Option{otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{
		Enabled: false, // the next export says it all again
	})}
	if e.url != "" {
		traceOpts = append(traceOpts, otlptracegrpc.WithEndpointURL(e.url))
		metricOpts = append(metricOpts, otlpmetricgrpc.WithEndpointURL(e.url))
	}
	traces, err := otlptracegrpc.New(ctx, traceOpts...)
	if err != nil {
		return nil, fmt.Errorf("tracing.otlpEndpoint: open the exporter of traces: %w", err)
	}
	metrics, err := otlpmetricgrpc.New(ctx, metricOpts...)
	if err != nil {
		_ = traces.Shutdown(ctx) // it has sent nothing
		return nil, fmt.Errorf("tracing.otlpEndpoint: open the exporter of metrics: %w", err)
	}
	tracers.RegisterSpanProcessor(sdktrace.NewBatchSpanProcessor(&spanExporter{traces, e}))
	return func(ctx context.Context) error {
		e.loop(ctx, metrics)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTimeout)
		defer cancel()
		e.sendMetrics(last, metrics)
		// The outcome of the last exports has been logged; a collector that is away must not fail a clean stop.
		_ = tracers.Shutdown(last)
		_ = metrics.Shutdown(last)
		return nil
	}, nil
}

// loop exports metrics until ctx ends. Spans are exported by their processor.
func (e *export) loop(ctx context.Context, exporter sdkmetric.Exporter) {
	tick := time.NewTicker(exportInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.sendMetrics(ctx, exporter)
		case <-ctx.Done():
			return
		}
	}
}

func (e *export) sendMetrics(ctx context.Context, exporter sdkmetric.Exporter) {
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	var errs []error
	for _, reader := range append([]*sdkmetric.ManualReader{e.reader}, e.ofChildren()...) {
		var rm metricdata.ResourceMetrics
		err := reader.Collect(ctx, &rm)
		if err == nil {
			err = exporter.Export(ctx, &rm)
		}
		errs = append(errs, err)
	}
	e.note(ctx, &e.metrics, errors.Join(errs...))
}

func (e *export) ofChildren() []*sdkmetric.ManualReader {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.readers)
}

func (e *export) add(r *sdkmetric.ManualReader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readers = append(e.readers, r)
}

func (e *export) remove(r *sdkmetric.ManualReader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readers = slices.DeleteFunc(e.readers, func(other *sdkmetric.ManualReader) bool { return other == r })
}

// note counts a failed export, and logs when failing begins and ends.
func (e *export) note(ctx context.Context, s *signal, err error) {
	if err == nil {
		if s.failing.Swap(false) {
			e.log.Info("export works again", "signal", s.name)
		}
		return
	}
	e.errors.Add(ctx, 1, metric.WithAttributes(attribute.String("signal", s.name)))
	if !s.failing.Swap(true) {
		e.log.Warn("export fails; telemetry is lost until it works again", "signal", s.name, "error", err)
	}
}

// spanExporter keeps failures from the SDK's global error handler.
type spanExporter struct {
	sdktrace.SpanExporter
	export *export
}

func (s *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	s.export.note(ctx, &s.export.traces, s.SpanExporter.ExportSpans(ctx, spans))
	return nil
}
