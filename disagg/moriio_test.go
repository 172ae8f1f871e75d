package disagg

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/disagg/body"
)

// F14: the rank follows from the request's id, as for the reference.
func TestF14Rank(t *testing.T) {
	for _, tt := range []struct {
		id    string
		ranks int
		want  int
	}{
		{"abc", 8, 2}, {"cmpl-foo-0", 8, 5}, {"00000000-0000-0000-0000-000000000000", 8, 6}, {"abc", 4, 2}, {"abc", 2, 0}, {"abc", 1, 0},
	} {
		if got := rankOf(tt.id, tt.ranks); got != tt.want {
			t.Errorf("%s of %d: %d, want %d", tt.id, tt.ranks, got, tt.want)
		}
	}
}

// F16: what a prefill leg says of its rank counts if it is one.
func TestF16ReturnedRank(t *testing.T) {
	m := DefaultMoRIIO()
	m.Ranks = 8
	for _, tt := range []struct {
		said string
		want int
	}{
		{`{}`, 2}, {`{"remote_dp_rank":"3"}`, 2}, {`{"remote_dp_rank":3.5}`, 2}, {`{"remote_dp_rank":8}`, 2}, {`{"remote_dp_rank":-1}`, 2},
		{`{"remote_dp_rank":null}`, 2}, {`{"remote_dp_rank":1e400}`, 2}, {`{"remote_dp_rank":[3]}`, 2},
		{`{"remote_dp_rank":7}`, 7}, {`{"remote_dp_rank":0}`, 0}, {`{"remote_dp_rank":3.0}`, 3},
	} {
		p, err := body.ReadParams([]byte(tt.said))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.returned(p, "abc"); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.said, got, tt.want)
		}
	}
}

// writing is a rig whose prefill engine writes.
func writing(t *testing.T, parallel bool, prefill ...*engine) *rig {
	r := newRig(t, NIXL, prefill...)
	m := DefaultMoRIIO()
	m.Parallel, m.PrefillHandshake, m.PrefillNotify = parallel, 6302, 61006
	r.plan.MoRIIO = &m
	return r
}

// writes is an engine that says where it is, as vLLM's does.
func writes(more string) http.HandlerFunc {
	return answers(200, "application/json", `{"choices":[{"finish_reason":"length"}],"usage":{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":7}},"kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[[1]],"big":9007199254740993`+more+`}}`)
}

func TestMoRIIOAfterEachOther(t *testing.T) {
	p, d := newEngine(t, "p", writes(`,"transfer_id":"tx-theirs","remote_dp_rank":3`)), newEngine(t, "d", decodes())
	r := writing(t, false, p)
	r.plan.MoRIIO.Ranks, r.plan.MoRIIO.Local, r.plan.MoRIIO.DecodeHost = 8, 2, "10.0.0.2"
	r.plan.MoRIIO.PrefillHosts, r.plan.MoRIIO.DecodeHosts = []string{"10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.1.4"}, []string{"10.0.2.1", "10.0.2.2", "10.0.2.3", "10.0.2.4"}
	if err := r.plan.MoRIIO.Validate(); err != nil {
		t.Fatal(err)
	}
	a := r.do(d)
	if a.status != 200 || !strings.Contains(a.body, `"cached_tokens":7`) {
		t.Fatalf("%+v", a)
	}
	g := p.requests()[0]
	sent := kvOf(t, g)
	rank := rankOf("client-1", 8)
	want := fmt.Sprintf(`"max_completion_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":"10.0.0.2","remote_port":null,`+
		`"remote_notify_port":61005,"remote_dp_rank":%d,"remote_dp_rank_override":true,"remote_handshake_port":6301,"transfer_id":"txU","tp_size":1,"remote_dp_size":8,"remote_hosts":["10.0.2.1","10.0.2.2","10.0.2.3","10.0.2.4"],"remote_dp_size_local":2}}`, rank)
	if got := anonymous(g.body, strings.TrimPrefix(sent.Transfer, "tx")); !strings.HasPrefix(sent.Transfer, "tx") || !strings.HasSuffix(got, want) {
		t.Errorf("prefill %s\nwant %s", got, want)
	}
	if h := g.header.Get(headerRank); h != fmt.Sprint(rank%2) {
		t.Errorf("prefill rank %q", h)
	}
	dec := d.requests()[0]
	want = `"kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[[1]],"big":9007199254740993,"transfer_id":"tx-theirs","remote_dp_rank":3,"remote_dp_rank_override":true,` +
		`"remote_notify_port":61006,"remote_handshake_port":6302,"remote_dp_size":8,"remote_hosts":["10.0.1.1","10.0.1.2","10.0.1.3","10.0.1.4"],"remote_dp_size_local":2}}`
	if !strings.HasSuffix(dec.body, want) || dec.header.Get(headerRank) != "1" {
		t.Errorf("decode, rank %q: %s\nwant %s", dec.header.Get(headerRank), dec.body, want)
	}
	// What was written to one engine another cannot use.
	if dead := newEngine(t, "dead", nil); true {
		_, run, err := r.runner.Do(t.Context(), &r.plan, r.request(), dead.Endpoint, r.watch)
		if err == nil || run.Reusable() {
			t.Errorf("%v, reusable %v", err, run.Reusable())
		}
	}
	r.watch.told(t)
}

func TestMoRIIOAtOnce(t *testing.T) {
	begun := make(chan struct{}, 8)
	p := newEngine(t, "p", func(w http.ResponseWriter, r *http.Request) {
		<-begun // both are under way
		writes("")(w, r)
	})
	d := newEngine(t, "d", func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		decodes()(w, r)
	})
	r := writing(t, true, p)
	r.plan.MoRIIO.Ranks = 8
	a := r.do(d)
	if a.status != 200 || !strings.Contains(a.body, `"cached_tokens":7`) || a.report.Served != ByDecode || a.report.Reason != OK {
		t.Fatalf("%+v", a)
	}
	pre, dec := kvOf(t, p.requests()[0]), kvOf(t, d.requests()[0])
	rank := rankOf("client-1", 8)
	if pre.Transfer != dec.Transfer || !strings.HasPrefix(pre.Transfer, "tx") || *pre.Rank != rank || *dec.Rank != rank || !pre.Override || !dec.Override {
		t.Errorf("%+v, %+v", pre, dec)
	}
	if pre.RemoteHost != "127.0.0.1" || pre.Notify != 61005 {
		t.Errorf("prefill %+v", pre)
	}
	want := fmt.Sprintf(`{"model":"m","messages":[],"max_tokens":50,"seed":9007199254740993,"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":"127.0.0.1:6302","remote_block_ids":[],`+
		`"remote_host":"127.0.0.1","remote_port":6302,"remote_notify_port":61006,"remote_dp_rank":%d,"remote_dp_rank_override":true,"remote_handshake_port":6302,"transfer_id":"txU","tp_size":1,"remote_dp_size":8}}`, rank)
	if got := anonymous(d.requests()[0].body, strings.TrimPrefix(dec.Transfer, "tx")); got != want {
		t.Errorf("decode %s", cmp.Diff(want, got))
	}
	for _, g := range []got{p.requests()[0], d.requests()[0]} {
		if g.header.Get(headerRank) != fmt.Sprint(rank) || g.ids != 1 || g.id != "client-1" {
			t.Errorf("rank %q, id %q", g.header.Get(headerRank), g.id)
		}
	}
	if h := d.requests()[0].header.Get("Accept-Encoding"); h != "identity" {
		t.Errorf("the answer, which is changed, may be compressed: %q", h)
	}
	if diff := cmp.Diff([]string{"begin p", "end p ok"}, r.watch.told(t)); diff != "" {
		t.Error(diff)
	}
}

// E32: the prefill leg fails while the decode leg has answered 200; the client sees the
// failure, and nothing of the answer.
func TestE32CommitPoint(t *testing.T) {
	for _, tt := range []struct {
		name   string
		play   http.HandlerFunc
		want   Reason
		status int
	}{
		{"500", answers(500, "text/plain", "p broke"), BadStatus, 500},
		{"400", answers(400, "text/plain", "p broke"), Refused, 400},
		{"reset", breaks, Reset, 0},
		{"an error in a 200", answers(200, "application/json", `{"error":{"message":"x"}}`), ReportedError, 0},
	} {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			t.Run("E32 "+tt.name+" "+kind, func(t *testing.T) {
				answered := make(chan struct{}, 1)
				p := newEngine(t, "p", func(w http.ResponseWriter, r *http.Request) {
					<-answered
					tt.play(w, r)
				})
				d := newEngine(t, "d", func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", kind)
					_, _ = w.Write([]byte("data: {}\n\n"))
					_ = http.NewResponseController(w).Flush()
					answered <- struct{}{}
				})
				r := writing(t, true, p)
				r.plan.Policy.OnFailure = []Action{Fail}
				a := r.do(d)
				if tt.status == 0 && !isPrefillError(a.err, tt.want) || a.status != tt.status || a.status != 0 && a.body != "p broke" {
					t.Errorf("%+v", a)
				}
				if len(a.report.Attempts) != 1 || a.report.Attempts[0].Reason != tt.want {
					t.Errorf("attempts %+v", a.report.Attempts)
				}
				if diff := cmp.Diff([]string{"begin p", "end p " + string(tt.want)}, r.watch.told(t)); diff != "" {
					t.Error(diff)
				}
				eventually(t, "no connection is in use", func() bool { return p.busy()+d.busy() == 0 })
			})
		}
	}
}

// The answer does not wait for ever: a prefill leg that hangs counts as timed out, and both
// are cancelled.
func TestBackstop(t *testing.T) {
	left := make(chan struct{}, 2)
	p, d := newEngine(t, "p", hangs(left)), newEngine(t, "d", hangs(left))
	r := writing(t, true, p)
	r.plan.MoRIIO.Within, r.plan.Policy.OnFailure = 50*time.Millisecond, []Action{Fail}
	if a := r.do(d); !isPrefillError(a.err, Timeout) {
		t.Errorf("%+v", a)
	}
	for range len(p.requests()) + len(d.requests()) {
		<-left
	}
	// Also where the decode engine has answered.
	d = newEngine(t, "d", decodes())
	if a := r.do(d); !isPrefillError(a.err, Timeout) {
		t.Errorf("%+v", a)
	}
	r.watch.told(t)
}

// When the client leaves, both legs end, whatever the connector, and wherever they are.
func TestClientLeavesBoth(t *testing.T) {
	for name, set := range map[string]func(r *rig){
		"mooncake": func(r *rig) { r.plan.Connector = Mooncake },
		"moriio at once": func(r *rig) {
			m := DefaultMoRIIO()
			m.Parallel = true
			r.plan.MoRIIO = &m
		},
	} {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{}, 2)
			p, d := newEngine(t, "p", hangs(left)), newEngine(t, "d", hangs(left))
			r := newRig(t, NIXL, p)
			boot := newBootstrap(t, r, p, engineIs("e"))
			_ = boot
			set(r)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				for end := time.Now().Add(20 * time.Second); len(p.requests()) == 0 || len(d.requests()) == 0; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						break
					}
				}
				cancel()
			}()
			if a := r.doCtx(ctx, d); a.err == nil || isPrefillError(a.err, Cancelled) {
				t.Errorf("%+v", a)
			}
			<-left
			<-left
			if diff := cmp.Diff([]string{"begin p", "end p cancelled"}, r.watch.told(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMoRIIOFaults(t *testing.T) {
	for want, change := range map[string]func(m *MoRIIO){
		"within":               func(m *MoRIIO) { m.Parallel, m.Within = true, 0 },
		"prefillHandshakePort": func(m *MoRIIO) { m.PrefillHandshake = 0 },
		"tensorRanks":          func(m *MoRIIO) { m.Tensor = 0 },
		"ranks":                func(m *MoRIIO) { m.Ranks = 0 },
		"localRanks: 3":        func(m *MoRIIO) { m.Ranks, m.Local = 8, 3 },
		"localIP":              func(m *MoRIIO) { m.DecodeHost = "10.0.0.1:80" },
		"prefillHosts[1]":      func(m *MoRIIO) { m.Ranks, m.Local, m.PrefillHosts = 4, 2, []string{"10.0.0.1", "-"} },
		"decodeHosts: there are several": func(m *MoRIIO) {
			m.DecodeHosts = []string{"10.0.0.1", "10.0.0.2"}
		},
		"decodeHosts: there are 3": func(m *MoRIIO) {
			m.Ranks, m.Local, m.DecodeHosts = 4, 2, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
		},
	} {
		m := DefaultMoRIIO()
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&m)
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	p, d := newEngine(t, "p", prefills()), newEngine(t, "d", decodes())
	r := writing(t, false, p)
	r.plan.Connector = SGLang
	if _, _, err := r.runner.Do(t.Context(), &r.plan, r.request(), d.Endpoint, nil); err == nil || !strings.Contains(err.Error(), "MoRI-IO") {
		t.Errorf("%v", err)
	}
}

// A number as it was written, and names with escapes.
func TestParams(t *testing.T) {
	p, err := body.ReadParams([]byte(` { "a" : 1.0, "b\u0063":[ {"x":1} ] ,"c":"\"}" } `))
	if err != nil {
		t.Fatal(err)
	}
	if string(p.Get("a")) != "1.0" || string(p.Get("bc")) != `[ {"x":1} ]` || string(p.Get("c")) != `"\"}"` || p.Get("d") != nil {
		t.Errorf("%s %s %s", p.Get("a"), p.Get("bc"), p.Get("c"))
	}
	got := p.With([]body.Param{{Name: "bc", Value: "2"}, {Name: "e", Value: "null"}}, []body.Param{{Name: "a", Value: "9"}, {Name: "f", Value: "3"}})
	if want := ` { "a" : 1.0, "b\u0063":2 ,"c":"\"}" ,"e":null,"f":3} `; string(got) != want || !json.Valid(got) {
		t.Errorf("%s\nwant %s", got, want)
	}
	for _, bad := range []string{``, `1`, `[]`, `{`, `{"a"}`, `{"a":1}{}`} {
		if _, err := body.ReadParams([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if empty, err := body.ReadParams([]byte(`{}`)); err != nil || string(empty.With([]body.Param{{Name: "a", Value: "1"}}, nil)) != `{"a":1}` {
		t.Errorf("%v", err)
	}
}
