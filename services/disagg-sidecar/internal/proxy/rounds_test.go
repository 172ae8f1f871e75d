package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
)

// round is what a model server answers to a round.
func round(text, reason string, tokens int) http.HandlerFunc {
	return answers(200, "application/json", fmt.Sprintf(`{"id":"r","model":"m","choices":[{"message":{"role":"assistant","content":%q},"finish_reason":%q}],"usage":{"prompt_tokens":50,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":49}}}`, text, reason, tokens, 50+tokens))
}

// playing answers request after request as the script says.
func playing(script ...http.HandlerFunc) http.HandlerFunc {
	var at atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		script[min(int(at.Add(1)), len(script))-1](w, r)
	}
}

// half breaks off within its answer.
func half(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, "{")
}

func inChunks(c *Config) { c.Decode.ChunkSize = 10 }

const long = `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":25,"kv_transfer_params":{"remote_host":"evil"}%s}`

func TestRounds(t *testing.T) {
	whole := func(*Config) {}
	open := func(c *Config) { c.Allow.Pool = false }
	for _, tt := range []struct {
		id, path, body string
		change         func(*Config)
		headers        []string
		script         []http.HandlerFunc
		prefill        bool
		status         int
		text           string
		asked          int
		rounds         map[string]float64
		wholes         string // why it is decoded at once
	}{
		{"two rounds", "", fmt.Sprintf(long, ""), whole, nil, []http.HandlerFunc{round("one", "length", 10), round(" two", "stop", 2)}, false, 200, `"content":"one two"`, 2, map[string]float64{"ok": 2}, ""},
		{"two rounds, one prefilled elsewhere", "", fmt.Sprintf(long, ""), whole, nil, []http.HandlerFunc{round("one", "length", 10), round(" two", "stop", 2)}, true, 200, `"cached_tokens":7`, 2, map[string]float64{"ok": 2}, ""},
		{"anybody may be named", "", fmt.Sprintf(long, ""), open, nil, []http.HandlerFunc{round("one", "length", 10), round(" two", "stop", 2)}, false, 200, `"content":"one two"`, 2, map[string]float64{"ok": 2}, ""},
		{"F22 an early stop", "", fmt.Sprintf(long, ""), whole, nil, []http.HandlerFunc{round("one", "stop", 3)}, false, 200, `"content":"one"`, 1, map[string]float64{"ok": 1}, ""},
		{"F23 a round fails", "", fmt.Sprintf(long, ""), whole, nil, []http.HandlerFunc{round("one", "length", 10), answers(507, "text/plain", "broke")}, false, 507, "broke", 2, map[string]float64{"ok": 1, "bad-status": 1}, ""},
		{"F23 a round breaks off", "", fmt.Sprintf(long, ""), whole, nil, []http.HandlerFunc{round("one", "length", 10), half}, false, 502, "decode-failed", 2, map[string]float64{"ok": 1, "reset": 1}, ""},
		{"too many members", "", fmt.Sprintf(long, strings.Repeat(`,"a":1`, 1020)), whole, nil, []http.HandlerFunc{round("one", "stop", 1)}, false, 400, "bad-body", 0, nil, ""},
		{"F23 the first round breaks off", "", fmt.Sprintf(long, ""), whole, nil, []http.HandlerFunc{half}, false, 502, "decode-failed", 1, map[string]float64{"reset": 1}, ""},
		{"F23 the first round has no answer", "", fmt.Sprintf(long, ""), whole, nil, []http.HandlerFunc{breaks}, false, 502, "decode-failed", 1, map[string]float64{"reset": 1}, ""},
		{"F23 a round is no answer", "", fmt.Sprintf(long, ""), whole, nil, []http.HandlerFunc{round("one", "length", 10), answers(200, "text/plain", "?")}, false, 502, "round 2 of decoding: unreadable", 2, map[string]float64{"ok": 1, "unreadable": 1}, ""},
		{"F23 within a stream", "", fmt.Sprintf(long, `,"stream":true`), whole, nil, []http.HandlerFunc{round("one", "length", 10), answers(500, "application/json", "{\n\"error\":{\"message\":\"broke\"}}")}, false, 200, "data: {\"error\":{\"message\":\"broke\"}}\n\n", 2, map[string]float64{"ok": 1, "bad-status": 1}, ""},
		{"F23 an answer that is none within a stream", "", fmt.Sprintf(long, `,"stream":true`), whole, nil, []http.HandlerFunc{round("one", "length", 10), answers(200, "text/plain", "?")}, false, 200, `"message":"the model server did not go on with its answer`, 2, map[string]float64{"ok": 1, "unreadable": 1}, ""},
		{"F20 within a chunk", "", `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":10}`, whole, nil, []http.HandlerFunc{round("one", "length", 10)}, false, 200, `"content":"one"`, 1, nil, "within-chunk"},
		{"F20 within a chunk, prefilled elsewhere", "", `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":10}`, whole, nil, []http.HandlerFunc{round("one", "length", 10)}, true, 200, `"content":"one"`, 1, nil, "within-chunk"},
		{"tools", "", fmt.Sprintf(long, `,"tools":[{}]`), whole, nil, []http.HandlerFunc{round("one", "length", 25)}, false, 200, `"content":"one"`, 1, nil, "tools"},
		{"two answers", "", fmt.Sprintf(long, `,"n":2`), whole, nil, []http.HandlerFunc{round("one", "length", 25)}, true, 200, `"content":"one"`, 1, nil, "several-answers"},
		{"no chat", "/v1/completions", `{"prompt":"x","max_tokens":25}`, whole, nil, []http.HandlerFunc{round("one", "length", 25)}, false, 200, `"content":"one"`, 1, nil, "not-chat"},
		{"compressed", "", "gzipped", whole, []string{"Content-Encoding", "gzip"}, []http.HandlerFunc{round("one", "length", 25)}, false, 200, `"content":"one"`, 1, nil, "body-compressed"},
		{"no JSON", "", "{", whole, nil, []http.HandlerFunc{breaks}, false, 400, "bad-body", 0, nil, "body-unreadable"},
	} {
		t.Run(tt.id, func(t *testing.T) {
			p, d := newEngine(t, prefills()), newEngine(t, playing(tt.script...))
			r := newRig(t, d, []*engine{p}, inChunks, tt.change)
			if tt.prefill {
				tt.headers = append(tt.headers, "X-Prefiller-Host-Port", p.address)
			}
			if tt.path == "" {
				tt.path = "/v1/chat/completions"
			}
			a := r.do("POST", tt.path, tt.body, tt.headers...)
			if a.status != tt.status || !strings.Contains(a.body, tt.text) {
				t.Errorf("%+v", a)
			}
			if strings.Contains(tt.id, "within a stream") == (a.err == nil) {
				t.Errorf("the answer ends with %v", a.err)
			}
			if n := len(d.requests()); n != tt.asked {
				t.Errorf("%d requests, want %d", n, tt.asked)
			}
			n := 0.0
			for why, want := range tt.rounds {
				if v := r.value("decode_rounds_total", "reason", why); v != want {
					t.Errorf("%v rounds ended by %s, want %v", v, why, want)
				}
				n += want
			}
			if v := r.value("decode_rounds_total"); v != n {
				t.Errorf("%v rounds, want %v", v, n)
			}
			if v := r.value("unchunked_total"); tt.wholes == "" && v != 0 || tt.wholes != "" && (v != 1 || r.value("unchunked_total", "reason", tt.wholes) != 1) {
				t.Errorf("%v decoded at once, not by %s", v, tt.wholes)
			}
			prefilled := tt.prefill && tt.wholes != "several-answers"
			if len(p.requests()) == 1 != prefilled {
				t.Errorf("%d prefill legs", len(p.requests()))
			}
			for i, g := range d.requests() {
				if tt.wholes == "" && (strings.Contains(g.body, "evil") || strings.Contains(g.body, "kv_transfer_params") != (prefilled && i == 0)) {
					t.Errorf("request %d: %s", i, g.body)
				}
			}
		})
	}
}

// A prefill leg whose answer is the client's is no round.
func TestRoundsPrefillRefuses(t *testing.T) {
	for _, status := range []int{429, 500} {
		p, d := newEngine(t, answers(status, "text/plain", "full")), newEngine(t, decodes())
		r := newRig(t, d, []*engine{p}, inChunks)
		if a := r.do("POST", "/v1/chat/completions", fmt.Sprintf(long, ""), "X-Prefiller-Host-Port", p.address); a.status != status || a.body != "full" {
			t.Errorf("%+v", a)
		}
		if n := r.value("decode_rounds_total"); n != 0 || r.value("prefill_legs_total") != 1 || len(d.requests()) != 0 {
			t.Errorf("%v rounds", n)
		}
	}
}

// What others have encoded is handed over once: there is one request to fetch it.
func TestRoundsMedia(t *testing.T) {
	e, d := newEngine(t, answers(200, "application/json", `{"ec_transfer_params":{"h":{}}}`)), newEngine(t, round("one", "length", 25))
	r := newRig(t, d, []*engine{e}, inChunks, func(c *Config) { c.Encode.Enabled, c.Encode.Connector = true, ecNIXL })
	body := strings.Replace(images, `"max_tokens":5`, `"max_tokens":25`, 1)
	if a := r.do("POST", "/v1/chat/completions", body, "X-Encoder-Hosts-Ports", e.address); a.status != 200 || len(d.requests()) != 1 || !strings.Contains(d.requests()[0].body, "ec_transfer_params") {
		t.Errorf("%+v after %+v", a, d.requests())
	}
	if r.value("unchunked_total", "reason", "media-encoded") != 1 || r.value("unchunked_total") != 1 || r.value("decode_rounds_total") != 0 {
		t.Error("it is not counted")
	}
}

// A round that does not begin to be answered in time is counted as that.
func TestRoundsTimeout(t *testing.T) {
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, script := range [][]http.HandlerFunc{{hangs}, {round("one", "length", 10), hangs}} {
		d := newEngine(t, playing(script...))
		r := newRig(t, d, nil, inChunks, func(c *Config) { c.Decode.Timeout = conf.Duration(300 * time.Millisecond) })
		if a := r.do("POST", "/v1/chat/completions", fmt.Sprintf(long, "")); a.status != 504 || r.value("decode_rounds_total", "reason", "timeout") != 1 {
			t.Errorf("%+v", a)
		}
	}
}

// Rounds are one request: when the sidecar stops, they go on to the end.
func TestRoundsDrain(t *testing.T) {
	goOn := make(chan struct{})
	d := newEngine(t, playing(round("one", "length", 10), func(w http.ResponseWriter, r *http.Request) { <-goOn; round(" two", "length", 10)(w, r) }, round(" three", "stop", 1)))
	r := newRig(t, d, nil, inChunks)
	got := make(chan reply, 1)
	go func() { got <- r.do("POST", "/v1/chat/completions", fmt.Sprintf(long, `,"stream":true`)) }()
	kittest.Eventually(t, "the second round is under way", func() bool { return len(d.requests()) == 2 })
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	kittest.Eventually(t, "nobody new is taken", func() bool {
		c, err := net.Dial("tcp", r.urls[0])
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	close(goOn)
	if a := <-got; a.err != nil || !strings.Contains(a.body, " three") || !strings.HasSuffix(a.body, "data: [DONE]\n\n") || len(d.requests()) != 3 {
		t.Errorf("%+v", a)
	}
	<-stopped
}

// A client that leaves between rounds ends them.
func TestRoundsClientLeaves(t *testing.T) {
	over := make(chan struct{})
	d := newEngine(t, playing(round("one", "length", 10), func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(over)
	}))
	r := newRig(t, d, nil, inChunks)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(long, `,"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := resp.Body.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the second round is under way", func() bool { return len(d.requests()) == 2 })
	cancel()
	<-over
	kittest.Eventually(t, "the round is counted", func() bool { return r.value("decode_rounds_total", "reason", "cancelled") == 1 })
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the answer ends well")
	}
}

// With SGLang every round has its prompt from the server that prefills.
func TestRoundsSGLang(t *testing.T) {
	p, d := newEngine(t, answers(200, "application/json", `{}`)), newEngine(t, playing(round("one", "length", 10), round(" two", "stop", 2)))
	r := newRig(t, d, []*engine{p}, inChunks, func(c *Config) { c.Prefill.Connector = "sglang" })
	a := r.do("POST", "/v1/chat/completions", fmt.Sprintf(long, ""), "X-Prefiller-Host-Port", p.address)
	if a.status != 200 || !strings.Contains(a.body, `"content":"one two"`) || len(d.requests()) != 2 || !strings.Contains(d.requests()[1].body, "bootstrap_room") {
		t.Errorf("%+v after %+v", a, d.requests())
	}
	// One may have been given up before it was sent: the model server has answered.
	kittest.Eventually(t, "two prefill legs are counted", func() bool { return r.value("prefill_legs_total") == 2 })
}
