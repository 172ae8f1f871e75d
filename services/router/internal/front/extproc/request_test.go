package extproc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// A2, B6, B9: the reference answers in plain text, and echoes the body in A2; ours are
// OpenAI errors with a content type and a reason, and never quote the body.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		err              error
		status           int
		reason, typ      string
	}{
		{name: "A2 B6 not JSON", path: "/v1/completions", body: "no healthy upstream", status: 400, reason: "bad-json", typ: "invalid_request_error"},
		{name: "B9 no model", path: "/v1/completions", body: `{"prompt":"test"}`, status: 400, reason: "model-missing", typ: "invalid_request_error"},
		{name: "A5 shed", path: "/v1/completions", body: `{"model":"m","prompt":"x"}`, err: route.ErrShed, status: 429, reason: "shed", typ: "rate_limit_error"},
		{name: "A16 no endpoint", path: "/v1/completions", body: `{"model":"m","prompt":"x"}`, err: route.ErrNoEndpoint, status: 503, reason: "no-endpoint", typ: "server_error"},
		{name: "a scorer that must answer", path: "/v1/completions", body: `{"model":"m","prompt":"x"}`, err: route.ErrScorerFailed, status: 503, reason: "scorer-failed", typ: "server_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(r *rig, _ *Config) { r.err = c.err })
			eachMode(t, func(t *testing.T, mode string) {
				p := r.open(mode, duplex)
				p.headers("POST", c.path, false, "content-type", "application/json")
				if mode != duplex {
					p.routed()
				}
				p.body(c.body, true)
				got := p.refused()
				if got.Status != c.status || got.Reason != c.reason || got.Headers["content-type"] != "application/json" || got.Headers["x-request-id"] == "" {
					t.Errorf("refused with %+v", got)
				}
				if retry := c.status == 429 || c.status == 503; (got.Headers["retry-after"] != "") != retry {
					t.Errorf("retry-after is %q", got.Headers["retry-after"])
				}
				var body refusalBody
				if err := json.Unmarshal([]byte(got.Body), &body); err != nil || body.Error.Type != c.typ || body.Error.Code == "" || body.Error.Message == "" {
					t.Errorf("the body is %s", got.Body)
				}
				if strings.Contains(got.Body, "healthy upstream") {
					t.Errorf("the body of the request is quoted: %s", got.Body)
				}
			})
			r.ended(c.reason, 3)
		})
	}
}

// A7, A8, B7: a body in parts, cut inside of the model's name, is one request; it goes on
// as it came. The reference sorts its keys; ours does not.
func TestBodyInPieces(t *testing.T) {
	body := `{"temperature":0,"model":"direct-model","prompt":"test3","max_tokens":100}`
	for _, at := range []int{1, 10, strings.Index(body, "model\":\"") + 10, len(body) - 1} {
		r := newRig(t)
		p := r.duplex()
		p.headers("POST", "/v1/completions", false, "hi", "mom")
		p.body(body[:at], false)
		p.body(body[at:], true)
		p.to("192.168.1.1:8000")
		p.same(body)
		if req, text := r.request(); req.Model != "direct-model" || text != "test3" || req.Headers.Get("hi") != "mom" || req.MaxOutputTokens != 100 {
			t.Errorf("cut at %d it was read as %+v, prompt %q", at, req, text)
		}
		p.finish()
	}
}

// A13, B13, B023: a request without a body is decided on by its headers, quietly, in
// every mode, and on the subset too.
func TestNoBody(t *testing.T) {
	for _, mode := range []string{duplex, buffered, partial, streamed, none} {
		for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS"} {
			t.Run(mode+" "+method, func(t *testing.T) {
				r := newRig(t)
				p := r.open(mode, streamed)
				p.allow([]any{"192.168.1.1:8000"}).headers(method, "/v1/models", true)
				p.to("192.168.1.1:8000")
				req, _ := r.request()
				if req.Subset == nil || !slices.Equal(req.Subset.Addresses, []string{"192.168.1.1:8000"}) || req.Path != "/v1/models" {
					t.Errorf("it was decided on %+v", req)
				}
				p.finish()
				if got := r.count("decisions_total", "basis", "headers"); got != 1 {
					t.Errorf("%d decisions by headers", got)
				}
				r.ended("ok", 1)
			})
		}
	}
}

// Bodies that say nothing about routing, or may never end, are not waited for.
func TestNeedlessBody(t *testing.T) {
	for name, headers := range map[string][]string{
		"GET":                 {"GET", "/v1/models"},
		"gRPC":                {"POST", "/vllm.Generation/Generate", "content-type", "application/grpc"},
		"WebSocket, HTTP/1.1": {"GET", "/v1/realtime", "upgrade", "websocket"},
		"WebSocket, HTTP/2":   {"CONNECT", "/v1/realtime", ":protocol", "websocket"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.duplex()
			p.headers(headers[0], headers[1], false, headers[2:]...)
			p.to("192.168.1.1:8000")
			for _, part := range []string{"one", "two"} {
				p.body(part, false)
				if m := p.recv().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse(); string(m.GetBody()) != part || m.GetEndOfStream() {
					t.Errorf("%q became %v", part, m)
				}
			}
			p.body("", true)
			p.same("")
			p.finish()
		})
	}
}

// C1–C6: in full duplex a body goes back in messages of at most 62,000 bytes, with
// end-of-stream on the last alone, however it came. B014 with its sizes.
func TestChunks(t *testing.T) {
	const l = 62000
	r := newRig(t)
	for _, c := range []struct {
		id             string
		size, messages int
	}{
		{"C1", 0, 1}, {"C2", l - 1000, 1}, {"C3", l, 1}, {"C4", l + 1, 2}, {"C5", l + 1000, 2}, {"C6", 2*l + 1000, 3},
		{"B014 65,537", 65537, 2}, {"B014 200 KB", 200000, 4}, {"B014 1 MB", 1000000, 17}, {"B014 5 MB", 5000000, 81},
	} {
		for _, length := range []bool{true, false} {
			for _, piece := range []int{1 << 30, 16384, 100000} {
				t.Run(fmt.Sprintf("%s length=%v in %d", c.id, length, piece), func(t *testing.T) {
					body := filled(c.size)
					p := r.duplex()
					var headers []string
					if length {
						headers = []string{"content-length", fmt.Sprint(len(body))}
					}
					p.headers("POST", "/any", false, headers...) // not JSON on purpose
					for rest := body; len(rest) > 0; {
						n := min(piece, len(rest))
						p.body(rest[:n], false)
						rest = rest[n:]
					}
					p.body("", true)
					p.to("192.168.1.1:8000")
					got, messages := p.echoed()
					if got != body || messages != c.messages {
						t.Errorf("%d bytes came in %d messages, want %d in %d", len(got), messages, len(body), c.messages)
					}
					p.finish()
				})
			}
		}
	}
}

// filled returns that many bytes, none like its neighbours.
func filled(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return string(b)
}

// GIE#2988: proxies send the end of large bodies twice. The request is decided once, and
// nothing that comes after its end is passed on or answered with an effect.
func TestAfterTheEnd(t *testing.T) {
	t.Run("full duplex", func(t *testing.T) {
		r := newRig(t)
		p := r.duplex()
		p.post("/v1/completions", `{"model":"m","prompt":"x"}`)
		p.to("192.168.1.1:8000")
		p.same(`{"model":"m","prompt":"x"}`)
		p.body("", true)
		p.body(`{"model":"other"}`, true)
		p.body("more", false)
		p.trailers()
		if m := p.recv(); m.GetRequestTrailers() == nil || m.GetRequestTrailers().GetHeaderMutation() != nil {
			t.Errorf("the trailers were answered with %v", m)
		}
		p.headers("POST", "/v1/completions", false)
		if got := p.routed(); len(got.Set) > 0 || got.Meta != "" {
			t.Errorf("headers that came twice were answered with %v", got)
		}
		p.answer(200, false)
		p.recv()
		p.answerBody("a", true)
		p.same("a")
		p.answerBody("b", true)
		p.answerTrailers()
		if m := p.recv(); m.GetResponseTrailers() == nil {
			t.Errorf("the trailers were answered with %v", m)
		}
		p.answer(500, false)
		if m := p.recv(); m.GetResponseHeaders() == nil {
			t.Errorf("headers that came twice were answered with %v", m)
		}
		p.silent()
		if r.decided() != 1 {
			t.Errorf("it was decided %d times", r.decided())
		}
		if o := r.last(); !o.Completed {
			t.Errorf("what came after the end changed the outcome: %+v", o)
		}
	})
	for _, mode := range []string{buffered, partial, streamed, none} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t)
			p := r.open(mode, mode)
			p.headers("POST", "/any", false)
			p.routed()
			for range 3 {
				p.body("x", true)
				if m := p.recv(); m.GetRequestBody() == nil {
					t.Errorf("a body was answered with %v", m)
				}
			}
			p.answer(200, false)
			p.recv()
			for range 3 {
				p.answerBody("x", true)
				if m := p.recv(); m.GetResponseBody() == nil || m.GetResponseBody().GetResponse() != nil {
					t.Errorf("a body was answered with %v", m)
				}
			}
			p.silent()
			if r.decided() != 1 {
				t.Errorf("it was decided %d times", r.decided())
			}
		})
	}
}

// B19: where trailers follow, no part of the body is the end, and trailers are answered.
func TestTrailers(t *testing.T) {
	r := newRig(t)
	t.Run("request, full duplex", func(t *testing.T) {
		p := r.duplex()
		p.headers("POST", "/v1/completions", false)
		p.body(`{"model":"m","prompt":"x"}`, false)
		p.trailers()
		p.to("192.168.1.1:8000")
		if m := p.recv().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse(); string(m.GetBody()) != `{"model":"m","prompt":"x"}` || m.GetEndOfStream() {
			t.Errorf("the body became %v", m)
		}
		if m := p.recv(); m.GetRequestTrailers() == nil {
			t.Errorf("the trailers were answered with %v", m)
		}
		p.finish()
	})
	t.Run("request without a body, full duplex", func(t *testing.T) {
		p := r.duplex()
		p.headers("POST", "/any", false)
		p.trailers()
		p.to("192.168.1.1:8000")
		if m := p.recv(); m.GetRequestTrailers() == nil {
			t.Errorf("the trailers were answered with %v", m)
		}
		p.finish()
	})
	t.Run("request, buffered", func(t *testing.T) {
		p := r.open(buffered, none)
		p.headers("POST", "/v1/completions", false)
		p.routed()
		p.body(`{"model":"m","prompt":"x"}`, false) // all of it, though not the end
		if got := mutationOf(p.recv().GetRequestBody().GetResponse(), new(extproc.ProcessingResponse)); got.Set[edge.HeaderDestination] != "192.168.1.1:8000" {
			t.Errorf("the body was answered with %v", got)
		}
		p.trailers()
		if m := p.recv(); m.GetRequestTrailers() == nil {
			t.Errorf("the trailers were answered with %v", m)
		}
		p.finish()
	})
	t.Run("request without a body, buffered", func(t *testing.T) {
		p := r.open(buffered, none)
		p.headers("POST", "/any", false)
		p.routed()
		p.trailers()
		m := p.recv()
		if m.GetRequestTrailers() == nil || mutationOf(nil, m).Meta != "192.168.1.1:8000" {
			t.Errorf("the trailers were answered with %v", m)
		}
		p.finish()
	})
	t.Run("answer", func(t *testing.T) {
		p := r.duplex()
		p.headers("GET", "/", true)
		p.routed()
		p.answer(200, false, "content-type", "application/grpc")
		p.recv()
		p.answerBody("one", false)
		p.recv()
		p.answerTrailers()
		if m := p.recv(); m.GetResponseTrailers() == nil {
			t.Errorf("the trailers were answered with %v", m)
		}
		if o := r.last(); !o.Completed {
			t.Errorf("the outcome is %+v", o)
		}
	})
}

// C17: names of headers are alike in any case; the value in either field of the message
// counts.
func TestHeaderNames(t *testing.T) {
	for _, c := range []struct {
		name, header, value, want string
	}{
		{"C17 lower", "x-request-id", "123", "123"},
		{"C17 mixed", "X-Request-ID", "456", "456"},
		{"C17 absent", "other", "1", ""},
		{"not usable", "x-request-id", "a b", ""},
		{"too long", "x-request-id", strings.Repeat("x", 129), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			p := r.duplex()
			p.headers("GET", "/", true, c.header, c.value)
			got := p.to("192.168.1.1:8000")
			req, _ := r.request()
			if c.want != "" {
				if _, set := got.Set["x-request-id"]; set || req.ID != c.want {
					t.Errorf("the id is %q, set: %v", req.ID, got.Set)
				}
			} else if len(req.ID) != 32 || got.Set["x-request-id"] != req.ID {
				t.Errorf("the id is %q, and was set to %q", req.ID, got.Set["x-request-id"])
			}
			p.finish()
		})
	}
}

// I, K: the hint of the endpoints that the proxy allows, in every form that gateways send.
// Its meaning is package route's; that all of it arrives is tested here.
func TestSubset(t *testing.T) {
	for _, c := range []struct {
		name string
		hint any
		want []string // nil: no restriction
	}{
		{"list", []any{"10.0.0.1:8000", "10.0.0.2:8000"}, []string{"10.0.0.1:8000", "10.0.0.2:8000"}},
		{"I without ports", []any{"10.0.0.1"}, []string{"10.0.0.1"}},
		{"IPv6", []any{"[fd00::1]:8000", "fd00::2"}, []string{"[fd00::1]:8000", "fd00::2"}},
		{"comma string", "10.0.0.1:8000, 10.0.0.2:8000", []string{"10.0.0.1:8000, 10.0.0.2:8000"}},
		{"comma strings in a list", []any{"10.0.0.1,10.0.0.2"}, []string{"10.0.0.1,10.0.0.2"}},
		{"I not strings", []any{1.0, "10.0.0.1", nil, true}, []string{"10.0.0.1"}},
		{"I empty list", []any{}, []string{}},
		{"empty string", "", []string{""}},
		{"a number", 5.0, []string{}},
		{"null", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, mode string) {
				r := newRig(t)
				p := r.open(mode, none).allow(c.hint)
				p.submit(mode, "/v1/completions", `{"model":"m","prompt":"x"}`)
				req, _ := r.request()
				var got []string
				if req.Subset != nil {
					got = append([]string{}, req.Subset.Addresses...)
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
				p.finish()
			})
		})
	}
	t.Run("I namespace without the key", func(t *testing.T) {
		r := newRig(t)
		p := r.duplex().know("envoy.lb.subset_hint", "other", "10.0.0.1")
		p.headers("GET", "/", true)
		p.routed()
		if req, _ := r.request(); req.Subset != nil {
			t.Errorf("the subset is %v", req.Subset)
		}
		p.finish()
	})
	t.Run("I filter disabled", func(t *testing.T) {
		r := newRig(t, with(func(c *Config) { c.IgnoreSubset = true }))
		p := r.duplex().allow([]any{"10.0.0.9"})
		p.headers("GET", "/", true)
		p.routed()
		if req, _ := r.request(); req.Subset != nil {
			t.Errorf("the subset is %v", req.Subset)
		}
		p.finish()
	})
	t.Run("the last message counts", func(t *testing.T) {
		r := newRig(t)
		p := r.duplex().allow([]any{"10.0.0.1"})
		p.headers("POST", "/any", false)
		p.body("x", false)
		p.allow([]any{"10.0.0.2"}).body("", true)
		p.routed()
		if req, _ := r.request(); !slices.Equal(req.Subset.Addresses, []string{"10.0.0.2"}) {
			t.Errorf("the subset is %v", req.Subset)
		}
		p.echoed()
		p.finish()
	})
}

// K: endpoints to fall back on are named after the pick, best first: as many as the
// picker is asked for, or as the front is configured to.
func TestDestinationList(t *testing.T) {
	for _, c := range []struct {
		name           string
		max, fallbacks int
		want           string
	}{
		{"one", 1, -1, "192.168.1.1:8000"},
		{"as the picker is asked", 2, -1, "192.168.1.1:8000,192.168.1.2:8000"},
		{"more than there are", 9, -1, "192.168.1.1:8000,192.168.1.2:8000,192.168.1.3:8000"},
		{"as configured", 1, 1, "192.168.1.1:8000,192.168.1.2:8000"},
		{"none, as configured", 3, 0, "192.168.1.1:8000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(r *rig, cfg *Config) { r.max, cfg.Fallbacks = c.max, c.fallbacks })
			p := r.duplex()
			p.headers("GET", "/", true)
			p.to(c.want)
			p.finish()
		})
	}
}

// The keys of the destination can be others.
func TestDestinationKeys(t *testing.T) {
	r := newRig(t, with(func(c *Config) { c.DestinationHeader, c.DestinationNamespace = "x-dest", "acme.lb" }))
	p := r.duplex()
	p.headers("GET", "/", true)
	m := p.recv()
	got := mutationOf(m.GetRequestHeaders().GetResponse(), m)
	if got.Set["x-dest"] != "192.168.1.1:8000" || !slices.Contains(got.Remove, edge.HeaderDestination) {
		t.Errorf("the headers were answered with %+v", got)
	}
	if v := m.GetDynamicMetadata().GetFields()["acme.lb"].GetStructValue().GetFields()["x-dest"].GetStringValue(); v != "192.168.1.1:8000" {
		t.Errorf("the metadata says %q", v)
	}
	p.finish()
}

// B1, B12 and part 5: an objective's priority is that of the request; an unknown one, or
// none, is 0. B219: no other header sets it.
func TestObjectives(t *testing.T) {
	known := func(d *Deps) { d.Objectives = objectives{"critical": 4, "sheddable": -1} }
	for _, c := range []struct {
		name    string
		deps    func(*Deps)
		headers []string
		want    int32
	}{
		{"known", known, []string{"x-gateway-inference-objective", "critical"}, 4},
		{"negative", known, []string{"X-Gateway-Inference-Objective", "sheddable"}, -1},
		{"unknown", known, []string{"x-gateway-inference-objective", "nope"}, 0},
		{"none", known, nil, 0},
		{"there are none", func(*Deps) {}, []string{"x-gateway-inference-objective", "critical"}, 0},
		{"B219 other headers", known, []string{"x-priority", "100", "priority", "u=0"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(r *rig, _ *Config) { r.deps = c.deps })
			p := r.duplex()
			p.headers("GET", "/", true, append(c.headers, "x-gateway-inference-fairness-id", "tenant-a")...)
			got := p.routed()
			req, _ := r.request()
			if req.Priority != c.want {
				t.Errorf("the priority is %d, want %d", req.Priority, c.want)
			}
			if req.Headers.Get("x-gateway-inference-fairness-id") != "tenant-a" {
				t.Error("the fairness id is not seen")
			}
			for _, name := range []string{edge.HeaderObjective, edge.HeaderFairness} {
				if !slices.Contains(got.Remove, name) {
					t.Errorf("%s goes on to the engine", name)
				}
			}
			p.finish()
		})
	}
}

type objectives map[string]int32

func (o objectives) Priority(name string) (int32, bool) { p, ok := o[name]; return p, ok }

// K: headers that are of no concern to the front reach the plug-ins, and go on.
func TestOtherHeaders(t *testing.T) {
	r := newRig(t)
	p := r.duplex()
	p.headers("GET", "/", true, "test-epp-endpoint-selection", "192.168.1.3", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	got := p.routed()
	req, _ := r.request()
	if req.Headers.Get("test-epp-endpoint-selection") != "192.168.1.3" {
		t.Error("the header is not seen")
	}
	for name := range got.Set {
		if name != edge.HeaderDestination && name != "x-request-id" {
			t.Errorf("%s was set", name)
		}
	}
	if slices.Contains(got.Remove, "traceparent") {
		t.Error("the trace is not passed on")
	}
	p.finish()
}

// refusalBody is an OpenAI error.
type refusalBody struct {
	Error struct {
		Message, Type, Code string
		Param               *string
	}
}
