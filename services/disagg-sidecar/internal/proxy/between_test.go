package proxy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// B214, in a body: a client cannot have the model server fetch from whomever it names. With
// allow.pool false the sidecar looks at nothing that nobody is to prefill.
func TestB214BodyOfTheClient(t *testing.T) {
	const evil = `{"model":"m","kv_transfer_params":{"remote_host":"169.254.169.254"},"prompt":"p","bootstrap_room":1,"seed":9007199254740993}`
	const clean = `{"model":"m","prompt":"p","seed":9007199254740993}`
	down := newEngine(t, nil)
	for _, tt := range []struct {
		name, body, want string
		named            bool
		change           func(*Config)
		alone            string
	}{
		{"nobody is named", evil, clean, false, func(*Config) {}, "no-header"},
		{"nothing of the kind", client, client, false, func(*Config) {}, "no-header"},
		{"no object", `["kv_transfer_params"]`, `["kv_transfer_params"]`, false, func(*Config) {}, "no-header"},
		{"who is named is down", evil, clean, true, func(c *Config) { c.Prefill.OnFailure = []string{localPrefill} }, "connect-failed"},
		{"anybody may be named", evil, evil, false, func(c *Config) { c.Allow.Pool = false }, "no-header"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newEngine(t, decodes())
			r := newRig(t, d, []*engine{down}, tt.change)
			var headers []string
			if tt.named {
				headers = []string{"X-Prefiller-Host-Port", down.address}
			}
			if a := r.do("POST", "/v1/completions", tt.body, append(headers, "Content-Digest", "sha-256=:x:")...); a.status != 200 {
				t.Fatalf("%+v", a)
			}
			got := d.requests()[0]
			if diff := cmp.Diff(tt.want, got.body); diff != "" {
				t.Errorf("the model server got (-want +got):\n%s", diff)
			}
			if tt.body != tt.want && len(got.header["Content-Digest"]) != 0 {
				t.Error("the digest is of another body")
			}
			if n := r.value("decode_only_total", "reason", tt.alone); n != 1 || r.value("decode_only_total") != 1 {
				t.Errorf("%v of %v counted as %s", n, r.value("decode_only_total"), tt.alone)
			}
		})
	}
	d := newEngine(t, decodes())
	r := newRig(t, d, nil)
	if a := r.do("POST", "/v1/completions", `{"prompt":"p"`+strings.Repeat(`,"a":1`, 1100)+`}`); a.status != 400 || a.header.Get("X-Pointsman-Reason") != "bad-body" || len(d.requests()) != 0 {
		t.Errorf("too many members: %+v", a)
	}
}

// B214, in a body that engines read and that is no JSON: it is sent to nobody, in rounds or not.
func TestB214NoJSON(t *testing.T) {
	for _, chunk := range []int{0, 10} {
		for name, body := range map[string]string{
			"NaN": `{"messages":[{}],"temperature":NaN,"kv_transfer_params":{"remote_host":"169.254.169.254"}}`, "cut": `{"kv_transfer_params"`, "empty": "",
			"a mark": "\xef\xbb\xbf" + `{"messages":[{}],"kv_transfer_params":{}}`, "UTF-16": "{\x00\"\x00k\x00\"\x00:\x001\x00}\x00",
			"too deep": `{"a":` + strings.Repeat("[", 1100) + strings.Repeat("]", 1100) + `,"kv_transfer_params":{}}`,
		} {
			d := newEngine(t, decodes())
			r := newRig(t, d, nil, func(c *Config) { c.Decode.ChunkSize = chunk })
			if a := r.do("POST", "/v1/chat/completions", body); a.status != 400 || a.header.Get("X-Pointsman-Reason") != "bad-body" || len(d.requests()) != 0 {
				t.Errorf("%s: %+v, the model server got %+v", name, a, d.requests())
			}
		}
	}
}

// B214, in a body that is said to be compressed: engines do not decompress bodies, and would
// read one that is not. One that is goes through as it came, and so does any where anybody may
// be named.
func TestB214Mislabelled(t *testing.T) {
	const evil = `{"messages":[],"kv_transfer_params":{"remote_host":"169.254.169.254"}}`
	for _, tt := range []struct {
		body   string
		open   bool
		status int
	}{{evil, false, 400}, {evil, true, 200}, {gzipped(t, evil), false, 200}, {"", false, 200}} {
		d := newEngine(t, decodes())
		r := newRig(t, d, nil, func(c *Config) { c.Allow.Pool = !tt.open })
		a := r.do("POST", "/v1/chat/completions", tt.body, "Content-Encoding", "x-other")
		if a.status != tt.status || tt.status == 400 && (a.header.Get("X-Pointsman-Reason") != "bad-body" || len(d.requests()) != 0) {
			t.Errorf("%q: %+v", tt.body, a)
		}
		if tt.status == 200 && d.requests()[0].body != tt.body {
			t.Errorf("%q has become %q", tt.body, d.requests()[0].body)
		}
	}
}

// Several answers, or prompts, cannot be handed over by NIXL: the model server beside
// prefills them. Each request is counted once.
func TestSeveralAnswers(t *testing.T) {
	p, d := newEngine(t, prefills()), newEngine(t, decodes())
	r := newRig(t, d, []*engine{p})
	const body = `{"prompt":["p","q"]}`
	if a := r.do("POST", "/v1/completions", body, "X-Prefiller-Host-Port", p.address); a.status != 200 || len(p.requests()) != 0 || d.requests()[0].body != body {
		t.Errorf("%+v", a)
	}
	if n := r.value("decode_only_total", "reason", "several-answers"); n != 1 || r.value("decode_only_total") != 1 {
		t.Errorf("%v of %v", n, r.value("decode_only_total"))
	}
}

// A compressed request whose media others would encode, and that nobody is to prefill, is
// counted by the latter alone.
func TestCountedOnce(t *testing.T) {
	e, d := newEngine(t, answers(200, "application/json", "{}")), newEngine(t, decodes())
	r := newRig(t, d, []*engine{e}, func(c *Config) { c.Encode.Enabled = true })
	if a := r.chat("", "X-Encoder-Hosts-Ports", e.address, "Content-Encoding", "gzip"); a.status != 200 {
		t.Errorf("%+v", a)
	}
	if n := r.value("decode_only_total", "reason", "no-header"); n != 1 || r.value("decode_only_total") != 1 {
		t.Errorf("%v of %v", n, r.value("decode_only_total"))
	}
}
