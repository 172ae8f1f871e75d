package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs the service as its main does and returns its addresses by listener.
func start(t *testing.T, args ...string) map[string]string {
	t.Helper()
	var mu sync.Mutex
	got := make(map[string]string)
	ctx := run.WithAnnounce(context.Background(), func(_, listener, addr string) { mu.Lock(); got[listener] = addr; mu.Unlock() })
	background(ctx, t, func(ctx context.Context) error { return Run(ctx, args, io.Discard) })
	kittest.Eventually(t, "the service listens", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == 2 })
	return got
}

func background(ctx context.Context, t *testing.T, f func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}

func engine(t *testing.T, text string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func get(t *testing.T, method, url, prefill string) (int, string) {
	t.Helper()
	q, err := http.NewRequest(method, url, strings.NewReader(`{"prompt":"p"}`))
	if err != nil {
		t.Fatal(err)
	}
	if prefill != "" {
		q.Header.Set("X-Prefiller-Host-Port", prefill)
	}
	c := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	defer c.CloseIdleConnections()
	resp, err := c.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// The pool's endpoints may be called once a collector has told of them, and nobody else.
func TestAllowedByTheBroadcast(t *testing.T) {
	url := kittest.NATS(t)
	prefill := engine(t, `{"kv_transfer_params":{"remote_host":"h"},"usage":{"prompt_tokens":5}}`)
	decode := engine(t, `{"choices":[]}`)
	at := start(t, "--pool", "p", "--set", "nats.url="+url, "--set", "listen.address=127.0.0.1:0", "--set", "admin.address=127.0.0.1:0", "--set", "log.level=error", "--set", "decode.address="+decode)
	api, admin := "http://"+at["http"]+"/v1/completions", "http://"+at["admin"]
	if code, text := get(t, "POST", api, prefill); code != http.StatusForbidden || !strings.Contains(text, "target-denied") {
		t.Errorf("before a table: %d %s", code, text)
	}
	if code, text := get(t, "POST", api, ""); code != http.StatusOK {
		t.Errorf("without the header: %d %s", code, text)
	}
	if code, text := get(t, "GET", admin+"/readyz", ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "no endpoint table") {
		t.Errorf("ready: %d %s", code, text)
	}
	publish(t, url, prefill)
	kittest.Eventually(t, "it is ready", func() bool { code, _ := get(t, "GET", admin+"/readyz", ""); return code == http.StatusOK })
	if code, text := get(t, "POST", api, prefill); code != http.StatusOK {
		t.Errorf("with a table: %d %s", code, text)
	}
	if code, _ := get(t, "POST", api, decode); code != http.StatusForbidden {
		t.Errorf("another port of the same host: %d", code)
	}
	_, metrics := get(t, "GET", admin+"/metrics", "")
	for _, want := range []string{
		`pointsman_disagg_sidecar_prefill_legs_total{reason="ok"} 1`, `pointsman_disagg_sidecar_decode_only_total{reason="no-header"} 1`,
		`pointsman_disagg_sidecar_requests_total{code="4xx",reason="target-denied"} 2`, "pointsman_disagg_sidecar_prefill_seconds_count 1",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s:\n%s", want, metrics)
		}
	}
}

// publish broadcasts a table as a collector does.
func publish(t *testing.T, url, address string) {
	t.Helper()
	cfg := bus.DefaultConfig()
	cfg.URL = url
	b, err := bus.New(cfg, "p", "collector", telemetry.Discard())
	if err != nil {
		t.Fatal(err)
	}
	tables := bus.NewPublisher(b, bus.Table, func(m *statev1.EndpointTable, stamp *statev1.Stamp) { m.Stamp = stamp })
	connected := make(chan struct{})
	background(context.Background(), t, func(ctx context.Context) error { return b.Part()(ctx, func() { close(connected) }) })
	<-connected
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	made, err := roster.NewTable([]roster.Endpoint{{ID: "e", Host: host, Port: uint16(n)}})
	if err != nil {
		t.Fatal(err)
	}
	// The service may subscribe after this: collectors repeat theirs as well.
	background(context.Background(), t, func(ctx context.Context) error {
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			if err := tables.Publish(follower.TableProto(made)); err != nil && ctx.Err() == nil {
				return err
			}
			select {
			case <-ctx.Done():
				tick.Stop()
				return nil
			case <-tick.C:
			}
		}
	})
}

// Without protection nothing of NATS is needed.
func TestWithoutProtection(t *testing.T) {
	prefill, decode := engine(t, `{"kv_transfer_params":{}}`), engine(t, `{}`)
	at := start(t, "--enable-ssrf-protection=false", "--set", "nats.url=nats://127.0.0.1:1", "--set", "listen.address=127.0.0.1:0", "--set", "admin.address=127.0.0.1:0", "--set", "log.level=error", "--set", "decode.address="+decode)
	if code, text := get(t, "POST", "http://"+at["http"]+"/v1/completions", prefill); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
	if code, text := get(t, "GET", "http://"+at["admin"]+"/readyz", ""); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
}

// The flags of llm-d's sidecar are settings by other names.
func TestFlags(t *testing.T) {
	o, err := parse(strings.Fields("--port=8001 --model-server-port 8201 --kv-connector=sglang --data-parallel-size=2 --secure-proxy --cert-path=/certs --enable-tls=prefiller,decoder,encoder "+
		"--tls-insecure-skip-verify=prefiller --enable-ssrf-protection=false --enable-prefiller-sampling --max-idle-conns-per-host=7 --prefill-max-retries=2 --prefill-retry-backoff=1s "+
		"--metrics-port=9091 --inference-pool=ns/pool --pool-group=x --ec-connector=ec-nixl --decode-chunk-size=64 --enable-p2p-pull=false --pool=p --set=prefill.timeout=3s"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.Pool = "p"
	c := &want.Proxy
	c.Listen.Address, c.Decode.Address, c.Decode.Ranks, c.IdleConnections = ":8001", "127.0.0.1:8201", 2, 7
	c.Listen.TLS.CertFile, c.Listen.TLS.KeyFile = "/certs/tls.crt", "/certs/tls.key"
	c.Prefill.Connector, c.Prefill.Scheme, c.Decode.Scheme, c.Prefill.TLS.InsecureSkipVerify = "sglang", "https", "https", true
	c.Encode.Enabled, c.Encode.Connector, c.Encode.Scheme, c.Decode.ChunkSize = true, "ec-nixl", "https", 64
	c.Prefill.Sampling, c.Prefill.Retries, c.Allow.Pool = true, 2, false
	c.Prefill.Backoff, c.Prefill.Timeout = conf.Duration(time.Second), conf.Duration(3*time.Second)
	want.Telemetry.Admin.Address = ":9091"
	if diff := cmp.Diff(want, o.Config); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"pool-group"}, o.ignored); diff != "" {
		t.Error(diff)
	}
	if o, err := parse([]string{"--secure-proxy", "--metrics-port=0", "--connector=nixlv2", "--vllm-port=8001"}, io.Discard); err != nil || !o.Proxy.Listen.SelfSigned || o.Telemetry.Admin.Address != "" || o.Proxy.Decode.Address != "127.0.0.1:8001" {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range []string{
		"--port=0", "--port=x", "--metrics-port=x", "--enable-tls=all", "--ec-connector=ec-lmcache", "--decode-chunk-size=-1", "--decode-chunk-size=x", "--enable-p2p-pull=x", "--kv-connector=sglang --enable-p2p-pull",
		"--inference-pool=a/b/c", "--inference-pool=/b", "--prefiller-use-tls=x", "--kv-connector=lmcache", "--secure-proxy=maybe", "--nothing", "--pool=", "--data-parallel-size=0",
	} {
		if _, err := parse(strings.Fields(bad), io.Discard); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
