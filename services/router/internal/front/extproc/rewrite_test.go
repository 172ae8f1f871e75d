package extproc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// rewrites makes a rig in which one model stands for another.
func rewrites(from, to string) option {
	return func(r *rig, _ *Config) {
		r.deps = func(d *Deps) {
			d.Rewrite = func(req *route.Request) (string, bool) { return to, req.Model == from }
		}
	}
}

// A1, I10, B7, B12, B025, B028, B044: where a model is rewritten, that value alone
// differs from what was sent, and the announced length is right.
func TestRewrite(t *testing.T) {
	pages := `<html>&amp; \u2028\u2029 ` + strings.Repeat("\u2028", 10000)
	for _, c := range []struct {
		name, to, body, want string
	}{
		{"A1", "my-model-12345", `{"max_tokens":100,"model":"a","prompt":"test1","temperature":0}`, `{"max_tokens":100,"model":"my-model-12345","prompt":"test1","temperature":0}`},
		{"B044 longer", "a-much-longer-name", `{"model":"a","prompt":"x"}`, `{"model":"a-much-longer-name","prompt":"x"}`},
		{"shorter", "", `{"model":"a","prompt":"x"}`, `{"model":"","prompt":"x"}`},
		{"white space and order", "b", "{ \"prompt\" :\t\"a\",\n \"n\": 1e0 , \"model\" : \"a\" }", "{ \"prompt\" :\t\"a\",\n \"n\": 1e0 , \"model\" : \"b\" }"},
		{"the same name elsewhere", "b", `{"prompt":"model","x":{"model":"a"},"model":"a","user":"a"}`, `{"prompt":"model","x":{"model":"a"},"model":"b","user":"a"}`},
		{"escaped", "b", `{"model":"\u0061","prompt":"x"}`, `{"model":"b","prompt":"x"}`},
		{"needs escapes", "q\"\\<\u2028", `{"model":"a","prompt":"x"}`, `{"model":"q\"\\<\u2028","prompt":"x"}`},
		{"B028", "b", `{"model":"a","prompt":"` + pages + `"}`, `{"model":"b","prompt":"` + pages + `"}`},
		{"to itself", "a", `{"model":"a","prompt":"x"}`, `{"model":"a","prompt":"x"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, rewrites("a", c.to))
			check := func(t *testing.T, got routed, body string) {
				t.Helper()
				if body != c.want {
					t.Errorf("the body became %.200q, want %.200q", body, c.want)
				}
				length := ""
				if c.body != c.want {
					length = fmt.Sprint(len(c.want))
				}
				if got.Set["content-length"] != length {
					t.Errorf("the length became %q, want %q", got.Set["content-length"], length)
				}
				if req, _ := r.request(); req.Model != c.to || req.AskedModel() != "a" {
					t.Errorf("it was decided for %q, and the client is said to have named %q", req.Model, req.AskedModel())
				}
				if contains(got.Remove, "content-digest") != (c.body != c.want) {
					t.Errorf("%v are removed", got.Remove)
				}
			}
			eachMode(t, func(t *testing.T, mode string) {
				p := r.open(mode, none)
				got, body := p.submit(mode, "/v1/completions", c.body)
				check(t, got, body)
				p.finish()
			})
			if len(c.body) > 1000 {
				return
			}
			for at := range len(c.body) {
				t.Run(fmt.Sprintf("cut at %d", at), func(t *testing.T) {
					p := r.duplex()
					p.headers("POST", "/v1/completions", false, "content-length", fmt.Sprint(len(c.body)))
					p.body(c.body[:at], false)
					p.body(c.body[at:], true)
					got := p.routed()
					body, _ := p.echoed()
					check(t, got, body)
					p.finish()
				})
			}
		})
	}
}

// B7: the header names the model, whatever else would.
func TestRewriteHeader(t *testing.T) {
	r := newRig(t, rewrites("sql-lora", "other"))
	eachMode(t, func(t *testing.T, mode string) {
		p := r.open(mode, none)
		got, body := p.submit(mode, "/v1/completions", `{"model":"sql-lora","prompt":"test"}`, "X-Gateway-Model-Name-Rewrite", "sql-lora-1fdg3")
		if body != `{"model":"sql-lora-1fdg3","prompt":"test"}` {
			t.Errorf("the body became %s", body)
		}
		if !contains(got.Remove, edge.HeaderModel) {
			t.Error("the header goes on")
		}
		p.finish()
	})
}

func contains(list []string, s string) bool {
	return strings.Contains(","+strings.Join(list, ",")+",", ","+s+",")
}

// Nobody asked for the length: a client that did not announce one gets none.
func TestRewriteWithoutLength(t *testing.T) {
	r := newRig(t, rewrites("a", "b"))
	p := r.duplex()
	p.headers("POST", "/v1/completions", false)
	p.body(`{"model":"a","prompt":"x"}`, true)
	if got := p.routed(); got.Set["content-length"] != "" {
		t.Errorf("it was answered with %v", got)
	}
	p.same(`{"model":"b","prompt":"x"}`)
	p.finish()
}

// B025: a hundred equal requests become a hundred equal requests.
func TestRewriteIsStable(t *testing.T) {
	r := newRig(t, rewrites("a", "b"))
	var first string
	for i := range 100 {
		p := r.duplex()
		p.post("/v1/chat/completions", `{"tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}],"model":"a","messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}`)
		p.routed()
		body, _ := p.echoed()
		if i == 0 {
			first = body
		} else if body != first {
			t.Fatalf("request %d became %s, the first %s", i, body, first)
		}
		p.finish()
	}
}

// B221: the prefix belongs to the model that serves it, not to its public name.
func TestRewriteSeedsThePrefix(t *testing.T) {
	blocks := func(opt option, model string) []uint64 {
		var got []uint64
		r := newRig(t, opt)
		p := r.duplex()
		r.server.deps.Decider = deciderFunc(func(req *route.Request) *route.Decision {
			got = append(got, req.Prompt.Blocks(8, 4)...)
			return r.pick(req)
		})
		p.post("/v1/completions", `{"model":"`+model+`","prompt":"`+strings.Repeat("p", 64)+`"}`)
		p.routed()
		p.echoed()
		p.finish()
		r.settled()
		return got
	}
	rewritten, target := blocks(rewrites("public", "internal"), "public"), blocks(rewrites("", ""), "internal")
	if len(rewritten) == 0 || fmt.Sprint(rewritten) != fmt.Sprint(target) {
		t.Errorf("the prefix is %x, of the target itself %x", rewritten, target)
	}
}

// B043: the client's name of a model is changed on the way in alone. Answers name the
// model that the endpoint knows, in streams too, and go on byte for byte.
func TestB043AnswersAreNotRewritten(t *testing.T) {
	r := newRig(t, rewrites("public", "internal"))
	for contentType, parts := range map[string][]string{
		"application/json":  {`{"model":"internal","choices":[]}`},
		"text/event-stream": {"data: {\"model\":\"inter", "nal\",\"choices\":[]}\n\n", "data: [DONE]\n\n"},
	} {
		p := r.duplex()
		p.post("/v1/completions", `{"model":"public","prompt":"x"}`)
		p.routed()
		p.same(`{"model":"internal","prompt":"x"}`)
		p.answer(200, false, "content-type", contentType)
		if c := p.recv().GetResponseHeaders().GetResponse(); c.GetHeaderMutation() != nil {
			t.Errorf("the headers were answered with %v", c)
		}
		for i, part := range parts {
			p.answerBody(part, i == len(parts)-1)
			p.passes(duplex, part, i == len(parts)-1)
		}
		p.cancel()
	}
}

// A model that cannot be put into the body is refused; it is never sent under its public
// name.
func TestNotRewritable(t *testing.T) {
	r := newRig(t, rewrites("a", "b"))
	for name, c := range map[string]struct{ body, header, value string }{
		"compressed": {compressed(t, "gzip", `{"model":"a","prompt":"x"}`), "content-encoding", "gzip"},
		"KServe":     {`{"inputs":[]}`, "x", "y"},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/v1/completions"
			if name == "KServe" {
				path = "/v2/models/a/infer"
			}
			p := r.duplex()
			p.post(path, c.body, c.header, c.value)
			got := p.refused()
			var body refusalBody
			if err := json.Unmarshal([]byte(got.Body), &body); err != nil || got.Status != 415 || got.Reason != "not-rewritable" {
				t.Errorf("refused with %+v", got)
			}
		})
	}
	r.ended("not-rewritable", 2)
}

// Where not all of the body is known the model stays, and that is counted, every time, and
// logged, once.
func TestNotRewritten(t *testing.T) {
	for name, c := range map[string]struct {
		mode, body string
		headers    []string
		want       int // of 2 requests
	}{
		"part, its model has a target":       {partial, `{"model":"a","prompt":"xx`, nil, 2},
		"part, its model has none":           {partial, `{"model":"c","prompt":"xx`, nil, 0},
		"part, the model is cut":             {partial, `{"model":"a`, nil, 0},
		"whole":                              {partial, `{"model":"a","prompt":"x"}`, nil, 0},
		"by headers, asked for by the proxy": {streamed, `{"model":"a","prompt":"x"}`, []string{edge.HeaderModel, "b"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			r := newRig(t, rewrites("a", "b"), func(r *rig, _ *Config) {
				r.tel.Log = slog.New(slog.NewTextHandler(&log, nil))
			})
			for range 2 {
				p := r.open(c.mode, none)
				p.headers("POST", "/v1/completions", false, c.headers...)
				p.routed()
				p.body(c.body, c.mode == streamed)
				m := p.recv().GetRequestBody().GetResponse()
				if changed := m.GetBodyMutation() != nil; changed != (name == "whole") {
					t.Errorf("the body was answered with %v", m)
				}
				p.finish()
			}
			if got := r.count("unrewritten_total"); got != c.want {
				t.Errorf("%d requests are counted", got)
			}
			r.settled()
			if got := strings.Count(log.String(), "could not be rewritten"); got != min(1, c.want) {
				t.Errorf("it was logged %d times:\n%s", got, log.String())
			}
		})
	}
}

// In STREAMED with the body sent ahead, every message is answered once, and the model is
// rewritten in the message where it begins.
func TestRewriteOfMessages(t *testing.T) {
	body := `{"model":"abcd","prompt":"x"}`
	for _, cuts := range [][]int{{}, {5}, {10}, {11}, {12}, {13}, {15}, {16}, {11, 13}, {12, 13, 14, 20}, {1, 2, 3, 4, 5}} {
		t.Run(fmt.Sprint(cuts), func(t *testing.T) {
			r := newRig(t, rewrites("abcd", "a-longer-name"))
			p := r.openNoWait(none)
			p.headers("POST", "/v1/completions", false)
			at := 0
			for _, cut := range cuts {
				p.body(body[at:cut], false)
				at = cut
			}
			p.body(body[at:], true)
			p.to("192.168.1.1:8000")
			got := ""
			for range len(cuts) + 1 {
				m := p.recv()
				mutation := m.GetRequestBody().GetResponse().GetBodyMutation()
				if _, cleared := mutation.GetMutation().(*extproc.BodyMutation_ClearBody); mutation == nil || len(mutation.GetBody()) == 0 && !cleared {
					t.Errorf("a message was answered with %v", m)
				}
				got += string(mutation.GetBody())
			}
			if want := `{"model":"a-longer-name","prompt":"x"}`; got != want {
				t.Errorf("the body became %s", got)
			}
			p.finish()
		})
	}
}

type deciderFunc func(req *route.Request) *route.Decision

func (f deciderFunc) Decide(_ context.Context, req *route.Request) *route.Decision { return f(req) }
