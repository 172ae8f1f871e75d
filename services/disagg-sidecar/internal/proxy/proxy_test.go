package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
)

// How the headers are read, and what becomes of the request.
func TestEntry(t *testing.T) {
	p, q := newEngine(t, prefills()), newEngine(t, prefills())
	_, port, _ := net.SplitHostPort(p.address)
	tests := []struct {
		name    string
		headers []string
		status  int
		reason  string // the header's, of an answer of ours
		prefill string // who prefills
		alone   string // why nobody does
	}{
		{"D1 E11 no header", nil, 200, "", "", "no-header"},
		{"empty", []string{"X-Prefiller-Host-Port", " , "}, 200, "", "", "no-header"},
		{"D3 one", []string{"X-Prefiller-Host-Port", " " + p.address + " "}, 200, "", "p", ""},
		{"D4 two, no sampling", []string{"X-Prefiller-Host-Port", p.address + "," + q.address}, 200, "", "p", ""},
		{"D15 B214 not of the pool", []string{"X-Prefiller-Host-Port", "169.254.169.254:80"}, 403, "target-denied", "", ""},
		{"D16 another port of the pool's host", []string{"X-Prefiller-Host-Port", "127.0.0.1:1"}, 403, "target-denied", "", ""},
		{"one of two is not", []string{"X-Prefiller-Host-Port", p.address + ",10.0.0.1:1"}, 403, "target-denied", "", ""},
		{"a name for the pool's host", []string{"X-Prefiller-Host-Port", "localhost:" + port}, 403, "target-denied", "", ""},
		{"no port", []string{"X-Prefiller-Host-Port", "a"}, 400, "bad-target", "", ""},
		{"B214 a URL", []string{"X-Prefiller-Host-Port", "http://internal/"}, 400, "bad-target", "", ""},
		{"B214 twice", []string{"X-Prefiller-Host-Port", p.address, "X-Prefiller-Host-Port", "10.0.0.1:1"}, 400, "bad-target", "", ""},
		{"x-prefiller-url does nothing", []string{"X-Prefiller-Url", "http://" + p.address}, 200, "", "", "no-header"},
		{"D10 encoders", []string{"X-Encoder-Hosts-Ports", "10.0.0.1:8000,10.0.0.2:8000"}, 200, "", "", "no-header"},
		{"D12 encoders and one who prefills", []string{"X-Encoder-Hosts-Ports", "10.0.0.1:8000", "X-Prefiller-Host-Port", p.address}, 200, "", "p", ""},
		{"compressed", []string{"X-Prefiller-Host-Port", p.address, "Content-Encoding", "gzip"}, 200, "", "", "body-compressed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newEngine(t, decodes())
			r := newRig(t, d, []*engine{p, q})
			before := [2]int{len(p.requests()), len(q.requests())}
			a := r.chat("", tt.headers...)
			if a.status != tt.status || a.header.Get("X-Pointsman-Reason") != tt.reason {
				t.Fatalf("%+v", a)
			}
			if tt.status == 400 || tt.status == 403 {
				if !strings.HasPrefix(a.body, `{"error":{"message":"`) || !strings.Contains(a.body, `"code":"`+tt.reason+`"`) || a.header.Get("Content-Type") != "application/json" {
					t.Errorf("error %s", a.body)
				}
				if len(d.requests()) != 0 {
					t.Error("the request went on")
				}
			}
			n := 0
			if tt.prefill == "p" {
				n = 1
			}
			if len(p.requests())-before[0] != n || len(q.requests()) != before[1] {
				t.Errorf("%d, %d prefill legs", len(p.requests())-before[0], len(q.requests())-before[1])
			}
			if tt.alone != "" && r.value("decode_only_total", "reason", tt.alone) != 1 {
				t.Errorf("not counted as %s", tt.alone)
			}
			for _, g := range append(d.requests(), p.requests()[before[0]:]...) { // D6
				for _, name := range instructions {
					if _, ok := g.header[name]; ok {
						t.Errorf("a leg has %s", name)
					}
				}
			}
			want := client
			if tt.alone == "body-compressed" {
				want = gzipped(t, client)
			}
			if tt.prefill == "" && tt.status == 200 && d.requests()[0].body != want { // E11
				t.Errorf("the body has become %s", d.requests()[0].body)
			}
			class := fmt.Sprintf("%dxx", tt.status/100)
			kittest.Eventually(t, "it is counted", func() bool {
				want := tt.reason
				if want == "" {
					want = "none"
				}
				return r.value("requests_total", "code", class, "reason", want) == 1
			})
		})
	}
}

func TestSampling(t *testing.T) {
	p, q, d := newEngine(t, prefills()), newEngine(t, prefills()), newEngine(t, decodes())
	r := newRig(t, d, []*engine{p, q}, func(c *Config) { c.Prefill.Sampling = true })
	kittest.Eventually(t, "both have prefilled", func() bool {
		r.chat(p.address + "," + q.address)
		return len(p.requests()) > 0 && len(q.requests()) > 0
	})
}

// D7: on paths that are not divided the reference leaves the header in place. Here it is
// removed everywhere.
func TestD7OtherPaths(t *testing.T) {
	p, d := newEngine(t, prefills()), newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Engine", "1")
		decodes()(w, r)
	})
	r := newRig(t, d, []*engine{p})
	for _, path := range []string{"/v1/embeddings", "/v1/models?x=1%2F;y", "/tokenize", "/metrics", "/v1/chat/completions/render"} {
		a := r.do("POST", path, "\x00not JSON", "X-Prefiller-Host-Port", "169.254.169.254:80", "X-Forwarded-For", "1.2.3.4", "Connection", "X-Hop", "X-Hop", "1")
		all := d.requests()
		g := all[len(all)-1]
		if a.status != 200 || a.header.Get("X-Engine") != "1" || g.body != "\x00not JSON" || g.path != path || g.host != d.address || len(g.header["X-Prefiller-Host-Port"]) != 0 || g.header.Get("X-Hop") != "" || g.header.Get("X-Forwarded-For") != "1.2.3.4" {
			t.Errorf("%s: %+v: %+v", path, a, g)
		}
	}
	if a := r.do("GET", "/health", ""); a.status != 200 || len(d.requests()) != 5 {
		t.Errorf("health %+v", a)
	}
	if len(p.requests()) != 0 {
		t.Error("somebody has prefilled")
	}
}

// What the client sees when legs fail.
func TestLegs(t *testing.T) {
	retries := func(n int, policy ...string) func(*Config) {
		return func(c *Config) {
			c.Prefill.Retries = n
			if len(policy) > 0 {
				c.Prefill.OnFailure = policy
			}
		}
	}
	tests := []struct {
		name            string
		prefill, decode http.HandlerFunc
		change          func(c *Config)
		status          int
		body            string // a part of it
		reason          string
		calls, decoded  int
		legs            map[string]float64
		alone           string
	}{
		{"E1", prefills(), decodes(), nil, 200, `"cached_tokens":7`, "", 1, 1, map[string]float64{"ok": 1}, ""},
		{"E13", answers(429, "text/plain", "slow"), decodes(), nil, 429, "slow", "", 1, 0, map[string]float64{"refused": 1}, ""},
		{"E14", answers(500, "text/plain", "p broke"), decodes(), retries(2), 500, "p broke", "prefill-failed", 1, 0, map[string]float64{"bad-status": 1}, ""},
		{"E16", answers(502, "text/plain", "p broke"), decodes(), retries(2), 502, "p broke", "prefill-failed", 3, 0, map[string]float64{"bad-status": 3}, ""},
		{"E17", answers(502, "text/plain", "p broke"), decodes(), nil, 502, "p broke", "prefill-failed", 1, 0, map[string]float64{"bad-status": 1}, ""},
		{"prefill down", nil, decodes(), nil, 502, "connect-failed", "prefill-failed", 0, 0, map[string]float64{"connect-failed": 1}, ""},
		{"prefill down, decoded only", nil, decodes(), retries(1, retryOther, localPrefill), 200, `"cached_tokens":49`, "", 0, 1, map[string]float64{"connect-failed": 2}, "connect-failed"},
		{"B173", answers(200, "application/json", `{"kv_transfer_params":null}`), decodes(), nil, 502, "no-transfer-params", "prefill-failed", 1, 0, map[string]float64{"no-transfer-params": 1}, ""},
		{"prefill hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, decodes(), func(c *Config) { c.Prefill.Timeout = conf.Duration(500 * time.Millisecond) }, 504, "in time", "prefill-failed", 1, 0, map[string]float64{"timeout": 1}, ""},
		{"E19 B161 decode down", prefills(), nil, nil, 503, "ServiceUnavailable", "decode-unreachable", 1, 0, map[string]float64{"ok": 1}, ""},
		{"decode breaks", prefills(), breaks, nil, 502, "broke", "decode-failed", 1, 1, map[string]float64{"ok": 1}, ""},
		{"decode hangs", prefills(), func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(c *Config) { c.Decode.Timeout = conf.Duration(500 * time.Millisecond) }, 504, "in time", "decode-timeout", 1, 1, map[string]float64{"ok": 1}, ""},
		{"decode refuses", prefills(), answers(400, "text/plain", "d says no"), nil, 400, "d says no", "", 1, 1, map[string]float64{"ok": 1}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, d := newEngine(t, tt.prefill), newEngine(t, tt.decode)
			if tt.change == nil {
				tt.change = func(*Config) {}
			}
			r := newRig(t, d, []*engine{p}, tt.change)
			a := r.chat(p.address, "X-Request-Id", "client-1")
			if a.status != tt.status || !strings.Contains(a.body, tt.body) || a.header.Get("X-Pointsman-Reason") != tt.reason {
				t.Errorf("%+v", a)
			}
			if tt.status == 503 && (a.header.Get("Content-Type") != "application/json" || !strings.Contains(a.body, "not be ready")) {
				t.Errorf("B161: %+v", a)
			}
			if len(p.requests()) != tt.calls || len(d.requests()) != tt.decoded {
				t.Errorf("%d prefill legs, %d decode legs", len(p.requests()), len(d.requests()))
			}
			r.settled(p)
			total := 0.0
			for why, n := range tt.legs {
				total += n
				if v := r.value("prefill_legs_total", "reason", why); v != n {
					t.Errorf("%v legs counted as %s", v, why)
				}
			}
			if v := r.value("prefill_legs_total"); v != total {
				t.Errorf("%v legs counted", v)
			}
			if n := r.value("decode_only_total", "reason", tt.alone); tt.alone != "" && n != 1 || r.value("decode_only_total") != n {
				t.Errorf("decoded only: %v of %v", n, r.value("decode_only_total"))
			}
			for i, g := range p.requests() { // E10
				want := "client-1"
				if i > 0 {
					want += fmt.Sprintf("-%d", i+1)
				}
				if diff := cmp.Diff([]string{want}, g.header["X-Request-Id"]); diff != "" || g.host != p.address {
					t.Errorf("prefill leg %d: %s host %s", i, diff, g.host)
				}
			}
		})
	}
}

func TestBodies(t *testing.T) {
	p, d := newEngine(t, prefills()), newEngine(t, decodes())
	r := newRig(t, d, []*engine{p}, func(c *Config) {
		c.MaxRequestBytes, c.MaxBufferedBytes, c.BodyTimeout = 1<<20, 1<<20, conf.Duration(time.Second)
	})
	for _, tt := range []struct {
		name   string
		body   io.Reader
		status int
		reason string
	}{
		{"no JSON", strings.NewReader("hi"), 400, "bad-body"},
		{"no object", strings.NewReader("[]"), 400, "bad-body"},
		{"empty", http.NoBody, 400, "bad-body"},
		{"too large", strings.NewReader(strings.Repeat("x", 2<<20)), 413, "too-large"},
		{"too large, of unknown length", io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), strings.NewReader("xx")), 413, "too-large"},
		{"large", io.MultiReader(strings.NewReader(`{"prompt":"`+strings.Repeat("x", 400<<10)), strings.NewReader(`"}`)), 200, ""},
	} {
		a := r.send(r.url+"/v1/completions", "POST", tt.body, "X-Prefiller-Host-Port", p.address)
		if tt.status == 413 && a.err != nil {
			continue // the connection was closed while the body was sent
		}
		if a.status != tt.status && (a.status != 503 || tt.status != 413) || a.status == tt.status && a.header.Get("X-Pointsman-Reason") != tt.reason {
			t.Errorf("%s: %+v", tt.name, a)
		}
	}
	conn, err := net.Dial("tcp", r.urls[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nX-Prefiller-Host-Port: "+p.address+"\r\n\r\n{")
	if raw, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 408 ") {
		t.Errorf("a silent client: %q, %v", raw, err)
	}
	r.settled(p)
}

// F1, F5 through the sidecar.
func TestOtherConnectors(t *testing.T) {
	p, d := newEngine(t, answers(200, "application/json", "{}")), newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(20 * time.Millisecond) // after the other leg, as a rule
		decodes()(w, r)
	})
	r := newRig(t, d, []*engine{p}, func(c *Config) { c.Prefill.Connector, c.Prefill.BootstrapPort = "sglang", 9001 })
	if a := r.chat(p.address); a.status != 200 || !strings.Contains(d.requests()[0].body, `"bootstrap_host":"127.0.0.1","bootstrap_port":9001,"bootstrap_room":`) {
		t.Errorf("%+v: %v", a, d.requests())
	}
	r = newRig(t, d, []*engine{p}, func(c *Config) { c.Prefill.Connector = "shared-storage" })
	if a := r.do("POST", "/v1/completions", `{"prompt":"p","cache_hit_threshold":0.5}`, "X-Prefiller-Host-Port", p.address); a.status != 200 || r.value("decode_only_total", "reason", "cached") != 1 {
		t.Errorf("%+v", a)
	}
}

// A stream is passed on as it is made, and broken visibly.
func TestStreams(t *testing.T) {
	step := make(chan bool)
	d := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for on := true; on; on = <-step {
			_, _ = io.WriteString(w, "data: {}\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	})
	p := newEngine(t, prefills())
	r := newRig(t, d, []*engine{p})
	q, err := http.NewRequest(http.MethodPost, r.url+"/v1/completions", strings.NewReader(`{"prompt":"p","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Prefiller-Host-Port", p.address)
	resp, err := r.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	event := make([]byte, len("data: {}\n\n"))
	for i := range 3 {
		if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != "data: {}\n\n" {
			t.Fatalf("event %d: %q, %v", i, event, err)
		}
		step <- i < 2
	}
	rest, err := io.ReadAll(resp.Body)
	if err == nil || !strings.Contains(string(rest), `"code":"decode-failed"`) {
		t.Errorf("%q, %v", rest, err)
	}
	kittest.Eventually(t, "it is counted", func() bool { return r.value("requests_total", "code", "2xx", "reason", "decode-failed") == 1 })
}

func TestClientLeaves(t *testing.T) {
	left, begun := make(chan struct{}, 1), make(chan struct{}, 1)
	hangs := func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	}
	for _, header := range []string{"prefill", "through"} {
		p, d := newEngine(t, hangs), newEngine(t, hangs)
		r := newRig(t, d, []*engine{p})
		ctx, cancel := context.WithCancel(t.Context())
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/completions", strings.NewReader(`{"prompt":"p"}`))
		if err != nil {
			t.Fatal(err)
		}
		if header == "prefill" {
			q.Header.Set("X-Prefiller-Host-Port", p.address)
		}
		go func() { <-begun; cancel() }()
		if resp, err := r.client.Do(q); err == nil {
			_ = resp.Body.Close()
			t.Error("an answer")
		}
		<-left
		r.settled(p)
		if header == "prefill" {
			kittest.Eventually(t, "it is counted as cancelled", func() bool {
				return r.value("prefill_legs_total", "reason", "cancelled") == 1 && r.value("requests_total", "code", "none", "reason", "cancelled") == 1
			})
		}
	}
}
