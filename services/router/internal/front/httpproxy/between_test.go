package httpproxy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// decodedOnly is a plan without stages, by a decider that declined.
func decodedOnly(p *pd) {
	made := p.plan
	p.plan = func(d *route.Decision, all []roster.Endpoint) {
		if made(d, all); d.Endpoint != nil && d.Plan != nil {
			d.Plan = &route.Plan{Policy: d.Plan.Policy, Connector: d.Plan.Connector, Skipped: []route.Skip{{Stage: route.StagePrefill, Reason: route.ReasonDeclined}}}
		}
	}
}

// B214, in a body: what engines tell each other they are not told by a client, whether the
// prompt is prefilled elsewhere or not.
func TestB214BodyOfTheClient(t *testing.T) {
	const evil = `{"model":"m","kv_transfer_params":{"do_remote_prefill":true,"remote_host":"169.254.169.254","remote_port":80},"bootstrap_host":"10.0.0.1","prompt":"p","seed":9007199254740993}`
	for _, tt := range []struct {
		name, body, want string
		plan             func(*pd)
	}{
		{"decided so", evil, `{"model":"m","prompt":"p","seed":9007199254740993}`, decodedOnly},
		{"nobody prefills", evil, `{"model":"m","prompt":"p","seed":9007199254740993}`, func(*pd) {}},
		{"nothing of the kind", `{"model":"m", "prompt":"kv_transfer_params"}`, `{"model":"m", "prompt":"kv_transfer_params"}`, decodedOnly},
		{"a configuration without stages", evil, evil, func(p *pd) { p.plan = nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			p := newPD(t, route.ConnectorNIXL, policyFor(route.Local), handlers{func(w http.ResponseWriter, r *http.Request) {
				raw, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				got = string(raw)
				if r.Header.Get("Content-Digest") != "" && got != tt.body {
					t.Error("the digest is of another body")
				}
				decodes()(w, r)
			}}, handlers{nil})
			tt.plan(p)
			if a := p.do("POST", "/v1/completions", tt.body, "Content-Digest", "sha-256=:x:"); a.status != 200 {
				t.Errorf("%+v", a)
			}
			p.settled()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the engine got (-want +got):\n%s", diff)
			}
		})
	}
	for _, path := range []string{"/v1/completions/", "/v1/other", "/inference/v1/generate"} {
		q := newPD(t, route.ConnectorNIXL, policyFor(route.Local), handlers{func(w http.ResponseWriter, r *http.Request) {
			if raw, err := io.ReadAll(r.Body); err != nil || strings.Contains(string(raw), "169.254") {
				t.Errorf("%s: the engine got %s, %v", path, raw, err)
			}
			decodes()(w, r)
		}}, handlers{nil})
		decodedOnly(q)
		if a := q.do("POST", path, evil); a.status != 200 {
			t.Errorf("%s: %+v", path, a)
		}
	}
	p := newPD(t, route.ConnectorNIXL, policyFor(route.Local), handlers{decodes()}, handlers{prefills()})
	if a := p.do("POST", "/v1/completions", `{"model":"m","prompt":"p"`+strings.Repeat(`,"a":1`, 1100)+`}`); a.status != 400 || a.header.Get("X-Pointsman-Reason") != "bad-body" {
		t.Errorf("too many members: %+v", a)
	}
}

// B214, in a body that engines read and that is no JSON: whatever the path, nobody is sent it.
// Forms say nothing of the kind.
func TestB214NoJSON(t *testing.T) {
	const hidden = `"kv_transfer_params":{"remote_host":"169.254.169.254"}}`
	wide := func(s string) string { // UTF-16
		out := "\xff\xfe"
		for _, c := range []byte(s) {
			out += string([]byte{c, 0})
		}
		return out
	}
	for _, path := range []string{"/v1/completions", "/v1/other"} {
		for _, tt := range []struct {
			kind, body string
			status     int
		}{
			{"application/json", `{"model":"m","prompt":"p","temperature":NaN,` + hidden, 400},
			{"", `{"model":"m","prompt":"p","temperature":-Infinity,` + hidden, 400},
			{"application/json; charset=utf-16", wide(`{"model":"m","prompt":"p",` + hidden), 400},
			{"application/problem+JSON", "\xef\xbb\xbf" + `{"model":"m","prompt":"p",` + hidden, 400},
			{"application/json", `{"model":"m","prompt":"p","a":` + strings.Repeat("[", 1100) + strings.Repeat("]", 1100) + "," + hidden, 400},
			{"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=a\r\n\r\nb\r\n--x--\r\n", 200},
		} {
			if path == "/v1/completions" && tt.status == 200 {
				continue
			}
			p := newPD(t, route.ConnectorNIXL, policyFor(route.Local), handlers{decodes()}, handlers{prefills()})
			decodedOnly(p)
			var headers []string
			if tt.kind != "" {
				headers = []string{"Content-Type", tt.kind}
			}
			if a := p.do("POST", path, tt.body, headers...); a.status != tt.status {
				t.Errorf("%s, %s, %.60q: %+v", path, tt.kind, tt.body, a)
			}
			p.settled()
			if n := len(p.legs()); n != 0 && tt.status == 400 {
				t.Errorf("%s, %s, %.60q: an engine was sent it", path, tt.kind, tt.body)
			}
		}
	}
}

// B214, in a body that is said to be compressed, which engines do not look at.
func TestB214Mislabelled(t *testing.T) {
	for body, status := range map[string]int{`{"model":"m","kv_transfer_params":{}}`: 400, "\x1f\x8b\x08": 200} {
		p := newPD(t, route.ConnectorNIXL, policyFor(route.Local), handlers{decodes()}, handlers{prefills()})
		decodedOnly(p)
		if a := p.do("POST", "/v1/other", body, "Content-Encoding", "x-other"); a.status != status {
			t.Errorf("%q: %+v", body, a)
		}
		p.settled()
	}
}

// What NIXL cannot hand over, several sequences, is decoded only.
func TestSeveralAnswers(t *testing.T) {
	for _, body := range []string{`{"model":"m","prompt":"p","n":2}`, `{"model":"m","prompt":["p","q"]}`} {
		p := newPD(t, route.ConnectorNIXL, policyFor(route.Fail), handlers{decodes()}, handlers{prefills()})
		if a := p.do("POST", "/v1/completions", body); a.status != 200 {
			t.Errorf("%+v", a)
		}
		p.settled()
		if diff := cmp.Diff([]string{"whole e0"}, p.legs()); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
		if n := p.tel.Value("pointsman_router_decode_only_total", "stage", "prefill", "reason", "capability-missing"); n != 1 {
			t.Errorf("%s: counted %v", body, n)
		}
	}
}

// Where what was prefilled cannot be fetched every endpoint that decodes fails. The third
// one does all by itself, if the policy lets it.
func TestHandingOverFails(t *testing.T) {
	fetches := func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil || strings.Contains(string(raw), "kv_transfer_params") {
			http.Error(w, "no such blocks", http.StatusInternalServerError)
			return
		}
		decodes()(w, r)
	}
	for _, tt := range []struct {
		name   string
		last   route.Action
		status int
		legs   []string
	}{
		{"LocalPrefill, and one decodes", route.Local, 200, []string{"prefill e1", "decode e0", "whole e0"}},
		{"LocalPrefill, and two decode", route.Local, 200, []string{"prefill e2", "decode e0", "prefill e2", "decode e1", "whole e0"}},
		{"Fail, and one decodes", route.Fail, 500, []string{"prefill e1", "decode e0"}},
		{"LocalPrefill", route.Local, 200, []string{"prefill e4", "decode e0", "prefill e4", "decode e1", "whole e2"}},
		{"Fail", route.Fail, 500, []string{"prefill e4", "decode e0", "prefill e4", "decode e1", "prefill e4", "decode e2", "prefill e4", "decode e3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPD(t, route.ConnectorNIXL, policyFor(tt.last), handlers{fetches, fetches, fetches, fetches}, handlers{prefills()})
			if _, few, ok := strings.Cut(tt.name, ", and "); ok {
				decode := handlers{fetches, fetches}[:map[string]int{"one decodes": 1, "two decode": 2}[few]]
				p = newPD(t, route.ConnectorNIXL, policyFor(tt.last), decode, handlers{prefills()})
				made := p.plan
				p.plan = func(d *route.Decision, all []roster.Endpoint) {
					if len(p.failed) >= len(decode) {
						p.failed = nil // when all have failed they are tried all the same
					}
					made(d, all)
				}
			}
			if a := p.chat(); a.status != tt.status {
				t.Errorf("%+v", a)
			}
			p.settled()
			if diff := cmp.Diff(tt.legs, p.legs()); diff != "" {
				t.Errorf("legs (-want +got):\n%s", diff)
			}
			if n := p.tel.Value("pointsman_router_decode_only_total"); n != 0 {
				t.Errorf("the front counts %v: the decision says it", n)
			}
		})
	}
}
