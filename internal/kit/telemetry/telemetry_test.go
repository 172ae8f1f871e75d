package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs tel's part for the length of the test and returns the admin pages' base URL.
func serve(t *testing.T, tel *telemetry.Telemetry) (base string) {
	t.Helper()
	ctx, cancel := context.WithCancel(run.WithAnnounce(context.Background(), func(service, listener, addr string) {
		if service != tel.Service() || listener != "admin" {
			t.Errorf("announced as %s %s, want %s admin", service, listener, tel.Service())
		}
		base = "http://" + addr
	}))
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- tel.Part(nil)(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("Part = %v before it was ready", err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Part = %v, want nil after a clean stop", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return base
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func open(t *testing.T, change func(*telemetry.Config)) *telemetry.Telemetry {
	t.Helper()
	cfg := telemetry.DefaultConfig()
	cfg.Admin.Address = "127.0.0.1:0"
	if change != nil {
		change(&cfg)
	}
	tel, err := telemetry.New("router", "v1.2.3", cfg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

func TestAdminPages(t *testing.T) {
	tel := open(t, nil)
	tel.Handle("GET /decisions", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "none yet")
	}))
	tel.Health.Set("roster", errors.New("no table yet"))
	tel.Health.Set("bus", errors.New("not connected"))
	base := serve(t, tel)

	tests := []struct {
		path string
		code int
		body string // a part of it
	}{
		{"/healthz", 200, "ok\n"},
		{"/readyz", 503, "bus: not connected\nroster: no table yet\n"},
		{"/decisions", 200, "none yet"},
		{"/", 200, "GET /decisions"},
		{"/metrics", 200, "go_goroutines "},
		{"/metrics", 200, "process_resident_memory_bytes "},
		{"/metrics", 200, `pointsman_build_info{go_version="go`},
		{"/debug/pprof/", 200, "goroutine"},
		{"/debug/pprof/cmdline", 200, "telemetry.test"},
		{"/nothing", 404, ""},
	}
	for _, tt := range tests {
		code, body := get(t, base+tt.path)
		if code != tt.code || !strings.Contains(body, tt.body) {
			t.Errorf("GET %s = %d %.300q, want %d and %q in it", tt.path, code, body, tt.code, tt.body)
		}
	}

	tel.Health.Set("roster", nil)
	tel.Health.Set("bus", nil)
	if code, body := get(t, base+"/readyz"); code != 200 || body != "ready\n" {
		t.Errorf("GET /readyz = %d %q once all checks are ok", code, body)
	}
	tel.Health.Note("redis", errors.New("away"))
	if code, body := get(t, base+"/readyz"); code != 200 || body != "ready\nredis: away\n" {
		t.Errorf("GET /readyz = %d %q while it does without something", code, body)
	}
	tel.Health.Note("redis", nil)
	if _, body := get(t, base+"/readyz"); body != "ready\n" {
		t.Errorf("GET /readyz = %q once it has all", body)
	}
	var build telemetry.Build
	_, text := get(t, base+"/buildinfo")
	if err := json.Unmarshal([]byte(text), &build); err != nil {
		t.Fatalf("GET /buildinfo: %v in %s", err, text)
	}
	if build.Service != "router" || build.Version != "v1.2.3" || !strings.HasPrefix(build.GoVersion, "go1.") {
		t.Errorf("build = %+v", build)
	}
}

// B228: what shows memory is off unless it can be reached from this machine alone.
func TestB228Pprof(t *testing.T) {
	on, off := true, false
	tests := []struct {
		name    string
		address string
		pprof   *bool
		code    int
		body    string
	}{
		{"loopback, by default", "127.0.0.1:0", nil, 200, "profiles"},
		{"loopback, off", "127.0.0.1:0", &off, 404, "--set admin.pprof=true"},
		{"every interface, by default", ":0", nil, 404, "--set admin.pprof=true"},
		{"every interface, on", ":0", &on, 200, "profiles"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := serve(t, open(t, func(c *telemetry.Config) {
				c.Admin = telemetry.AdminConfig{Address: tt.address, Pprof: tt.pprof}
			}))
			base = strings.Replace(base, "[::]", "127.0.0.1", 1)
			code, body := get(t, base+"/debug/pprof/")
			if code != tt.code || !strings.Contains(body, tt.body) {
				t.Errorf("GET /debug/pprof/ = %d %.200q, want %d and %q in it", code, body, tt.code, tt.body)
			}
		})
	}
}

func TestOccupiedPort(t *testing.T) {
	base := serve(t, open(t, nil))
	address := strings.TrimPrefix(base, "http://")
	second := open(t, func(c *telemetry.Config) { c.Admin.Address = address })
	err := second.Part(nil)(t.Context(), func() { t.Error("ready was called") })
	want := "admin.address: listen on " + address +
		": address already in use; choose another with --set admin.address=HOST:PORT or stop the process that holds it"
	if err == nil || err.Error() != want {
		t.Errorf("Part = %v, want %s", err, want)
	}
}

func TestAdminOff(t *testing.T) {
	tel := open(t, func(c *telemetry.Config) { c.Admin.Address = "" })
	if base := serve(t, tel); base != "" {
		t.Errorf("listens on %s although the address is empty", base)
	}
}

func TestMetricNames(t *testing.T) {
	tel := open(t, nil)
	ctx := t.Context()
	picks, err := tel.Meter.Int64Counter("pointsman_router_picks_total", metric.WithUnit("1"))
	if err != nil {
		t.Fatal(err)
	}
	picks.Add(ctx, 2, metric.WithAttributes(attribute.String("scorer", "kv"), attribute.String("pool", "blue")))
	picks.Add(ctx, 3, metric.WithAttributes(attribute.String("scorer", "queue"), attribute.String("pool", "blue")))
	endpoints, err := tel.Meter.Int64Gauge("pointsman_router_endpoints")
	if err != nil {
		t.Fatal(err)
	}
	endpoints.Record(ctx, 7)
	took, err := tel.Meter.Float64Histogram("pointsman_router_pick_seconds", metric.WithUnit("s"))
	if err != nil {
		t.Fatal(err)
	}
	took.Record(ctx, 0.25)
	took.Record(ctx, 0.5)
	size, err := tel.Meter.Int64Histogram("pointsman_router_body_bytes", metric.WithExplicitBucketBoundaries(1024, 65536))
	if err != nil {
		t.Fatal(err)
	}
	size.Record(ctx, 2000)

	values := []struct {
		name  string
		attrs []string
		want  float64
	}{
		{"pointsman_router_picks_total", nil, 5},
		{"pointsman_router_picks_total", []string{"scorer", "kv"}, 2},
		{"pointsman_router_picks_total", []string{"pool", "blue", "scorer", "queue"}, 3},
		{"pointsman_router_picks_total", []string{"scorer", "none"}, 0},
		{"pointsman_router_endpoints", nil, 7},
		{"pointsman_router_pick_seconds", nil, 2},
		{"pointsman_router_pick_seconds_count", nil, 2},
		{"pointsman_router_pick_seconds_sum", nil, 0.75},
		{"pointsman_router_picks", nil, 0},
		{"pointsman_router_unknown_total", nil, 0},
	}
	for _, v := range values {
		if got := tel.Value(v.name, v.attrs...); got != v.want {
			t.Errorf("Value(%s, %q) = %v, want %v", v.name, v.attrs, got, v.want)
		}
	}

	_, page := get(t, serve(t, tel)+"/metrics")
	var ours []string
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "pointsman_router_") {
			ours = append(ours, strings.TrimSpace(line))
		}
	}
	want := strings.Split(strings.TrimSpace(`
pointsman_router_body_bytes_bucket{le="1024"} 0
pointsman_router_body_bytes_bucket{le="65536"} 1
pointsman_router_body_bytes_bucket{le="+Inf"} 1
pointsman_router_body_bytes_sum 2000
pointsman_router_body_bytes_count 1
pointsman_router_endpoints 7
pointsman_router_pick_seconds_bucket{le="0.0005"} 0
pointsman_router_pick_seconds_bucket{le="0.001"} 0
pointsman_router_pick_seconds_bucket{le="0.0025"} 0
pointsman_router_pick_seconds_bucket{le="0.005"} 0
pointsman_router_pick_seconds_bucket{le="0.01"} 0
pointsman_router_pick_seconds_bucket{le="0.025"} 0
pointsman_router_pick_seconds_bucket{le="0.05"} 0
pointsman_router_pick_seconds_bucket{le="0.1"} 0
pointsman_router_pick_seconds_bucket{le="0.25"} 1
pointsman_router_pick_seconds_bucket{le="0.5"} 2
pointsman_router_pick_seconds_bucket{le="1"} 2
pointsman_router_pick_seconds_bucket{le="2.5"} 2
pointsman_router_pick_seconds_bucket{le="5"} 2
pointsman_router_pick_seconds_bucket{le="10"} 2
pointsman_router_pick_seconds_bucket{le="30"} 2
pointsman_router_pick_seconds_bucket{le="60"} 2
pointsman_router_pick_seconds_bucket{le="+Inf"} 2
pointsman_router_pick_seconds_sum 0.75
pointsman_router_pick_seconds_count 2
pointsman_router_picks_total{pool="blue",scorer="kv"} 2
pointsman_router_picks_total{pool="blue",scorer="queue"} 3
`), "\n")
	if d := cmp.Diff(want, ours); d != "" {
		t.Errorf("/metrics (-want +got):\n%s", d)
	}
}

func TestDiscard(t *testing.T) {
	tel := telemetry.Discard()
	c, err := tel.Meter.Int64Counter("pointsman_x_total")
	if err != nil {
		t.Fatal(err)
	}
	c.Add(t.Context(), 1)
	if got := tel.Value("pointsman_x_total"); got != 1 {
		t.Errorf("Value = %v, want 1", got)
	}
	if other := telemetry.Discard().Value("pointsman_x_total"); other != 0 {
		t.Errorf("another telemetry reads %v, want 0: nothing is shared", other)
	}
	serve(t, tel)
}

func TestLog(t *testing.T) {
	tests := []struct {
		format, level string
		want          string
	}{
		{"text", "info", "level=INFO msg=\"table changed\" service=router endpoints=3\n"},
		{"json", "warn", ""},
		{"json", "debug", `"level":"INFO","msg":"table changed","service":"router","endpoints":3}` + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.format+" "+tt.level, func(t *testing.T) {
			cfg := telemetry.DefaultConfig()
			cfg.Log = telemetry.LogConfig{Level: tt.level, Format: tt.format}
			var out bytes.Buffer
			tel, err := telemetry.New("router", "", cfg, &out)
			if err != nil {
				t.Fatal(err)
			}
			tel.Log.Info("table changed", "endpoints", 3)
			if !strings.HasSuffix(out.String(), tt.want) || (tt.want == "") != (out.Len() == 0) {
				t.Errorf("log = %q, want it to end with %q", out.String(), tt.want)
			}
		})
	}
}

func TestTracerWithoutExportHandsTheCallersTraceOn(t *testing.T) {
	parent := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	_, span := open(t, nil).Tracer.Start(trace.ContextWithSpanContext(t.Context(), parent), "router.Pick")
	defer span.End()
	if span.SpanContext().TraceID() != parent.TraceID() || span.IsRecording() {
		t.Errorf("span = %+v, recording %v; want the caller's trace, and no recording", span.SpanContext(), span.IsRecording())
	}
}
