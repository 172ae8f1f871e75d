package disagg

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// declines answers that too little is cached, unless it is told to decode whatever is.
func declines(stream bool) http.HandlerFunc {
	const doc = `{"choices":[{"index":0,"text":"","finish_reason":"cache_threshold"}]}`
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Cold") == "" || strings.Contains(r.Header.Get("X-Got"), ":0"):
			decodes()(w, r)
		case stream:
			answers(200, "text/event-stream", "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: "+doc+"\n\ndata: [DONE]\n\n")(w, r)
		default:
			answers(200, "application/json", doc)(w, r)
		}
	}
}

func TestF4F5SharedStorage(t *testing.T) {
	const with = `{"prompt":"p","cache_hit_threshold":0.5,"max_tokens":9}`
	tests := []struct {
		name, body   string
		cold, stream bool
		prefill      int
		decode       []string
		served       Served
	}{
		{"F4 enough is cached", with, false, false, 0, []string{with}, ByDecodeAlone},
		{"F5 too little is", with, true, false, 1, []string{with, `{"prompt":"p","cache_hit_threshold":0,"max_tokens":9}`}, ByDecode},
		{"F5 in a stream", with, true, true, 1, []string{with, `{"prompt":"p","cache_hit_threshold":0,"max_tokens":9}`}, ByDecode},
		{"no threshold", `{"prompt":"p"}`, false, false, 1, []string{`{"prompt":"p","cache_hit_threshold":0}`}, ByDecode},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d *engine
			p := newEngine(t, "p", answers(200, "application/json", `{"choices":[]}`))
			d = newEngine(t, "d", func(w http.ResponseWriter, r *http.Request) {
				all := d.requests()
				if strings.Contains(all[len(all)-1].body, `threshold":0,`) {
					r.Header.Set("X-Got", ":0")
				}
				declines(tt.stream)(w, r)
			})
			r := newRig(t, SharedStorage, p)
			r.path, r.body = "/v1/completions", tt.body
			if tt.cold {
				r.header.Set("X-Cold", "1")
			}
			a := r.do(d)
			if a.err != nil || a.status != 200 || !strings.Contains(a.body, "hello") || a.report.Served != tt.served || a.report.AnsweredBy.ID != "d" {
				t.Errorf("%+v", a)
			}
			if tt.served == ByDecodeAlone && a.report.Reason != Cached {
				t.Errorf("reason %s", a.report.Reason)
			}
			var sent []string
			for _, g := range d.requests() {
				sent = append(sent, g.body)
				if g.id != "client-1" || g.ids != 1 {
					t.Errorf("id %q (%d)", g.id, g.ids)
				}
			}
			if diff := cmp.Diff(tt.decode, sent); diff != "" {
				t.Error(diff)
			}
			if n := len(p.requests()); n != tt.prefill {
				t.Errorf("%d prefill legs", n)
			}
			eventually(t, "no connection is in use", func() bool { return p.busy()+d.busy() == 0 })
		})
	}
}

func TestSharedStorageFailures(t *testing.T) {
	p, d := newEngine(t, "p", answers(500, "text/plain", "no")), newEngine(t, "d", decodes())
	r := newRig(t, SharedStorage, p)
	r.path, r.body = "/v1/completions", `{"prompt":"p"}`
	if a := r.do(d); a.status != 500 || a.report.Served != ByPrefillAlone || len(d.requests()) != 0 {
		t.Errorf("Fail: %+v", a)
	}
	r.plan.Policy.OnFailure = []Action{LocalPrefill}
	if a := r.do(d); a.status != 200 || a.report.Served != ByDecodeAlone || a.report.Reason != BadStatus || d.requests()[0].body != r.body {
		t.Errorf("LocalPrefill: %+v", a)
	}
	// With a threshold the engine would decline again: it is told not to.
	cold := newEngine(t, "cold", func(w http.ResponseWriter, r *http.Request) {
		answers(200, "application/json", `{"choices":[{"finish_reason":"cache_threshold"}]}`)(w, r)
	})
	r.body = `{"prompt":"p","cache_hit_threshold":0.5}`
	r.do(cold)
	if all := cold.requests(); len(all) != 2 || all[1].body != `{"prompt":"p","cache_hit_threshold":0}` {
		t.Errorf("%v", all)
	}
	// What the decode leg refuses the client hears.
	if a := r.do(newEngine(t, "d3", answers(400, "application/json", "{}"))); a.status != 400 {
		t.Errorf("%+v", a)
	}
}
