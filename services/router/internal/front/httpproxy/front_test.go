package httpproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// B023, B226 to B229: engines have paths that are not for clients, and the router has none
// by which endpoints register, or by which anybody tells it where requests go.
func TestB227PathsThatAreNotServed(t *testing.T) {
	r := newRig(t, []http.Handler{echo()})
	for _, path := range []string{
		"/", "/metrics", "/health", "/flush_cache", "/debug/pprof/", "/debug/pprof/heap", "/v1", "/v1x/models", "/generate", "/register", "/register_worker", "/add_worker", "/workers", "/route",
		"/v1/../metrics", "/v1/%2e%2e/metrics", "/v1/x/./y", "//v1/models", "/v1//load_lora_adapter", "/v1/%2fload_lora_adapter", "/v1/load_lora_adapter", "/v1/unload_lora_adapter/", "/v2/repository/index", "/tokenizer", "/score_all",
	} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			conn, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			io.WriteString(conn, method+" "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			got, err := io.ReadAll(conn)
			conn.Close()
			if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 404 ") || !strings.Contains(string(got), `"code":"not_found"`) {
				t.Errorf("%s %s: %v %s", method, path, err, got)
			}
		}
	}
	if len(r.seen) != 0 {
		t.Error("decided on:", len(r.seen))
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/x.y/..z", "/v2/models/m/infer", "/tokenize", "/detokenize", "/score", "/rerank", "/pooling", "/classify", "/v1/load_lora_adapters"} {
		if got := r.do("GET", path, ""); got.status != 200 {
			t.Error(path, got)
		}
	}
}

func TestPathsAreConfigured(t *testing.T) {
	r := newRig(t, []http.Handler{echo()}, with(func(c *Config) { c.Paths, c.BlockedPaths = []string{"/health", "/v1/"}, nil }))
	for path, want := range map[string]int{"/health": 200, "/health/deep": 200, "/healthy": 404, "/tokenize": 404, "/v1/load_lora_adapter": 200} {
		if got := r.do("GET", path, ""); got.status != want {
			t.Error(path, got.status)
		}
	}
}

// B214, B216: headers that steer are removed in any case and number; hop-by-hop ones
// end here; the rest arrives.
func TestB214RequestHeaders(t *testing.T) {
	got := make(chan http.Header, 1)
	host := make(chan string, 1)
	r := newRig(t, []http.Handler{http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { got <- q.Header.Clone(); host <- q.Host })})
	r.chat(
		"x-prefiller-url", "http://internal/", "X-PREFILLER-HOST-PORT", "169.254.169.254:80", "x-Prefiller-Host-Port", "10.0.0.1:80", "x-encoder-hosts-ports", "a:1",
		"x-data-parallel-host-port", "a:1", "x-gateway-destination-endpoint", "169.254.169.254:80", "X-Gateway-Destination-Endpoint", "10.0.0.1:80, 10.0.0.2:80",
		"x-gateway-destination-endpoint-subset", "a", "x-gateway-model-name-rewrite", "dear", "x-pointsman-anything", "1", "x-gateway-inference-objective", "o", "x-gateway-inference-fairness-id", "f",
		"Connection", "keep-alive, X-Hop", "X-Hop", "1", "Keep-Alive", "timeout=5", "Proxy-Authorization", "p", "Te", "trailers, deflate", "Upgrade", "h2c", "Http2-Settings", "AAMAAABkAAQAAP__",
		"Authorization", "Bearer secret", "X-Request-Id", "mine-1", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "X-Other", "a", "X-Other", "b", "X-Forwarded-For", "1.2.3.4", "X-Forwarded-Proto", "https",
	)
	h := <-got
	want := http.Header{
		"User-Agent": {"Go-http-client/1.1"}, "Content-Length": {"57"}, "Te": {"trailers"}, "Authorization": {"Bearer secret"}, "X-Request-Id": {"mine-1"},
		"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "X-Other": {"a", "b"}, "X-Forwarded-For": {"1.2.3.4, 127.0.0.1"}, "X-Forwarded-Host": {r.addr}, "X-Forwarded-Proto": {"https"},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Error(diff)
	}
	if at := <-host; at != r.engines[0].Listener.Addr().String() {
		t.Error("host", at)
	}
	seen := r.lastRequest().Headers
	for name, want := range map[string]string{"x-other": "a", "x-gateway-inference-objective": "o", "x-prefiller-host-port": "", "x-gateway-destination-endpoint": "", "x-pointsman-anything": "", "x-none": ""} {
		if got := seen.Get(name); got != want {
			t.Errorf("routing sees %s: %q", name, got)
		}
	}
}

// C7: what an engine says of routing does not reach the client.
func TestC7AnswerHeaders(t *testing.T) {
	r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"X-Backend-Server", "X-Pointsman-Endpoint", "X-Pointsman-Other", "X-Gateway-Destination-Endpoint", "X-Request-Id", "Keep-Alive", "X-Hop"} {
			w.Header().Set(name, "engine's")
		}
		w.Header().Set("Connection", "X-Hop")
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
	})})
	got := r.chat("X-Request-Id", "mine")
	got.header.Del("Date")
	want := http.Header{
		"X-Backend-Server": {"engine's"}, "Set-Cookie": {"a=1", "b=2"}, "X-Request-Id": {"mine"},
		"X-Pointsman-Endpoint": {r.engines[0].Listener.Addr().String()}, "Content-Length": {"0"},
	}
	if diff := cmp.Diff(want, got.header); diff != "" {
		t.Error(diff)
	}
}

func TestRequestIDs(t *testing.T) {
	r := newRig(t, []http.Handler{echo()})
	made := r.chat().header.Get("X-Request-Id")
	if len(made) != 32 || r.lastRequest().ID != made || made == r.chat().header.Get("X-Request-Id") {
		t.Error(made)
	}
	for id, kept := range map[string]bool{"a-1": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "a b": false, "é": false} {
		if got := r.chat("X-Request-Id", id).header.Get("X-Request-Id"); (got == id) != kept || r.lastRequest().ID != got {
			t.Errorf("%q: %q", id, got)
		}
	}
}

// B206: what the router records belongs to the client's trace.
func TestB206Trace(t *testing.T) {
	var got trace.SpanContext
	r := newRig(t, []http.Handler{echo()}, func(r *rig, _ *Config) {
		r.decide = func(ctx context.Context) { got = trace.SpanContextFromContext(ctx) }
	})
	r.chat("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if got.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || !got.IsSampled() || !got.IsRemote() {
		t.Error(got)
	}
	r.chat()
	if got.IsValid() {
		t.Error(got)
	}
}

func TestSession(t *testing.T) {
	r := newRig(t, []http.Handler{echo()})
	r.chat("X-Session-Id", "s1")
	if got := r.lastRequest().SessionKey; got != "s1" {
		t.Error(got)
	}
	r.do("POST", "/v1/completions", `{"model":"m","prompt":"x","user":"u"}`, "X-Session-Id", "s1")
	if got := r.lastRequest().SessionKey; got != "u" {
		t.Error(got)
	}
}

func TestUpgrades(t *testing.T) {
	r := newRig(t, []http.Handler{echo()})
	checkError(t, r.do("GET", "/v1/realtime", "", "Connection", "Upgrade", "Upgrade", "websocket"), 501, "upgrade", "")
	if got := r.do("GET", "/v1/x", "", "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "Http2-Settings", "AAMAAABkAAQAAP__"); got.status != 200 {
		t.Error("an offer of HTTP/2 was refused:", got)
	}
}

// B209: no prompt in logs or errors of ours, however a request ends.
func TestB209NothingIsLogged(t *testing.T) {
	var log bytes.Buffer
	tel := telemetry.Discard()
	tel.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r := newRig(t, []http.Handler{abort()}, func(r *rig, _ *Config) { r.tel = tel })
	for _, body := range []string{`{"model":"m","messages":[{"role":"user","content":"MARKER"}]}`, `{"messages":"MARKER"}`, `MARKER`, `{"model":"m","model":"MARKER"}`} {
		if got := r.do("POST", "/v1/chat/completions", body); strings.Contains(got.body, "MARKER") {
			t.Error(got.body)
		}
	}
	r.stop()
	if strings.Contains(log.String(), "MARKER") || !strings.Contains(log.String(), "level=DEBUG") {
		t.Error(log.String())
	}
}

// B205, B213: the names of metrics and their labels are fixed, whatever clients send.
func TestB213Metrics(t *testing.T) {
	r := newRig(t, []http.Handler{echo()})
	for i := range 20 {
		r.do("POST", "/v1/completions", `{"model":"m`+strings.Repeat("x", i)+`","prompt":"x"}`)
	}
	r.do("GET", "/nowhere", "")
	r.counted(20, "2xx", "ok")
	r.counted(1, "4xx", "not-found")
	for _, name := range []string{"requests_total", "request_seconds_count", "first_byte_seconds_count", "request_bytes_total", "response_bytes_total"} {
		if r.value(name) == 0 {
			t.Error(name, "is not there")
		}
	}
}

func TestModels(t *testing.T) {
	r := newRig(t, []http.Handler{answer200("engine's list"), echo()})
	if got := r.do("GET", "/v1/models", ""); got.body != "engine's list" {
		t.Error("unknown models are not the engine's business:", got)
	}
	r.setModels([]string{"org/b", "a", "a"})
	got := r.do("GET", "/v1/models", "")
	var list struct {
		Object string
		Data   []struct {
			ID, Object, OwnedBy string
			Created             int64
		}
	}
	if err := json.Unmarshal([]byte(got.body), &list); err != nil {
		t.Fatal(got, err)
	}
	if list.Object != "list" || len(list.Data) != 2 || list.Data[0].ID != "a" || list.Data[1].ID != "org/b" || list.Data[0].Object != "model" || list.Data[0].Created == 0 || got.header.Get("Content-Type") != "application/json" {
		t.Error(got.body)
	}
	for _, path := range []string{"/v1/models/org/b", "/v1/models/org%2Fb"} {
		if got := r.do("GET", path, ""); got.status != 200 || !strings.Contains(got.body, `"id":"org/b"`) {
			t.Error(path, got)
		}
	}
	checkError(t, r.do("GET", "/v1/models/c", ""), 404, "model-not-found", "model")
	if got := r.do("HEAD", "/v1/models", ""); got.status != 200 || got.body != "" {
		t.Error(got)
	}
	n := len(r.seen)
	if got := r.do("DELETE", "/v1/models/a", ""); got.status != 200 || len(r.seen) != n+1 {
		t.Error("other methods are the engine's:", got)
	}
}

// A router that stops lets requests that are under way come to their end.
func TestDrain(t *testing.T) {
	ch := make(chan string)
	r := newRig(t, []http.Handler{events(ch, make(chan error, 1))})
	go func() { ch <- "data: {}\n\n" }()
	resp, _ := r.open(client(t), streamBody)
	defer resp.Body.Close()
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	waitFor(t, r, func() bool { // new connections are refused
		conn, err := net.Dial("tcp", r.addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	ch <- "data: [DONE]\n\n"
	close(ch)
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "data: {}\n\ndata: [DONE]\n\n" {
		t.Fatalf("%q %v", b, err)
	}
	<-stopped
}

func TestDrainHasAnEnd(t *testing.T) {
	ch, left := make(chan string), make(chan error, 1)
	r := newRig(t, []http.Handler{events(ch, left)}, with(func(c *Config) { c.DrainTimeout = ms(50) }))
	go func() { ch <- "data: {}\n\n" }()
	resp, _ := r.open(client(t), streamBody)
	defer resp.Body.Close()
	r.stop()
	<-left
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("ended cleanly after %q", b)
	}
}

func TestOccupiedPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := DefaultConfig()
	cfg.Address = l.Addr().String()
	r := &rig{t: t}
	p, err := New(r, nil, r, telemetry.Discard(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Part(io.Discard)(t.Context(), func() { t.Error("ready") })
	if err == nil || !strings.Contains(err.Error(), "http.address") || !strings.Contains(err.Error(), cfg.Address) {
		t.Error(err)
	}
}

func TestNoFront(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Address = ""
	r := &rig{t: t}
	p, err := New(r, nil, r, telemetry.Discard(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(run.WithAnnounce(t.Context(), func(_, _, addr string) { t.Error("listens on", addr) }))
	if err := p.Part(io.Discard)(ctx, cancel); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	c := Config{Paths: []string{"v1"}, BlockedPaths: []string{"x"}, FirstByteTimeout: -1, Retries: -1, RetryStatuses: []int{429}}
	_, err := New(nil, nil, nil, telemetry.Discard(), c)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, key := range []string{"paths:", "blockedPaths:", "maxRequestBytes:", "bodyTimeout:", "connectTimeout:", "firstByteTimeout:", "keepAlive:", "retries:", "retryStatuses:", "idleConnections:", "prompt.maxDepth"} {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not named in %v", key, err)
		}
	}
	c = DefaultConfig()
	c.Endpoints.TLS.CAFile = "/nowhere"
	if _, err := New(nil, nil, nil, telemetry.Discard(), c); err == nil || !strings.Contains(err.Error(), "listen.http.endpoints.tls.caFile: /nowhere") {
		t.Error(err)
	}
}
