package disagg

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestE1E10E20E22NIXL(t *testing.T) {
	p, d := newEngine(t, "p", prefills()), newEngine(t, "d", decodes())
	r := newRig(t, NIXL, p)
	a := r.do(d)
	if a.err != nil || a.status != 200 {
		t.Fatalf("%d, %v", a.status, a.err)
	}
	// E22: the client is told what the prefill leg had cached; all else is as it was.
	if want := `{"id":9007199254740993,"choices":[{"text":"hello"}],"usage":{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":7}}}`; a.body != want {
		t.Errorf("answer %s", cmp.Diff(want, a.body))
	}
	if l := a.header.Get("Content-Length"); l != "" {
		t.Errorf("the answer announces the length %s, which it has no more", l)
	}
	pre, dec := p.requests(), d.requests()
	if len(pre) != 1 || len(dec) != 1 {
		t.Fatalf("%d prefill legs, %d decode legs", len(pre), len(dec))
	}
	if want := `{"model":"m","messages":[],"max_tokens":1,"seed":9007199254740993,"max_completion_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}}`; pre[0].body != want {
		t.Errorf("prefill %s", cmp.Diff(want, pre[0].body))
	}
	if want := `{"model":"m","messages":[],"max_tokens":50,"seed":9007199254740993,"kv_transfer_params":` + transferred + `}`; dec[0].body != want {
		t.Errorf("decode %s", cmp.Diff(want, dec[0].body))
	}
	// E10: one id on each leg, where the reference has two values on both.
	if pre[0].id != "client-1" || pre[0].ids != 1 || dec[0].id != "client-1" || dec[0].ids != 1 {
		t.Errorf("ids %q (%d), %q (%d)", pre[0].id, pre[0].ids, dec[0].id, dec[0].ids)
	}
	for _, g := range []struct {
		got
		e *engine
	}{{pre[0], p}, {dec[0], d}} {
		if g.host != g.e.Address || g.path != "/v1/chat/completions?x=1" || g.header.Get("Authorization") != "Bearer x" || g.header.Get("Content-Digest") != "" {
			t.Errorf("a leg to %s has host %s, path %s, headers %v", g.e.Address, g.host, g.path, g.header)
		}
		if e := g.header.Get("Accept-Encoding"); e != "identity" {
			t.Errorf("a leg whose answer is read may be compressed: %q", e)
		}
	}
	if diff := cmp.Diff([]string{"begin p", "end p ok"}, r.watch.told(t)); diff != "" {
		t.Error(diff)
	}
	rep := a.report
	if rep.Served != ByDecode || rep.Reason != OK || rep.AnsweredBy != d.Endpoint || len(rep.Attempts) != 1 || rep.Attempts[0].CachedTokens != 7 || rep.Attempts[0].PromptTokens != 50 {
		t.Errorf("report %+v", rep)
	}
	eventually(t, "no connection is in use", func() bool { return p.busy()+d.busy() == 0 })
}

// E25, B164, B171: a stream comes whole, and as it is made.
func TestE25B171Stream(t *testing.T) {
	step := make(chan struct{})
	d := newEngine(t, "d", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, e := range []string{`{"choices":[{"delta":{"content":"a"}}],"usage":null}`, `{"choices":[],"usage":{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":49}}}`, "[DONE]"} {
			_, _ = io.WriteString(w, "data: "+e+"\n\n")
			_ = http.NewResponseController(w).Flush()
			<-step
		}
	})
	p := newEngine(t, "p", prefills())
	r := newRig(t, NIXL, p)
	r.body = `{"messages":[],"stream":true,"stream_options":{"include_usage":true}}`
	resp, run, err := r.runner.Do(t.Context(), &r.plan, r.request(), d.Endpoint, r.watch)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var all strings.Builder
	chunk := make([]byte, 1000)
	for events := 0; events < 3; {
		n, err := resp.Body.Read(chunk)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(chunk[:n])
		for k := strings.Count(all.String(), "\n\n"); events < k; events++ { // it came although the stream goes on
			step <- struct{}{}
		}
	}
	if n, err := resp.Body.Read(chunk); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatal(n, err)
	}
	want := "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"prompt_tokens_details\":{\"cached_tokens\":7}}}\n\ndata: [DONE]\n\n"
	if diff := cmp.Diff(want, all.String()); diff != "" {
		t.Error(diff)
	}
	if b := p.requests()[0].body; strings.Contains(b, "stream_options") || !strings.Contains(b, `"stream":false`) {
		t.Errorf("B164: prefill %s", b)
	}
	if b := d.requests()[0].body; !strings.Contains(b, `"stream":true,"stream_options":{"include_usage":true}`) {
		t.Errorf("decode %s", b)
	}
	_ = run
}

// How prefill legs fail, and what becomes of the request under each policy.
func TestPrefillFailures(t *testing.T) {
	big := `{"x":"` + strings.Repeat("y", 9<<20) + `"}`
	tests := []struct {
		name string
		play http.HandlerFunc
		want Reason
	}{
		{"E14 500", answers(500, "text/plain", "p broke"), BadStatus},
		{"E16 502", answers(502, "text/plain", "p broke"), BadStatus},
		{"a redirect", answers(302, "text/plain", "p broke"), BadStatus},
		{"connection refused", nil, ConnectFailed},
		{"reset", breaks, Reset},
		{"cut short", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, Reset},
		{"B173 error in a 200", answers(200, "application/json", `{"choices":[{"finish_reason":"error"}],"kv_transfer_params":{"a":1}}`), ReportedError},
		{"B173 no parameters", answers(200, "application/json", `{"choices":[{"finish_reason":"length"}],"kv_transfer_params":null}`), NoTransfer},
		{"not JSON", answers(200, "application/json", `<html>`), Unreadable},
		{"too large", answers(200, "application/json", big), TooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, p2 := newEngine(t, "p", tt.play), newEngine(t, "p2", prefills())
			d := newEngine(t, "d", decodes())
			r := newRig(t, NIXL, p)

			r.plan.Policy.OnFailure = []Action{Fail}
			a := r.do(d)
			if len(d.requests()) != 0 {
				t.Error("Fail: the decode leg was sent")
			}
			if tt.want == BadStatus { // the answer is passed on
				if a.err != nil || a.body != "p broke" || a.report.Served != ByPrefillAlone || a.report.AnsweredBy.ID != "p" || a.header.Get("Content-Length") != "7" {
					t.Errorf("Fail: %+v", a)
				}
			} else if !isPrefillError(a.err, tt.want) || a.report.Served != Nobody {
				t.Errorf("Fail: %+v", a)
			}

			r.watch, r.plan.Policy.OnFailure = &watched{}, []Action{RetryOther, LocalPrefill}
			a = r.do(d)
			if a.err != nil || a.status != 200 || a.report.Served != ByDecodeAlone || a.report.Reason != tt.want || d.requests()[0].body != r.body {
				t.Errorf("LocalPrefill: %+v, %v", a, d.requests())
			}
			if !strings.Contains(a.body, `"cached_tokens":49`) {
				t.Errorf("LocalPrefill: the answer was changed: %s", a.body)
			}
			if diff := cmp.Diff([]string{"begin p", "end p " + string(tt.want), "here " + string(tt.want)}, r.watch.told(t)); diff != "" {
				t.Error(diff)
			}

			r.plan.Prefill = append(r.plan.Prefill, p2.Endpoint)
			r.watch = &watched{}
			a = r.do(d)
			if a.err != nil || a.status != 200 || a.report.Served != ByDecode || a.report.Reason != OK || len(a.report.Attempts) != 2 {
				t.Errorf("RetryOther: %+v", a)
			}
			if diff := cmp.Diff([]string{"begin p", "end p " + string(tt.want), "begin p2", "end p2 ok"}, r.watch.told(t)); diff != "" {
				t.Error(diff)
			}
			all := d.requests()
			if id, also := p2.requests()[0].id, all[len(all)-1].id; id != "client-1-2" || also != id {
				t.Errorf("the second prefill leg has the id %s, the decode leg %s", id, also)
			}
			eventually(t, "no connection is in use", func() bool { return p.busy()+p2.busy()+d.busy() == 0 })
		})
	}
}

// E13: what the client has done wrong the client hears, whatever the policy.
func TestE13Refused(t *testing.T) {
	p, p2, d := newEngine(t, "p", answers(429, "text/plain", "slow down")), newEngine(t, "p2", prefills()), newEngine(t, "d", decodes())
	r := newRig(t, NIXL, p, p2)
	r.plan.Policy.OnFailure = []Action{RetryOther, LocalPrefill}
	a := r.do(d)
	if a.err != nil || a.status != 429 || a.body != "slow down" || a.report.Served != ByPrefillAlone || a.report.Reason != Refused {
		t.Errorf("%+v", a)
	}
	if len(p2.requests())+len(d.requests()) != 0 {
		t.Error("others were asked")
	}
}

// E14, E16, E17: the same endpoint several times, as a sidecar does.
func TestE14E16E17SameEndpointAgain(t *testing.T) {
	tests := []struct {
		name                string
		status, tries, want int
	}{{"E14 500", 500, 3, 1}, {"E16 502", 502, 3, 3}, {"E16 503", 503, 3, 3}, {"E17 502 without retries", 502, 1, 1}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, d := newEngine(t, "p", answers(tt.status, "text/plain", "no")), newEngine(t, "d", decodes())
			r := newRig(t, NIXL, p)
			for len(r.plan.Prefill) < tt.tries {
				r.plan.Prefill = append(r.plan.Prefill, p.Endpoint)
			}
			r.plan.Policy.Backoff = time.Millisecond
			a := r.do(d)
			if a.status != tt.status || len(p.requests()) != tt.want || len(d.requests()) != 0 || len(a.report.Attempts) != tt.want {
				t.Errorf("%+v after %d calls", a, len(p.requests()))
			}
		})
	}
}

// A policy ends: by attempts, by the time of one leg, by the budget of all.
func TestPolicyIsBounded(t *testing.T) {
	left := make(chan struct{}, 10)
	bad := func(name string) *engine { return newEngine(t, name, answers(503, "text/plain", "no")) }
	d := newEngine(t, "d", decodes())
	r := newRig(t, NIXL, bad("a"), bad("b"), bad("c"))
	r.plan.Policy.OnFailure, r.plan.Policy.Attempts = []Action{RetryOther, LocalPrefill}, 2
	if a := r.do(d); a.report.Served != ByDecodeAlone || len(a.report.Attempts) != 2 {
		t.Errorf("attempts: %+v", a)
	}

	r = newRig(t, NIXL, newEngine(t, "slow", hangs(left)), newEngine(t, "p", prefills()))
	r.plan.Policy.Timeout = 20 * time.Millisecond
	if a := r.do(d); a.report.Served != ByDecode || a.report.Attempts[0].Reason != Timeout {
		t.Errorf("timeout: %+v", a)
	}
	<-left

	r = newRig(t, NIXL, newEngine(t, "slow", hangs(left)), newEngine(t, "p", prefills()))
	r.plan.Policy.Timeout, r.plan.Policy.Budget, r.plan.Policy.OnFailure = 10*time.Second, 20*time.Millisecond, []Action{RetryOther, LocalPrefill}
	if a := r.do(d); a.report.Served != ByDecodeAlone || len(a.report.Attempts) != 1 || a.report.Reason != Timeout {
		t.Errorf("budget: %+v", a)
	}
	<-left
}

// A client that leaves takes the legs with it.
func TestClientLeaves(t *testing.T) {
	for _, tt := range []struct {
		name      string
		connector Connector
		during    string
	}{{"NIXL prefill", NIXL, "prefill"}, {"NIXL decode", NIXL, "decode"}, {"SGLang", SGLang, "both"}, {"shared storage", SharedStorage, "prefill"}} {
		t.Run(tt.name, func(t *testing.T) {
			left := make(chan struct{}, 2)
			p, d := newEngine(t, "p", prefills()), newEngine(t, "d", decodes())
			want := 1
			switch tt.during {
			case "prefill":
				p = newEngine(t, "p", hangs(left))
			case "decode":
				d = newEngine(t, "d", hangs(left))
			case "both":
				p, d, want = newEngine(t, "p", hangs(left)), newEngine(t, "d", hangs(left)), 2
			}
			r := newRig(t, tt.connector, p)
			r.plan.Policy.OnFailure = []Action{RetryOther, LocalPrefill}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				eventually(t, "the legs are under way", func() bool {
					return (tt.during == "decode" || len(p.requests()) == 1) && (tt.during == "prefill" || len(d.requests()) == 1)
				})
				cancel()
			}()
			a := r.doCtx(ctx, d)
			if !errors.Is(a.err, context.Canceled) || a.report.Served == ByDecodeAlone {
				t.Errorf("%+v", a)
			}
			for range want {
				<-left
			}
			r.watch.told(t)
			eventually(t, "no connection is in use", func() bool { return p.busy()+d.busy() == 0 })
		})
	}
}

// E19, B161: an engine that is not up yet. It has heard of nothing: what was handed over
// is still there, and another one may have it.
func TestE19B161DecodeAtAnother(t *testing.T) {
	p, down, d := newEngine(t, "p", prefills()), newEngine(t, "down", nil), newEngine(t, "d", decodes())
	r := newRig(t, NIXL, p)
	run, err := r.runner.Begin(&r.plan, r.request(), r.watch)
	if err != nil {
		t.Fatal(err)
	}
	var op *net.OpError
	if _, err := run.Send(t.Context(), down.Endpoint); !errors.As(err, &op) || op.Op != "dial" {
		t.Fatalf("error %v", err)
	}
	resp, err := run.Send(t.Context(), d.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if len(p.requests()) != 1 {
		t.Errorf("%d prefill legs", len(p.requests()))
	}
}

// What was handed over is used once: an engine that broke may have fetched it.
func TestTransferIsUsedOnce(t *testing.T) {
	for _, broken := range []http.HandlerFunc{breaks, answers(500, "text/plain", "no")} {
		p, d2 := newEngine(t, "p", prefills()), newEngine(t, "d2", decodes())
		r := newRig(t, NIXL, p)
		run, err := r.runner.Begin(&r.plan, r.request(), r.watch)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := run.Send(t.Context(), newEngine(t, "d", broken).Endpoint); err == nil {
			_ = resp.Body.Close()
		}
		resp, err := run.Send(t.Context(), d2.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if diff := cmp.Diff([]string{"begin p", "end p ok", "begin p", "end p ok"}, r.watch.told(t)); diff != "" {
			t.Error(diff)
		}
	}
}

// B170: engines have closed the connections that were kept.
func TestB170StaleConnections(t *testing.T) {
	p, d := newEngine(t, "p", prefills()), newEngine(t, "d", decodes())
	r := newRig(t, NIXL, p)
	stale := 0
	r.runner.transport = &Steady{Transport: r.transport, OnStale: func() { stale++ }}
	for range 3 {
		if a := r.do(d); a.status != 200 || a.err != nil {
			t.Fatalf("%+v", a)
		}
		p.server.CloseClientConnections()
		d.server.CloseClientConnections()
	}
	if len(p.requests()) != 3 || len(d.requests()) != 3 {
		t.Errorf("%d prefill legs, %d decode legs", len(p.requests()), len(d.requests()))
	}
}

func TestDecodeTimeout(t *testing.T) {
	left := make(chan struct{}, 1)
	p, d := newEngine(t, "p", prefills()), newEngine(t, "d", hangs(left))
	r := newRig(t, NIXL, p)
	r.runner.cfg.DecodeTimeout = 20 * time.Millisecond
	if a := r.do(d); !errors.Is(a.err, ErrDecodeTimeout) {
		t.Errorf("%+v", a)
	}
	<-left
}

// Answers that cannot be read pass as they are.
func TestAnswersThatAreNotChanged(t *testing.T) {
	for name, play := range map[string]http.HandlerFunc{
		"an error":   answers(400, "application/json", `{"usage":{}}`),
		"plain text": answers(200, "text/plain", `{"usage":{}}`),
		"compressed": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			answers(200, "application/json", `{"usage":{}}`)(w, r)
		},
	} {
		r := newRig(t, NIXL, newEngine(t, "p", prefills()))
		if a := r.do(newEngine(t, "d", play)); a.err != nil || a.body != `{"usage":{}}` || a.header.Get("Content-Length") != "12" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	// E31: messages have no such details.
	r := newRig(t, NIXL, newEngine(t, "p", prefills()))
	r.path = "/v1/messages"
	if a := r.do(newEngine(t, "d", answers(200, "application/json", `{"usage":{}}`))); a.body != `{"usage":{}}` {
		t.Errorf("messages: %+v", a)
	}
}

func TestRequestsThatAreNotDivided(t *testing.T) {
	p, d := newEngine(t, "p", prefills()), newEngine(t, "d", decodes())
	r := newRig(t, NIXL, p)
	r.path = "/v1/embeddings"
	if a := r.do(d); !errors.Is(a.err, ErrNotDivisible) {
		t.Error(a.err)
	}
	r = newRig(t, NIXL, p)
	for _, text := range []string{"[]", "{", ""} {
		if r.body = text; r.do(d).err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if _, err := r.runner.Begin(&Plan{Connector: "x", Prefill: r.plan.Prefill}, r.request(), nil); err == nil {
		t.Error("an unknown connector was taken")
	}
	if _, err := r.runner.Begin(&Plan{Connector: NIXL}, r.request(), nil); err == nil {
		t.Error("a plan without endpoints was taken")
	}
	if _, err := NewRunner(r.transport, Config{DecodeTimeout: -1}); err == nil {
		t.Error("a bad configuration was taken")
	}
	if len(p.requests())+len(d.requests()) != 0 {
		t.Error("something was sent")
	}
}
