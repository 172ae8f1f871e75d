package disagg

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// F7, F8: the port of an engine follows from the rank that takes requests at its address.
func TestF7F8RankPort(t *testing.T) {
	ranks := P2P{Base: 8000, Ranks: 4}
	for _, tt := range []struct {
		id      string
		p       P2P
		address string
		want    int
	}{
		{"F7", ranks, "10.0.0.1:8000", 7777},
		{"F7", ranks, "10.0.0.1:8002", 7779},
		{"F7", ranks, "[fd00::1]:8003", 7780},
		{"F7 another port", P2P{Port: 9000, Base: 8000, Ranks: 4}, "10.0.0.1:8001", 9001},
		{"F8 below", ranks, "10.0.0.1:7999", 7777},
		{"F8 above", ranks, "10.0.0.1:8004", 7777},
		{"F8 no port", ranks, "10.0.0.1", 7777},
		{"F8 text", ranks, "10.0.0.1:http", 7777},
		{"F8 base 0", P2P{Ranks: 4}, "10.0.0.1:8002", 7777},
		{"F8 one rank", P2P{Base: 8000, Ranks: 1}, "10.0.0.1:8002", 7777},
	} {
		if got := tt.p.portOf(tt.address); got != tt.want {
			t.Errorf("%s: %s: %d, want %d", tt.id, tt.address, got, tt.want)
		}
	}
}

// F13: who can pull.
func TestF13Pulls(t *testing.T) {
	for _, c := range Connectors() {
		for _, beside := range []bool{false, true} {
			if got, want := Pulls(c, beside), c == Offloading || c == NIXL && beside; got != want {
				t.Errorf("%s, beside %v: %v", c, beside, got)
			}
		}
	}
}

// kv are the kv_transfer_params that a leg was sent.
type kv struct {
	Transfer   string `json:"transfer_id"`
	Decoder    *kvAt  `json:"remote_decoder"`
	Prefiller  *kvAt  `json:"remote_prefiller"`
	Source     *kvAt  `json:"remote_kv_source"`
	Engine     string `json:"remote_engine_id"`
	Rank       *int   `json:"remote_dp_rank"`
	Override   bool   `json:"remote_dp_rank_override"`
	RemoteHost string `json:"remote_host"`
	Notify     int    `json:"remote_notify_port"`
}

type kvAt struct {
	ID   string `json:"kv_request_id"`
	Host string `json:"remote_host"`
	Port int    `json:"remote_port"`
}

func kvOf(t *testing.T, g got) kv {
	t.Helper()
	var b struct {
		KV *kv `json:"kv_transfer_params"`
	}
	if err := json.Unmarshal([]byte(g.body), &b); err != nil || b.KV == nil {
		t.Fatalf("no kv_transfer_params: %v: %s", err, g.body)
	}
	return *b.KV
}

// uuid replaces the ids that are made up by one.
func anonymous(body string, ids ...string) string {
	for _, id := range ids {
		body = strings.ReplaceAll(body, id, "U")
	}
	return body
}

// The bodies of the reference, word for word but for the order of keys, and numbers as the
// client has written them.
func TestOffloading(t *testing.T) {
	p, d := newEngine(t, "p", answers(200, "application/json", `{"choices":[],"usage":{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":7}}}`)), newEngine(t, "d", decodes())
	r := newRig(t, Offloading, p)
	r.body = `{"model":"m","messages":[],"max_tokens":50,"seed":9007199254740993,"stream":false,"kv_transfer_params":{"remote_prefiller":{"remote_host":"10.0.0.9"}}}`
	a := r.do(d)
	if a.err != nil || a.status != 200 || !strings.Contains(a.body, `"cached_tokens":7`) {
		t.Fatalf("%+v", a)
	}
	pre, dec := p.requests()[0], d.requests()[0]
	id := kvOf(t, pre).Decoder.ID
	if len(id) != 36 || kvOf(t, dec).Prefiller.ID != id {
		t.Errorf("ids %q and %q", id, kvOf(t, dec).Prefiller.ID)
	}
	if want, got := `{"model":"m","messages":[],"max_tokens":1,"seed":9007199254740993,"stream":false,"kv_transfer_params":{"remote_decoder":{"kv_request_id":"U"}}}`, anonymous(pre.body, id); got != want {
		t.Errorf("prefill %s", cmp.Diff(want, got))
	}
	if want, got := `{"model":"m","messages":[],"max_tokens":50,"seed":9007199254740993,"stream":false,"kv_transfer_params":{"remote_prefiller":{"kv_request_id":"U","remote_host":"127.0.0.1","remote_port":7777}}}`, anonymous(dec.body, id); got != want {
		t.Errorf("decode %s", cmp.Diff(want, got))
	}
	for _, g := range []struct {
		got
		e *engine
	}{{pre, p}, {dec, d}} {
		if g.ids != 1 || g.id != "client-1" || g.host != g.e.Address || g.header.Get("Content-Digest") != "" {
			t.Errorf("id %q (%d), host %s", g.id, g.ids, g.host)
		}
	}
	r.do(d)
	if again := kvOf(t, p.requests()[1]).Decoder.ID; again == id {
		t.Error("the id is used twice")
	}
	r.watch.told(t)
}

// max_completion_tokens is limited where the client has set it, and not added.
func TestOffloadingLimits(t *testing.T) {
	p, d := newEngine(t, "p", answers(200, "application/json", `{}`)), newEngine(t, "d", decodes())
	r := newRig(t, Offloading, p)
	for _, tt := range []struct{ path, client, prefill string }{
		{"/v1/chat/completions", `{"messages":[]}`, `{"messages":[],"max_tokens":1,"stream":false`},
		{"/v1/chat/completions", `{"max_completion_tokens":100,"min_tokens":4,"stream":true,"stream_options":{}}`, `{"max_completion_tokens":1,"min_tokens":1,"stream":false,"max_tokens":1`},
		{"/v1/responses", `{"input":"x"}`, `{"input":"x","max_output_tokens":1,"stream":false`},
		{"/v1/messages", `{"max_tokens":9}`, `{"max_tokens":1,"stream":false`},
		{"/inference/v1/generate", `{"token_ids":[1]}`, `{"token_ids":[1],"sampling_params":{"max_tokens":1,"min_tokens":1},"stream":false`},
	} {
		r.path, r.body = tt.path, tt.client
		n := len(p.requests())
		if a := r.do(d); a.status != 200 {
			t.Fatalf("%s: %+v", tt.path, a)
		}
		want := tt.prefill + `,"kv_transfer_params":{"remote_decoder":{"kv_request_id":"U"}}}`
		if got := anonymous(p.requests()[n].body, kvOf(t, p.requests()[n]).Decoder.ID); got != want {
			t.Errorf("%s: %s", tt.path, cmp.Diff(want, got))
		}
		if got := d.requests()[n].body; !strings.HasPrefix(got, strings.TrimSuffix(tt.client, "}")) {
			t.Errorf("%s: decode %s", tt.path, got)
		}
	}
	r.body, r.path = `{"prompt":["a","b"]}`, "/v1/completions"
	if _, err := r.runner.Begin(&r.plan, r.request(), nil); err != ErrSeveral { //nolint:errorlint // it is that one
		t.Errorf("two prompts: %v", err)
	}
}

// F10: an engine that is to prefill is told whom to pull from, unless that is itself.
func TestF10Source(t *testing.T) {
	for _, c := range []Connector{Offloading, NIXL} {
		t.Run(string(c), func(t *testing.T) {
			p, q, d := newEngine(t, "p", answers(503, "text/plain", "")), newEngine(t, "q", prefills()), newEngine(t, "d", decodes())
			r := newRig(t, c, p, q)
			r.plan.P2P = P2P{Base: 8000, Ranks: 4}
			r.plan.Source = "10.9.9.9:8002"
			if a := r.do(d); a.status != 200 {
				t.Fatalf("%+v", a)
			}
			first, second := kvOf(t, p.requests()[0]).Source, kvOf(t, q.requests()[0]).Source
			if first == nil || first.Host != "10.9.9.9" || first.Port != 7779 || second == nil || first.ID == second.ID || len(first.ID) != 36 {
				t.Errorf("%+v, %+v", first, second)
			}
			if strings.Contains(d.requests()[0].body, "remote_kv_source") {
				t.Errorf("the decode leg is told too: %s", d.requests()[0].body)
			}
			r.plan.Source = q.Address
			r.plan.Prefill = r.plan.Prefill[1:]
			r.do(d)
			if s := kvOf(t, q.requests()[1]).Source; s != nil {
				t.Errorf("%+v is told to pull from itself", s)
			}
			r.watch.told(t)
		})
	}
	if want, got := `{"remote_kv_source":{"kv_request_id":"U","remote_host":"10.9.9.9","remote_port":7777}}`, string(P2P{}.Pull("10.9.9.9:8000")); !strings.HasPrefix(got, `{"remote_kv_source":{"kv_request_id":"`) || len(got) != len(want)+35 {
		t.Errorf("%s", got)
	}
}

// With a source NIXL's own parameters stay as they are.
func TestSourceBesideNIXL(t *testing.T) {
	p, d := newEngine(t, "p", prefills()), newEngine(t, "d", decodes())
	r := newRig(t, NIXL, p)
	r.plan.Source = "10.9.9.9:8000"
	r.do(d)
	g := p.requests()[0]
	want := `"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null,"remote_kv_source":{"kv_request_id":"U","remote_host":"10.9.9.9","remote_port":7777}}}`
	if got := anonymous(g.body, kvOf(t, g).Source.ID); !strings.HasSuffix(got, want) {
		t.Errorf("%s", got)
	}
}

// How a prefill leg of Offloading's fails, and what becomes of it.
func TestOffloadingFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		play   http.HandlerFunc
		want   Reason
		status int // that the client sees with Fail; 0: an error
	}{
		{"400", answers(400, "text/plain", "no"), Refused, 400},
		{"500", answers(500, "text/plain", "no"), BadStatus, 500},
		{"refused", nil, ConnectFailed, 0},
		{"reset", breaks, Reset, 0},
		{"an error in a 200", answers(200, "application/json", `{"error":{}}`), ReportedError, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, q, d := newEngine(t, "p", tt.play), newEngine(t, "q", answers(200, "application/json", `{}`)), newEngine(t, "d", decodes())
			r := newRig(t, Offloading, p)
			r.plan.Policy.OnFailure = []Action{Fail}
			a := r.do(d)
			if tt.status == 0 && !isPrefillError(a.err, tt.want) || a.status != tt.status || len(d.requests()) != 0 {
				t.Errorf("%+v, %d decode legs", a, len(d.requests()))
			}
			if tt.want == Refused {
				return
			}
			r.plan.Policy.OnFailure = []Action{RetryOther, Fail}
			r.plan.Prefill = append(r.plan.Prefill, q.Endpoint)
			if a := r.do(d); a.status != 200 || a.report.Served != ByDecode || len(a.report.Attempts) != 2 || q.requests()[0].id != "client-1-2" {
				t.Errorf("RetryOther: %+v", a)
			}
			r.plan.Prefill, r.plan.Policy.OnFailure = r.plan.Prefill[:1], []Action{LocalPrefill}
			if a := r.do(d); a.status != 200 || a.report.Served != ByDecodeAlone || a.report.Reason != tt.want || d.requests()[1].body != r.body {
				t.Errorf("LocalPrefill: %+v", a)
			}
			if !slices.Contains(r.watch.told(t), "end p "+string(tt.want)) {
				t.Errorf("told %v", r.watch.events)
			}
		})
	}
}
