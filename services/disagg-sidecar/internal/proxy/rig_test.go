package proxy

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/disagg-sidecar/internal/allow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// got is a request that an engine has got.
type got struct {
	path, host string
	header     http.Header
	body       string
}

// engine is a model server.
type engine struct {
	server  *httptest.Server
	address string

	mu   sync.Mutex
	seen []got
	busy map[net.Conn]bool
}

// newEngine starts one; nil: nobody listens there.
func newEngine(t *testing.T, play http.HandlerFunc) *engine {
	t.Helper()
	e := &engine{busy: make(map[net.Conn]bool)}
	e.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		e.mu.Lock()
		e.seen = append(e.seen, got{r.URL.RequestURI(), r.Host, r.Header, string(raw)})
		e.mu.Unlock()
		play(w, r)
	}))
	e.server.Config.ConnState = func(c net.Conn, s http.ConnState) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.busy[c] = true; s != http.StateActive {
			delete(e.busy, c)
		}
	}
	e.server.Start()
	t.Cleanup(e.server.Close)
	e.address = e.server.Listener.Addr().String()
	if play == nil {
		e.server.Close()
	}
	return e
}

func (e *engine) requests() []got {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]got(nil), e.seen...)
}

func (e *engine) active() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.busy)
}

// rig is a sidecar with engines around it.
type rig struct {
	t      *testing.T
	tel    *telemetry.Telemetry
	list   *allow.List
	url    string
	urls   []string
	client *http.Client
	stop   func()
	decode *engine
}

// newRig starts a sidecar beside the engine. Those who prefill are in the pool.
func newRig(t *testing.T, decode *engine, prefill []*engine, change ...func(c *Config)) *rig {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen.Address, cfg.Decode.Address = "127.0.0.1:0", decode.address
	cfg.Prefill.Backoff = conf.Duration(time.Millisecond)
	for _, f := range change {
		f(&cfg)
	}
	var also []allow.Target
	for _, address := range cfg.Allow.Also {
		target, ok := allow.Parse(address)
		if !ok {
			t.Fatal(address)
		}
		also = append(also, target)
	}
	r := &rig{t: t, tel: telemetry.Discard(), list: allow.NewList(also), decode: decode}
	var in []roster.Endpoint
	for i, e := range prefill {
		target, ok := allow.Parse(e.address)
		if !ok {
			t.Fatal(e.address)
		}
		_, port, _ := net.SplitHostPort(e.address)
		n, err := net.LookupPort("tcp", port)
		if err != nil {
			t.Fatal(err)
		}
		in = append(in, roster.Endpoint{ID: roster.ID(rune('a' + i)), Host: target.Host(), Port: uint16(n)})
	}
	table, err := roster.NewTable(in)
	if err != nil {
		t.Fatal(err)
	}
	r.list.Hear("c", table, time.Now())
	p, err := New(cfg, r.list, r.tel)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ctx = run.WithAnnounce(ctx, func(_, _, addr string) { r.urls = append(r.urls, addr) })
	done, ready := make(chan error, 1), make(chan struct{})
	go func() { done <- p.Part(io.Discard)(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the part ended with %v", err)
		}
	})
	transport := &http.Transport{DisableCompression: true}
	r.client, r.url = &http.Client{Transport: transport, Timeout: 20 * time.Second}, "http://"+r.urls[0]
	t.Cleanup(func() {
		r.settled(prefill...)
		transport.CloseIdleConnections()
		r.stop()
	})
	return r
}

// settled checks that nothing is under way and no connection in use.
func (r *rig) settled(prefill ...*engine) {
	r.t.Helper()
	kittest.Eventually(r.t, "nothing is in flight", func() bool { return r.value("requests_in_flight") == 0 })
	for _, e := range append(prefill, r.decode) {
		kittest.Eventually(r.t, "no connection is in use", func() bool { return e.active() == 0 })
	}
}

func (r *rig) value(name string, labels ...string) float64 {
	return r.tel.Value("pointsman_disagg_sidecar_"+name, labels...)
}

type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (r *rig) do(method, path, body string, headers ...string) reply {
	r.t.Helper()
	return r.send(r.url+path, method, strings.NewReader(body), headers...)
}

func (r *rig) send(url, method string, body io.Reader, headers ...string) reply {
	r.t.Helper()
	q, err := http.NewRequest(method, url, body)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header[headers[i]] = append(q.Header[headers[i]], headers[i+1])
	}
	resp, err := r.client.Do(q)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(raw), err}
}

const client = `{"model":"m","messages":[],"max_tokens":50,"seed":9007199254740993}`

// chat asks, with the header that names who prefills; "": without it.
func (r *rig) chat(prefill string, headers ...string) reply {
	r.t.Helper()
	if prefill != "" {
		headers = append(headers, "X-Prefiller-Host-Port", prefill)
	}
	body := client
	if slices.Contains(headers, "gzip") {
		body = gzipped(r.t, body)
	}
	return r.do("POST", "/v1/chat/completions", body, headers...)
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func answers(status int, kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func prefills() http.HandlerFunc {
	return answers(200, "application/json", `{"usage":{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":7}},"kv_transfer_params":{"remote_host":"h"}}`)
}

func decodes() http.HandlerFunc {
	return answers(200, "application/json", `{"choices":[],"usage":{"prompt_tokens_details":{"cached_tokens":49}}}`)
}

func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
