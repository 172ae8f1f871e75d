package telemetry_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// collector is an OTLP collector that notes "service: signal name" of what it gets.
type collector struct {
	collectortrace.UnimplementedTraceServiceServer
	mu   sync.Mutex
	seen map[string]bool
}

func (c *collector) note(service, signal, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[service+": "+signal+" "+name] = true
}

func (c *collector) Export(_ context.Context, req *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	for _, r := range req.GetResourceSpans() {
		service := ""
		for _, a := range r.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, s := range r.GetScopeSpans() {
			for _, span := range s.GetSpans() {
				c.note(service, "span", span.GetName())
			}
		}
	}
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

// metricsCollector is the other half: both services call their method Export.
type metricsCollector struct {
	collectormetrics.UnimplementedMetricsServiceServer
	c *collector
}

func (m metricsCollector) Export(_ context.Context, req *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	for _, r := range req.GetResourceMetrics() {
		service := ""
		for _, a := range r.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, s := range r.GetScopeMetrics() {
			for _, metric := range s.GetMetrics() {
				m.c.note(service, "metric", metric.GetName())
			}
		}
	}
	return &collectormetrics.ExportMetricsServiceResponse{}, nil
}

func TestExportAtTheEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{seen: make(map[string]bool)}
	server := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(server, c)
	collectormetrics.RegisterMetricsServiceServer(server, metricsCollector{c: c})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()

	for _, how := range []string{"configuration", "environment"} {
		t.Run(how, func(t *testing.T) {
			c.mu.Lock()
			clear(c.seen)
			c.mu.Unlock()
			tel := open(t, func(cfg *telemetry.Config) {
				cfg.Tracing.SampleRatio = 1
				if how == "configuration" {
					cfg.Tracing.OTLPEndpoint = l.Addr().String()
				} else {
					t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
				}
			})
			counter, err := tel.Meter.Int64Counter("pointsman_router_picks_total")
			if err != nil {
				t.Fatal(err)
			}
			t.Run("part", func(t *testing.T) { // its cleanup stops the part
				serve(t, tel)
				counter.Add(t.Context(), 1)
				_, span := tel.Tracer.Start(t.Context(), "router.Pick")
				span.End()
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			want := map[string]bool{"router: span router.Pick": true, "router: metric pointsman_router_picks_total": true}
			if d := cmp.Diff(want, c.seen); d != "" {
				t.Errorf("exported (-want +got):\n%s", d)
			}
			if got := tel.Value("pointsman_telemetry_export_errors_total"); got != 0 {
				t.Errorf("%v errors were counted", got)
			}
		})
	}
	server.Stop()
	<-served
}

func TestExportToNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // the port is free again: nobody answers there
	var log bytes.Buffer
	cfg := telemetry.DefaultConfig()
	cfg.Admin.Address = ""
	cfg.Tracing = telemetry.TracingConfig{SampleRatio: 1, OTLPEndpoint: l.Addr().String()}
	tel, err := telemetry.New("router", "", cfg, &log)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("part", func(t *testing.T) { serve(t, tel) }) // fails if the part does not stop cleanly
	if got := tel.Value("pointsman_telemetry_export_errors_total", "signal", "metrics"); got < 1 {
		t.Errorf("%v errors were counted, want at least 1", got)
	}
	if n := strings.Count(log.String(), "export fails"); n != 1 {
		t.Errorf("log = %q: want exactly one line that says export fails", log.String())
	}
}
