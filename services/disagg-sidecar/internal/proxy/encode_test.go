package proxy

import (
	"strings"
	"testing"
)

const images = `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a"}},{"type":"image_url","image_url":{"url":"b"}},{"type":"image_url","image_url":{"url":"a"}}]}],"max_tokens":5}`

func TestEncoders(t *testing.T) {
	on := func(policy ...string) func(*Config) {
		return func(c *Config) {
			c.Encode.Enabled = true
			if len(policy) > 0 {
				c.Encode.OnFailure = policy
			}
		}
	}
	ok := answers(200, "application/json", "{}")
	tests := []struct {
		name     string
		change   func(*Config)
		encoder  func() *engine // nil: one that does
		headers  func(e, p *engine) []string
		status   int
		reason   string
		calls    map[string]float64
		prefill  int
		decoded  int
		unpassed bool // the body has more than the client's
	}{
		{"D9 F17 both encode", on(), nil, func(e, _ *engine) []string { return []string{e.address + "," + e.address} }, 200, "", map[string]float64{"ok": 2}, 0, 1, false},
		{"D13 E/P/D", on(), nil, func(e, p *engine) []string { return []string{e.address, p.address} }, 200, "", map[string]float64{"ok": 2}, 1, 1, true},
		{"D10 all denied", on(), nil, func(*engine, *engine) []string { return []string{"10.0.0.1:8000,10.0.0.2:8000"} }, 200, "", map[string]float64{"target-denied": 2}, 0, 1, false},
		{"D12 denied, and one who prefills", on(), nil, func(_, p *engine) []string { return []string{"10.0.0.1:8000", p.address} }, 200, "", map[string]float64{"target-denied": 1}, 1, 1, true},
		{"F19 one fails", on(), func() *engine { return newEngine(t, answers(500, "text/plain", "")) }, func(e, _ *engine) []string { return []string{e.address} }, 502, "encode-failed", nil, 0, 0, false},
		{"encoded where it is decoded", on("LocalEncode"), func() *engine { return newEngine(t, nil) }, func(e, _ *engine) []string { return []string{e.address} }, 200, "", nil, 0, 1, false},
		{"off", func(*Config) {}, nil, func(e, _ *engine) []string { return []string{e.address} }, 200, "", map[string]float64{"unsupported": 1}, 0, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, p, d := newEngine(t, ok), newEngine(t, prefills()), newEngine(t, decodes())
			if tt.encoder != nil {
				e = tt.encoder()
			}
			r := newRig(t, d, []*engine{e, p}, tt.change)
			values := tt.headers(e, p)
			headers := []string{"X-Encoder-Hosts-Ports", values[0]}
			if len(values) > 1 {
				headers = append(headers, "X-Prefiller-Host-Port", values[1])
			}
			a := r.do("POST", "/v1/chat/completions", images, headers...)
			if a.status != tt.status || a.header.Get("X-Pointsman-Reason") != tt.reason {
				t.Fatalf("%+v", a)
			}
			for why, n := range tt.calls {
				if v := r.value("encode_calls_total", "reason", why); v != n || r.value("encode_calls_total") != n {
					t.Errorf("%v calls ended by %s, of %v", v, why, r.value("encode_calls_total"))
				}
			}
			if len(p.requests()) != tt.prefill || len(d.requests()) != tt.decoded {
				t.Errorf("%d prefill legs, %d decode legs", len(p.requests()), len(d.requests()))
			}
			for _, g := range d.requests() {
				if tt.unpassed != (g.body != images) || strings.Count(g.body, "image_url\":{") != 3 {
					t.Errorf("F17: the body has become %s", g.body)
				}
			}
		})
	}
}

// With ec-nixl the request is told where what was encoded is, whoever prefills; and what the
// client says of it nobody hears.
func TestEncodersHandOver(t *testing.T) {
	handing := answers(200, "application/json", `{"ec_transfer_params":{"h":{"peer_port":9007199254740993}}}`)
	const told = `"ec_transfer_params":{"h":{"peer_port":9007199254740993}}`
	for _, tt := range []struct {
		id     string
		play   func() *engine
		policy []string
		chunks int
		pre    bool // somebody else prefills
		status int
		calls  map[string]float64
		told   bool
	}{
		{"the model server beside prefills", func() *engine { return newEngine(t, handing) }, nil, 0, false, 200, map[string]float64{"ok": 2}, true},
		{"another prefills", func() *engine { return newEngine(t, handing) }, nil, 0, true, 200, map[string]float64{"ok": 2}, true},
		{"decoded in rounds", func() *engine { return newEngine(t, handing) }, nil, 2, false, 200, map[string]float64{"ok": 2}, true},
		{"an encoder that hands nothing over", func() *engine { return newEngine(t, answers(200, "application/json", "{}")) }, nil, 0, false, 502, map[string]float64{"no-transfer-params": 1}, false},
		{"so that the model server encodes", func() *engine { return newEngine(t, answers(200, "application/json", "{}")) }, []string{localEncode}, 0, false, 200, map[string]float64{"no-transfer-params": 2}, false},
	} {
		t.Run(tt.id, func(t *testing.T) {
			e, p, d := tt.play(), newEngine(t, prefills()), newEngine(t, decodes())
			r := newRig(t, d, []*engine{e, p}, func(c *Config) {
				c.Encode.Enabled, c.Encode.Connector, c.Decode.ChunkSize = true, "ec-nixl", tt.chunks
				if tt.policy != nil {
					c.Encode.OnFailure = tt.policy
				}
			})
			headers := []string{"X-Encoder-Hosts-Ports", e.address}
			if tt.pre {
				headers = append(headers, "X-Prefiller-Host-Port", p.address)
			}
			a := r.do("POST", "/v1/chat/completions", strings.Replace(images, `"model":"m"`, `"model":"m","ec_transfer_params":{"evil":1}`, 1), headers...)
			if a.status != tt.status {
				t.Fatalf("%+v", a)
			}
			for why, n := range tt.calls {
				if v := r.value("encode_calls_total", "reason", why); v < n && tt.status == 200 || v == 0 {
					t.Errorf("%v calls ended by %s, want %v", v, why, n)
				}
			}
			legs := append(p.requests(), d.requests()...)
			if tt.status == 200 && len(legs) == 0 {
				t.Error("nobody was asked")
			}
			for i, g := range legs {
				if strings.Contains(g.body, "evil") || strings.Contains(g.body, told) != tt.told && (tt.chunks == 0 || i == 0) {
					t.Errorf("a leg is told %s", g.body)
				}
			}
		})
	}
}
