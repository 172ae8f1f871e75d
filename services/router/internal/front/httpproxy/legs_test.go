package httpproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// stageReservation is that of a stage: its first end counts.
type stageReservation struct {
	mu    sync.Mutex
	on    []roster.ID
	ended bool
	done  bool
	usage route.Usage
}

func (*stageReservation) PickID() string { return "stage" }
func (*stageReservation) FirstToken()    {}
func (r *stageReservation) Move(to *roster.Endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.on = append(r.on, to.ID)
	}
}

func (r *stageReservation) Finish(done bool, u route.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.ended, r.done, r.usage = true, done, u
	}
}

// both ends the stage's reservation with the request's, as route does.
type both struct {
	route.Reservation
	stage *stageReservation
}

func (b both) Finish(done bool, u route.Usage) {
	b.Reservation.Finish(done, u)
	b.stage.Finish(done, route.NoUsage())
}

// pd is a rig whose first engines decode and whose others prefill.
type pd struct {
	*rig
	log    []string // which leg came where
	logMu  sync.Mutex
	stages []*stageReservation
	ids    map[string]bool
}

// seen notes the id of a leg: an engine does not take one twice.
func (p *pd) seen(engine int, id string) {
	p.logMu.Lock()
	defer p.logMu.Unlock()
	key := fmt.Sprintf("e%d %s", engine, id)
	if p.ids[key] {
		p.t.Errorf("twice: %s", key)
	}
	p.ids[key] = true
}

func (p *pd) note(s string) { p.logMu.Lock(); p.log = append(p.log, s); p.logMu.Unlock() }

// legs returns which legs came where.
func (p *pd) legs() []string {
	p.logMu.Lock()
	defer p.logMu.Unlock()
	return slices.Clone(p.log)
}

// policyOf is a policy that tries others and then does what is last.
func policyFor(last route.Action) *route.Policy {
	return &route.Policy{Prefill: route.StagePolicy{OnFailure: []route.Action{route.RetryOther, last}, Attempts: 2, Timeout: 10 * time.Second, Budget: 10 * time.Second}}
}

func newPD(t *testing.T, c route.Connector, policy *route.Policy, decode, prefill []http.HandlerFunc, opts ...option) *pd {
	t.Helper()
	p := &pd{ids: make(map[string]bool)}
	var engines []http.Handler
	for i, h := range slices.Concat(decode, prefill) {
		if h == nil {
			engines = append(engines, nil)
			continue
		}
		engines = append(engines, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			leg := "whole"
			switch {
			case strings.Contains(string(raw), `"do_remote_decode":true,"do_remote_prefill":false`), strings.Contains(string(raw), `"max_tokens":1,`):
				leg = "prefill"
			case strings.Contains(string(raw), "kv_transfer_params"), strings.Contains(string(raw), "bootstrap_room"):
				leg = "decode"
			}
			p.note(fmt.Sprintf("%s e%d", leg, i))
			if ids := r.Header["X-Request-Id"]; len(ids) != 1 {
				t.Errorf("a leg has the ids %q", ids)
			} else if leg != "whole" {
				p.seen(i, ids[0])
			}
			r.Body = io.NopCloser(bytes.NewReader(raw))
			h(w, r)
		}))
	}
	opts = append(opts, func(r *rig, _ *Config) {
		r.plan = func(d *route.Decision, all []roster.Endpoint) {
			left := func(from, to int) (in []*roster.Endpoint) {
				for i := from; i < to; i++ {
					retry := d.Request.Retry
					if !contains(r.failed, string(all[i].ID)) && (retry == nil || !slices.Contains(retry.Failed, all[i].ID)) {
						in = append(in, &all[i])
					}
				}
				return in
			}
			decoders := left(0, len(decode))
			if retry := d.Request.Retry; retry != nil && retry.Handed > 0 && policy.Prefill.Falls() && (retry.Handed > 1 || len(decoders) == 0) {
				// As profile.Disagg has it.
				for i := range decode {
					decoders = append(decoders, &all[i])
				}
				d.Endpoint, d.Fallbacks = decoders[0], nil
				d.Plan = &route.Plan{Policy: policy, Connector: c, Skipped: []route.Skip{{Stage: route.StagePrefill, Reason: route.ReasonStageFailed}}}
				return
			}
			prefillers := left(len(decode), len(all))
			for i := len(decode); len(prefillers) == 0 && !policy.Prefill.Falls() && i < len(all); i++ {
				prefillers = append(prefillers, &all[i]) // somebody must
			}
			if len(decoders) == 0 {
				d.Reservation.Finish(false, route.NoUsage())
				d.Err, d.Endpoint = route.ErrNoEndpoint, nil
				return
			}
			d.Endpoint, d.Fallbacks = decoders[0], decoders[1:]
			own := &stageReservation{}
			p.stages = append(p.stages, own)
			d.Reservation = both{d.Reservation, own}
			s := route.Stage{Name: route.StagePrefill, Endpoints: prefillers, Picked: 1, Reservation: own}
			if len(s.Endpoints) > 0 {
				own.on = []roster.ID{s.Endpoints[0].ID}
				d.Plan = &route.Plan{Stages: []route.Stage{s}, Policy: policy, Connector: c}
			} else {
				d.Plan = &route.Plan{Policy: policy, Connector: c}
			}
		}
	})
	p.rig = newRig(t, engines, opts...)
	t.Cleanup(func() {
		for i, s := range p.stages {
			if s.mu.Lock(); !s.ended {
				t.Errorf("the reservation of stage %d was not ended", i)
			}
			s.mu.Unlock()
		}
	})
	return p
}

func answers(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func prefills() http.HandlerFunc {
	return answers(200, `{"usage":{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":7}},"kv_transfer_params":{"remote_host":"h","big":9007199254740993}}`)
}

func decodes() http.HandlerFunc {
	return answers(200, `{"choices":[{"text":"hello"}],"usage":{"prompt_tokens":50,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":49}}}`)
}

func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

type handlers = []http.HandlerFunc

// What becomes of requests whose prompts others prefill, and of everybody's books.
func TestPrefillElsewhere(t *testing.T) {
	left := make(chan error, 10)
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); left <- r.Context().Err() }
	short := policyFor(route.Local)
	short.Prefill.Timeout = 500 * time.Millisecond // long enough to come to the endpoint
	tests := []struct {
		name            string
		connector       route.Connector
		policy          *route.Policy
		decode, prefill handlers
		status          int
		reason          string // the header's
		legs            []string
		on              []roster.ID // the stage's reservation, of the first decision
		done            bool        // it was ended as done
		local           map[route.Reason]float64
		ended           map[string]float64 // prefill legs, by reason
		failed          []string           // the quarantine's, without the words
	}{
		{
			name: "E1 NIXL", connector: route.ConnectorNIXL, policy: policyFor(route.Local), decode: handlers{decodes()}, prefill: handlers{prefills()},
			status: 200, legs: []string{"prefill e1", "decode e0"}, on: []roster.ID{"e1"}, done: true, ended: map[string]float64{"ok": 1},
		},
		{
			name: "B162 SGLang", connector: route.ConnectorSGLang, policy: policyFor(route.Local),
			decode:  handlers{func(w http.ResponseWriter, r *http.Request) { time.Sleep(20 * time.Millisecond); decodes()(w, r) }}, // after the other leg, as a rule
			prefill: handlers{answers(200, `{}`)}, status: 200, on: []roster.ID{"e1"}, done: true, ended: map[string]float64{"ok": 1},
		},
		{
			name: "shared storage", connector: route.ConnectorSharedStorage, policy: policyFor(route.Local), decode: handlers{decodes()}, prefill: handlers{answers(200, `{}`)},
			status: 200, legs: []string{"prefill e1", "whole e0"}, on: []roster.ID{"e1"}, done: true, ended: map[string]float64{"ok": 1},
		},
		{
			name: "E14 5xx, then another", connector: route.ConnectorNIXL, policy: policyFor(route.Local), decode: handlers{decodes()}, prefill: handlers{answers(500, ""), prefills()},
			status: 200, legs: []string{"prefill e1", "prefill e2", "decode e0"}, on: []roster.ID{"e1", "e2"}, done: true, ended: map[string]float64{"ok": 1, "bad-status": 1}, failed: []string{"e1"},
		},
		{
			name: "killed, and nobody else", connector: route.ConnectorNIXL, policy: policyFor(route.Local), decode: handlers{decodes()}, prefill: handlers{nil},
			status: 200, legs: []string{"whole e0"}, on: []roster.ID{"e1"}, local: map[route.Reason]float64{route.ReasonStageFailed: 1}, ended: map[string]float64{"connect-failed": 1}, failed: []string{"e1"},
		},
		{
			name: "hangs", connector: route.ConnectorNIXL, policy: short, decode: handlers{decodes()}, prefill: handlers{hangs},
			status: 200, legs: []string{"prefill e1", "whole e0"}, on: []roster.ID{"e1"}, local: map[route.Reason]float64{route.ReasonStageFailed: 1}, ended: map[string]float64{"timeout": 1}, failed: []string{"e1"},
		},
		{
			name: "B157 fails, and must not be decoded only", connector: route.ConnectorNIXL, policy: policyFor(route.Fail), decode: handlers{decodes()}, prefill: handlers{breaks},
			status: 502, reason: "prefill-failed", legs: []string{"prefill e1"}, on: []roster.ID{"e1"}, ended: map[string]float64{"reset": 1}, failed: []string{"e1"},
		},
		{
			name: "B173 error in a 200", connector: route.ConnectorNIXL, policy: policyFor(route.Fail), decode: handlers{decodes()}, prefill: handlers{answers(200, `{"choices":[{"finish_reason":"error"}]}`)},
			status: 502, reason: "prefill-failed", legs: []string{"prefill e1"}, on: []roster.ID{"e1"}, ended: map[string]float64{"reported-error": 1}, failed: []string{"e1"},
		},
		{
			name: "E14 fails with an answer", connector: route.ConnectorNIXL, policy: policyFor(route.Fail), decode: handlers{decodes(), decodes()}, prefill: handlers{answers(500, "p broke")},
			status: 500, legs: []string{"prefill e2"}, on: []roster.ID{"e2"}, ended: map[string]float64{"bad-status": 1}, failed: []string{"e2"},
		},
		{
			name: "E13 refused", connector: route.ConnectorNIXL, policy: policyFor(route.Local), decode: handlers{decodes()}, prefill: handlers{answers(429, "slow"), prefills()},
			status: 429, legs: []string{"prefill e1"}, on: []roster.ID{"e1"}, ended: map[string]float64{"refused": 1},
		},
		{
			name: "B161 nobody decodes there: what was handed over goes to the next", connector: route.ConnectorNIXL, policy: policyFor(route.Local), decode: handlers{nil, decodes()}, prefill: handlers{prefills()},
			status: 200, legs: []string{"prefill e2", "decode e1"}, on: []roster.ID{"e2"}, done: true, ended: map[string]float64{"ok": 1}, failed: []string{"e0"},
		},
		{
			name: "decoding breaks: all anew", connector: route.ConnectorNIXL, policy: policyFor(route.Local), decode: handlers{breaks, decodes()}, prefill: handlers{prefills()},
			status: 200, legs: []string{"prefill e2", "decode e0", "prefill e2", "decode e1"}, on: []roster.ID{"e2"}, done: true, ended: map[string]float64{"ok": 2}, failed: []string{"e0"},
		},
		{
			name: "decoding fails with 503: all anew", connector: route.ConnectorNIXL, policy: policyFor(route.Local), decode: handlers{answers(503, "busy"), decodes()}, prefill: handlers{prefills()},
			status: 200, legs: []string{"prefill e2", "decode e0", "prefill e2", "decode e1"}, on: []roster.ID{"e2"}, done: true, ended: map[string]float64{"ok": 2}, failed: []string{"e0"},
		},
		{
			name: "B169 SGLang's prefill fails", connector: route.ConnectorSGLang, policy: policyFor(route.Fail), decode: handlers{hangs}, prefill: handlers{breaks},
			status: 502, reason: "prefill-failed", on: []roster.ID{"e1"}, ended: map[string]float64{"reset": 1}, failed: []string{"e1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPD(t, tt.connector, tt.policy, tt.decode, tt.prefill)
			got := p.chat("Content-Digest", "sha-256=:x:")
			if got.status != tt.status || got.header.Get("X-Pointsman-Reason") != tt.reason {
				t.Errorf("answered %d %q %s", got.status, got.header.Get("X-Pointsman-Reason"), got.body)
			}
			switch {
			case tt.status == 200 && tt.connector == route.ConnectorNIXL && tt.local == nil:
				if !strings.Contains(got.body, `"cached_tokens":7`) {
					t.Errorf("E22: answer %s", got.body)
				}
			case tt.status == 200:
				if !strings.Contains(got.body, `"cached_tokens":49`) {
					t.Errorf("answer %s", got.body)
				}
			}
			p.settled()
			if tt.legs != nil {
				if diff := cmp.Diff(tt.legs, p.legs()); diff != "" {
					t.Errorf("legs (-want +got):\n%s", diff)
				}
			}
			s := p.stages[0]
			s.mu.Lock()
			if diff := cmp.Diff(tt.on, s.on); diff != "" || s.done != tt.done || !s.ended {
				t.Errorf("the stage's reservation was on %v, ended %v, done %v", s.on, s.ended, s.done)
			}
			if tt.done && tt.connector == route.ConnectorNIXL && (s.usage.CachedPromptTokens != 7 || s.usage.PromptTokens != 50) {
				t.Errorf("the stage's usage is %+v", s.usage)
			}
			s.mu.Unlock()
			for _, why := range route.Reasons() {
				if n := p.tel.Value("pointsman_router_decode_only_total", "stage", "prefill", "reason", string(why)); n != tt.local[why] {
					t.Errorf("%v requests were decoded only because of %s", n, why)
				}
			}
			for why, n := range tt.ended {
				kittest.Eventually(t, fmt.Sprintf("%v prefill legs ended by %s", n, why), func() bool { return p.value("prefill_legs_total", "reason", why) == n })
			}
			if all := p.value("prefill_legs_total"); all != sum(tt.ended) {
				t.Errorf("%v prefill legs", all)
			}
			var failed []string
			for _, f := range p.failures() {
				id, _, _ := strings.Cut(f, ":")
				failed = append(failed, id)
			}
			if diff := cmp.Diff(tt.failed, failed); diff != "" {
				t.Errorf("quarantine (-want +got):\n%s", diff)
			}
		})
	}
}

func sum(m map[string]float64) (n float64) {
	for _, v := range m {
		n += v
	}
	return n
}

// A client that leaves ends the leg that is under way, and everybody's books balance.
func TestClientLeavesWhilePrefilling(t *testing.T) {
	for _, c := range []route.Connector{route.ConnectorNIXL, route.ConnectorSGLang} {
		left := make(chan error, 2)
		begun := make(chan struct{}, 2)
		hangs := func(_ http.ResponseWriter, r *http.Request) {
			begun <- struct{}{}
			<-r.Context().Done()
			left <- r.Context().Err()
		}
		p := newPD(t, c, policyFor(route.Local), handlers{hangs}, handlers{hangs})
		ctx, cancel := context.WithCancel(t.Context())
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url("/v1/completions"), strings.NewReader(`{"model":"m","prompt":"p"}`))
		if err != nil {
			t.Fatal(err)
		}
		go func() { <-begun; cancel() }()
		if resp, err := client(t).Do(q); err == nil {
			_ = resp.Body.Close()
			t.Error("an answer")
		}
		<-left
		p.counted(1, "none", "cancelled")
		p.settled()
		if f := p.failures(); len(f) != 0 {
			t.Errorf("%s: %v are blamed", c, f)
		}
		if s := p.stages[0]; s.done {
			t.Errorf("%s: the stage was done", c)
		}
		if n := p.tel.Value("pointsman_router_decode_only_total"); n != 0 {
			t.Errorf("%s: %v requests were decoded only", c, n)
		}
	}
}

// The time that others take before it is not that of the endpoint that decodes.
func TestFirstByteTimeoutIsOfDecoding(t *testing.T) {
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	meets := func(w http.ResponseWriter, r *http.Request) { // it waits for the other leg, as SGLang's do
		if raw, _ := io.ReadAll(r.Body); strings.Contains(string(raw), "bootstrap_room") {
			<-r.Context().Done()
			return
		}
		decodes()(w, r)
	}
	policy := policyFor(route.Local)
	policy.Prefill.Timeout = 900 * time.Millisecond
	for _, c := range []route.Connector{route.ConnectorNIXL, route.ConnectorSharedStorage, route.ConnectorSGLang} {
		p := newPD(t, c, policy, handlers{meets}, handlers{hangs}, with(func(c *Config) { c.FirstByteTimeout = ms(600) }))
		if got := p.chat(); got.status != 200 {
			t.Errorf("%s: %+v", c, got)
		}
		p.settled()
		if n := p.value("prefill_legs_total", "reason", "timeout"); n != 1 {
			t.Errorf("%s: %v prefill legs took too long", c, n)
		}
		if failed := p.failures(); len(failed) != 1 || !strings.HasPrefix(failed[0], "e1:") {
			t.Errorf("%s: blamed are %q", c, failed)
		}
	}
	p := newPD(t, route.ConnectorNIXL, policyFor(route.Local), handlers{hangs}, handlers{prefills()}, with(func(c *Config) { c.FirstByteTimeout = ms(50) }))
	if got := p.chat(); got.status != 504 || got.header.Get("X-Pointsman-Reason") != "first-byte-timeout" {
		t.Errorf("decoding hangs: %+v", got)
	}
	p.settled()
	if failed := p.failures(); len(failed) != 0 || p.value("transfer_failures_total") != 1 {
		t.Errorf("decoding, or the transfer, hangs: blamed are %q", failed)
	}
	p = newPD(t, route.ConnectorSGLang, policyFor(route.Local), handlers{hangs}, handlers{answers(200, "{}")}, with(func(c *Config) { c.FirstByteTimeout = ms(50) }))
	if got := p.chat(); got.status != 504 || got.header.Get("X-Pointsman-Reason") != "first-byte-timeout" {
		t.Errorf("SGLang's decoding hangs: %+v", got)
	}
}

// A prompt does not arrive where it is to be decoded. Whose fault it was is found out by who
// else fetches from whom, and nobody is blamed before.
func TestTransferFails(t *testing.T) {
	fails := func(w http.ResponseWriter, r *http.Request) { // only where there is something to fetch
		if raw, _ := io.ReadAll(r.Body); strings.Contains(string(raw), "kv_transfer_params") {
			answers(500, "no blocks")(w, r)
			return
		}
		decodes()(w, r)
	}
	for _, tt := range []struct {
		name            string
		decode, prefill handlers
		retries         int
		policy          route.Action
		status          int
		legs            []string
		failed          []string
		failures        float64
		blamed          map[string]float64
	}{
		{
			"the prefill endpoint's", handlers{fails, fails}, handlers{prefills()}, 3, route.Local,
			200, []string{"prefill e2", "decode e0", "prefill e2", "decode e1", "whole e0"}, []string{"e2"}, 2, map[string]float64{"prefill": 1},
		},
		{
			"the decoding endpoint's", handlers{fails, decodes()}, handlers{prefills()}, 3, route.Local,
			200, []string{"prefill e2", "decode e0", "prefill e2", "decode e1"}, []string{"e0"}, 1, map[string]float64{"decode": 1},
		},
		{
			"nobody else decodes", handlers{fails}, handlers{prefills()}, 3, route.Local,
			200, []string{"prefill e1", "decode e0", "whole e0"}, []string{"e1"}, 1, map[string]float64{"prefill": 1},
		},
		{
			"it cannot decode alone either", handlers{answers(500, "broken")}, handlers{prefills()}, 3, route.Local,
			500, []string{"prefill e1", "decode e0", "whole e0"}, []string{"e0"}, 1, nil,
		},
		{
			"it must not decode alone", handlers{fails, fails, fails}, handlers{prefills()}, 3, route.Fail,
			500, []string{"prefill e3", "decode e0", "prefill e3", "decode e1", "prefill e3", "decode e2"}, []string{"e3"}, 3, map[string]float64{"prefill": 1},
		},
		{
			"not tried again", handlers{fails, decodes()}, handlers{prefills()}, 0, route.Local,
			500, []string{"prefill e2", "decode e0"}, nil, 1, nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPD(t, route.ConnectorNIXL, policyFor(tt.policy), tt.decode, tt.prefill, with(func(c *Config) { c.Retries = tt.retries }))
			if got := p.chat(); got.status != tt.status {
				t.Errorf("answered %d %s", got.status, got.body)
			}
			p.settled()
			if d := cmp.Diff(tt.legs, p.legs()); d != "" {
				t.Errorf("legs (-want +got):\n%s", d)
			}
			var failed []string
			for _, f := range p.failures() {
				id, _, _ := strings.Cut(f, ":")
				failed = append(failed, id)
			}
			if d := cmp.Diff(tt.failed, failed); d != "" {
				t.Errorf("quarantine (-want +got):\n%s", d)
			}
			if n := p.value("transfer_failures_total"); n != tt.failures {
				t.Errorf("%v failures are counted", n)
			}
			for _, role := range []string{"prefill", "decode"} {
				if n := p.value("transfer_blames_total", "role", role); n != tt.blamed[role] {
					t.Errorf("%v were blamed that %s", n, role)
				}
			}
		})
	}
}

// What cannot be divided goes to the endpoint that decodes as it is, and is counted.
func TestRequestsThatAreNotDivided(t *testing.T) {
	for name, ask := range map[string]func(p *pd) reply{
		"compressed": func(p *pd) reply {
			return p.do("POST", "/v1/chat/completions", "\x1f\x8b\x08", "Content-Encoding", "gzip")
		},
		"another API": func(p *pd) reply { return p.do("POST", "/v1/embeddings", `{"model":"m","input":"x"}`) },
		"no body":     func(p *pd) reply { return p.do("GET", "/v1/files", "") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPD(t, route.ConnectorNIXL, policyFor(route.Fail), handlers{decodes()}, handlers{prefills()})
			if got := ask(p); got.status != 200 && got.status != 400 {
				t.Errorf("%+v", got)
			} else if got.status == 400 && name != "compressed" {
				t.Errorf("%+v", got)
			}
			p.settled()
			if len(p.stages) == 0 {
				return // refused before
			}
			if diff := cmp.Diff([]string{"whole e0"}, p.legs()); diff != "" {
				t.Error(diff)
			}
			if n := p.tel.Value("pointsman_router_decode_only_total", "stage", "prefill", "reason", "capability-missing"); n != 1 {
				t.Errorf("counted %v", n)
			}
		})
	}
}

// A fall-back that is also one of those who prefill does both by itself.
func TestFallbackPrefillsToo(t *testing.T) {
	p := newPD(t, route.ConnectorNIXL, policyFor(route.Local), handlers{nil}, handlers{func(w http.ResponseWriter, r *http.Request) {
		prefills()(w, r)
	}})
	made := p.plan
	p.plan = func(d *route.Decision, all []roster.Endpoint) {
		if made(d, all); d.Endpoint != nil {
			d.Fallbacks = []*roster.Endpoint{&all[1]}
		}
	}
	if got := p.chat(); got.status != 200 {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]string{"prefill e1", "whole e1"}, p.legs()); diff != "" {
		t.Error(diff)
	}
	if n := p.tel.Value("pointsman_router_decode_only_total", "stage", "prefill", "reason", "same-endpoint"); n != 1 {
		t.Errorf("counted %v", n)
	}
}

// The endpoint that decodes is asked first, and has enough in its cache.
func TestF4Cached(t *testing.T) {
	p := newPD(t, route.ConnectorSharedStorage, policyFor(route.Local), handlers{decodes()}, handlers{prefills()})
	if got := p.do("POST", "/v1/completions", `{"model":"m","prompt":"p","cache_hit_threshold":0.5}`); got.status != 200 {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]string{"whole e0"}, p.legs()); diff != "" {
		t.Error(diff)
	}
	if n := p.tel.Value("pointsman_router_decode_only_total", "stage", "prefill", "reason", "cached"); n != 1 {
		t.Errorf("counted %v", n)
	}
}

// SGLang's prefill leg fails when the answer has begun: the stream is broken visibly.
func TestPrefillFailsWithinTheAnswer(t *testing.T) {
	begun := make(chan struct{})
	p := newPD(t, route.ConnectorSGLang, policyFor(route.Local), handlers{func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	}}, handlers{func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-begun:
			time.Sleep(50 * time.Millisecond) // so that the first byte is passed on
		case <-r.Context().Done():
		}
		answers(500, "")(w, r)
	}})
	got := p.do("POST", "/v1/completions", `{"model":"m","prompt":"p","stream":true}`)
	if got.status != 200 || got.err == nil && !strings.Contains(got.body, "prefill") {
		t.Errorf("%+v", got)
	}
	p.counted(1, "2xx", "prefill-failed")
	p.settled()
}

// B160, B162, D3, C23: with a sidecar behind it the front sets headers and runs nothing;
// a client's own are gone on every leg (D6, B214).
func TestSidecarBehind(t *testing.T) {
	var seen http.Header
	keep := func(w http.ResponseWriter, r *http.Request) { seen = r.Header.Clone(); decodes()(w, r) }
	for _, c := range []route.Connector{route.ConnectorSidecar, route.ConnectorNIXL} {
		p := newPD(t, c, policyFor(route.Local), handlers{keep}, handlers{prefills()})
		got := p.chat("X-Prefiller-Host-Port", "169.254.169.254:80", "x-prefiller-HOST-port", "10.0.0.1:1", "X-Prefiller-Url", "http://internal/", "X-Data-Parallel-Host-Port", "h:1")
		if got.status != 200 {
			t.Fatalf("%+v", got)
		}
		var want []string
		if c == route.ConnectorSidecar {
			want = []string{p.roster.Snapshot().Table.Endpoints[1].Address}
		}
		if diff := cmp.Diff(want, seen["X-Prefiller-Host-Port"]); diff != "" || seen.Get("X-Prefiller-Url") != "" || seen.Get("X-Data-Parallel-Host-Port") != "" {
			t.Errorf("%s: headers %v", c, seen)
		}
		if n := p.value("prefill_legs_total"); (n == 1) != (c == route.ConnectorNIXL) {
			t.Errorf("%s: %v prefill legs", c, n)
		}
	}
}

// A sidecar says whose failure it passes on: the endpoint beside it is not blamed, whether
// another one is tried or not.
func TestSidecarSaysWhoFailed(t *testing.T) {
	for _, retries := range []int{0, 3} {
		for reason, want := range map[string]string{"prefill-failed": "e1", "decode-unreachable": "e0"} {
			p := newPD(t, route.ConnectorSidecar, policyFor(route.Local), handlers{func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Pointsman-Reason", reason)
				answers(502, "no")(w, r)
			}}, handlers{prefills()}, with(func(c *Config) { c.Retries = retries }))
			if got := p.chat(); got.status != 502 || got.header.Get("X-Pointsman-Reason") != "" {
				t.Errorf("%s: %+v", reason, got)
			}
			p.settled()
			if f := p.failures(); len(f) != 1 || !strings.HasPrefix(f[0], want+":") {
				t.Errorf("%s, %d retries: blamed are %q, want %s", reason, retries, f, want)
			}
		}
	}
}
