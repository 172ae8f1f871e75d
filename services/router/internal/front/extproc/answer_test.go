package extproc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// routedStream opens a stream whose request has been routed and has ended.
func (r *rig) routedStream(response string) *proxy {
	r.t.Helper()
	p := r.open(duplex, response)
	p.headers("GET", "/", true)
	p.routed()
	return p
}

// A9–A11, C16, B035, B036, B039, B041, B042, B051: answers go on as they come, one message
// for each, whatever they hold; usage is read on the way.
func TestAnswers(t *testing.T) {
	const (
		asJSON = "application/json"
		asSSE  = "text/event-stream"
	)
	event := func(s string) string { return "data: " + s + "\n\n" }
	token := event(`{"choices":[{"delta":{"content":"x"}}]}`)
	for _, c := range []struct {
		name, kind string
		status     int
		parts      []string
		want       outcome
	}{
		{"A9 C19 JSON", asJSON, 200, []string{`{"model":"base","usage":{"prompt_tokens":11,"completion_tokens":100,"total_tokens":111}}`},
			outcome{1, 1, true, route.Usage{PromptTokens: 11, CachedPromptTokens: -1, OutputTokens: 100}}},
		{"A10 not JSON after all", asJSON, 200, []string{"no healthy upstream"}, outcome{1, 1, true, route.NoUsage()}},
		{"A11 JSON and an empty end", asJSON, 200, []string{`{"usage":{"prompt_tokens":1,"completion_tokens":2}}`, ""},
			outcome{1, 1, true, route.Usage{PromptTokens: 1, CachedPromptTokens: -1, OutputTokens: 2}}},
		{"C20 cached tokens", asJSON, 200, []string{`{"usage":{"prompt_tokens":11,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":10}}}`},
			outcome{1, 1, true, route.Usage{PromptTokens: 11, CachedPromptTokens: 10, OutputTokens: 1}}},
		{"B15 an empty event, usage and [DONE] at once", asSSE, 200, []string{event("{}"), event(`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":10,"total_tokens":17}}`) + event("[DONE]"), ""},
			outcome{1, 0, true, route.Usage{PromptTokens: 7, CachedPromptTokens: -1, OutputTokens: 10}}},
		{"C23 usage and [DONE] at once", asSSE, 200, []string{token, event(`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":10,"total_tokens":17}}`) + event("[DONE]"), ""},
			outcome{1, 1, true, route.Usage{PromptTokens: 7, CachedPromptTokens: -1, OutputTokens: 10}}},
		{"B035 C25 usage and [DONE] apart", asSSE, 200, []string{token, event(`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":10}}`), event("[DONE]")},
			outcome{1, 1, true, route.Usage{PromptTokens: 5, CachedPromptTokens: -1, OutputTokens: 10}}},
		{"C26 no usage", asSSE, 200, []string{token, event("[DONE]")}, outcome{1, 1, true, route.NoUsage()}},
		{"B039 C29 responses API", asSSE, 200, []string{event(`{"type":"response.completed","response":{"usage":{"input_tokens":9,"output_tokens":3,"total_tokens":12}}}`)},
			outcome{1, 0, true, route.Usage{PromptTokens: 9, CachedPromptTokens: -1, OutputTokens: 3}}},
		{"C32 bad JSON in an event", asSSE, 200, []string{event("{bad-json}"), token}, outcome{1, 1, true, route.NoUsage()}},
		{"B041 plain 503", "text/plain", 503, []string{"upstream connect error"}, outcome{1, 0, false, route.NoUsage()}},
		{"B041 HTML 502", "text/html", 502, []string{"<html>"}, outcome{1, 0, false, route.NoUsage()}},
		{"B041 empty 200", "", 200, []string{""}, outcome{1, 0, true, route.NoUsage()}},
		{"B051 an event of 1.5 MB", asSSE, 200, []string{token, "data: " + strings.Repeat("y", 1500<<10) + "\n\n", event(`{"usage":{"prompt_tokens":1,"completion_tokens":1}}`)},
			outcome{1, 1, true, route.Usage{PromptTokens: 1, CachedPromptTokens: -1, OutputTokens: 1}}},
		{"C16 one part", "text/plain", 200, []string{"hello world"}, outcome{1, 1, true, route.NoUsage()}},
		{"C16 several parts", "text/plain", 200, []string{"chunk1", "chunk2", "chunk3"}, outcome{1, 1, true, route.NoUsage()}},
		{"C16 nothing", "text/plain", 200, []string{""}, outcome{1, 0, true, route.NoUsage()}},
		{"C16 nothing in between", "text/plain", 200, []string{"data", "", "more"}, outcome{1, 1, true, route.NoUsage()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, mode := range []string{duplex, streamed} {
				t.Run(mode, func(t *testing.T) {
					r := newRig(t)
					p := r.routedStream(mode)
					p.answer(c.status, false, "content-type", c.kind)
					if m := p.recv(); m.GetResponseHeaders() == nil || m.GetResponseHeaders().GetResponse() != nil {
						t.Errorf("the headers were answered with %v", m)
					}
					for i, part := range c.parts {
						p.answerBody(part, i == len(c.parts)-1) // and is answered before the next is sent
						p.passes(mode, part, i == len(c.parts)-1)
					}
					if got := r.last(); got != c.want {
						t.Errorf("the outcome is %+v, want %+v", got, c.want)
					}
					want := "ok"
					if c.status >= 500 {
						want = "bad-answer"
					}
					p.cancel()
					r.ended(want, 1)
					if got := r.count("response_bytes_total"); got != len(strings.Join(c.parts, "")) {
						t.Errorf("%d bytes were counted", got)
					}
				})
			}
		})
	}
}

// passes receives the answer to a part of an answer's body, and checks that it has no
// effect. In full duplex nothing is sent for nothing.
func (p *proxy) passes(mode, part string, end bool) {
	p.r.t.Helper()
	if mode != duplex {
		if m := p.recv(); m.GetResponseBody() == nil || m.GetResponseBody().GetResponse() != nil {
			p.r.t.Errorf("a body was answered with %.200v", m)
		}
		return
	}
	if part == "" && !end {
		return
	}
	got := ""
	for {
		s := p.recv().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		got += string(s.GetBody())
		if s.GetEndOfStream() && (!end || got != part) || s == nil || len(s.GetBody()) > maxChunk {
			p.r.t.Fatalf("a body was answered with %.200v", s)
		}
		if len(got) >= len(part) {
			if got != part || s.GetEndOfStream() != end {
				p.r.t.Errorf("%.100q (end: %v) became %.100q (end: %v)", part, end, got, s.GetEndOfStream())
			}
			return
		}
	}
}

// B036: an event may be cut anywhere.
func TestEventsCutAnywhere(t *testing.T) {
	r := newRig(t)
	stream := "data: {\"choices\":[{\"delta\":{\"content\":\"é\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n"
	for at := range len(stream) {
		p := r.routedStream(duplex)
		p.answer(200, false, "content-type", "text/event-stream; charset=utf-8")
		p.recv()
		p.answerBody(stream[:at], false)
		p.passes(duplex, stream[:at], false)
		p.answerBody(stream[at:], true)
		p.passes(duplex, stream[at:], true)
		want := outcome{1, 1, true, route.Usage{PromptTokens: 7, CachedPromptTokens: -1, OutputTokens: 3}}
		if got := r.last(); got != want {
			t.Fatalf("cut at %d the outcome is %+v", at, got)
		}
		p.cancel()
	}
}

// A client that leaves on the word that ends a stream has had all of it.
func TestClientLeavesWhenTheStreamSaysItIsDone(t *testing.T) {
	r := newRig(t)
	for n, end := range []string{"data: [DONE]\n\n", ""} {
		p := r.routedStream(duplex)
		p.answer(200, false, "content-type", "text/event-stream")
		p.recv()
		part := "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n" + end
		p.answerBody(part, false)
		p.passes(duplex, part, false)
		p.cancel()
		if o := r.last(); o.Completed != (end != "") {
			t.Errorf("after %q the outcome is %+v", part, o)
		}
		r.ended([]string{"ok", "cut-short"}[n], 1)
	}
}

// The first token is the first that was generated, not the first event.
func TestFirstToken(t *testing.T) {
	r := newRig(t)
	p := r.routedStream(duplex)
	p.answer(200, false, "content-type", "text/event-stream")
	p.recv()
	role := "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n"
	p.answerBody(role, false)
	p.passes(duplex, role, false)
	if o := r.reservations[0].outcome(); o.FirstTokens != 0 {
		t.Errorf("after the role there were %d first tokens", o.FirstTokens)
	}
	token := "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"
	for range 3 {
		p.answerBody(token, false)
		p.passes(duplex, token, false)
	}
	if o := r.reservations[0].outcome(); o.FirstTokens != 1 || o.Finished != 0 {
		t.Errorf("after three tokens: %+v", o)
	}
	p.answerBody("", true)
	p.passes(duplex, "", true)
}

// C7: headers by which routers talk to each other are removed from answers too; nothing
// else is touched, the length included, and nothing is added.
func TestAnswerHeaders(t *testing.T) {
	r := newRig(t)
	p := r.routedStream(duplex)
	p.answer(200, true, "x-backend-server", "b", "x-gateway-inference-objective", "o", edge.HeaderDestination, "1.2.3.4:5", "content-length", "500", "X-Pointsman-Endpoint", "e")
	c := p.recv().GetResponseHeaders().GetResponse()
	if d := cmp.Diff([]string{"x-gateway-inference-objective", edge.HeaderDestination, "x-pointsman-endpoint"}, c.GetHeaderMutation().GetRemoveHeaders()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if set := c.GetHeaderMutation().GetSetHeaders(); len(set) > 0 {
		t.Errorf("headers are set: %v", set)
	}
}

// K: the endpoint that has served is believed over the pick.
func TestServed(t *testing.T) {
	for _, c := range []struct {
		name, served string
		fallbacks    int
		moved        []roster.ID
		failed       []string
		succeeded    []string
	}{
		{"the pick", "192.168.1.1:8000", 2, nil, nil, []string{"e0"}},
		{"the first to fall back on", "192.168.1.2:8000", 2, []roster.ID{"e1"}, []string{"e0"}, []string{"e1"}},
		{"the second", "192.168.1.3:8000", 2, []roster.ID{"e2"}, []string{"e0", "e1"}, []string{"e2"}},
		{"one that was not named", "192.168.1.3:8000", 0, []roster.ID{"e2"}, nil, []string{"e2"}},
		{"nobody's address", "10.9.9.9:1", 2, nil, nil, []string{"e0"}},
		{"no address", "x", 2, nil, nil, []string{"e0"}},
		{"not told", "", 2, nil, nil, []string{"e0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(r *rig, cfg *Config) { cfg.Fallbacks, r.fallbacks = c.fallbacks, 2 })
			p := r.routedStream(duplex)
			p.know("envoy.lb", edge.HeaderServed, c.served).answer(200, true)
			p.recv()
			if o := r.last(); !o.Completed {
				t.Errorf("the outcome is %+v", o)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			var failed []string
			for _, f := range r.failed {
				id, _, _ := strings.Cut(f, ":")
				failed = append(failed, id)
			}
			if d := cmp.Diff([]any{c.moved, c.failed, c.succeeded}, []any{r.reservations[0].on, failed, r.succeeded}); d != "" {
				t.Errorf("moved, failed, succeeded (-want +got):\n%s", d)
			}
			if moves := r.count("moves_total"); moves != len(c.moved) {
				t.Errorf("%d moves were counted", moves)
			}
		})
	}
	t.Run("IPv6 in another spelling", func(t *testing.T) {
		r := newRig(t)
		r.setTable([]roster.Endpoint{{ID: "a", Host: "fd00::1", Port: 80}, {ID: "b", Host: "fd00::2", Port: 80}})
		p := r.open(duplex, duplex)
		p.headers("GET", "/", true)
		p.to("[fd00::1]:80")
		p.know("envoy.lb", edge.HeaderServed, "[fd00:0:0::0002]:80").answer(200, true)
		p.recv()
		r.last()
		if got := r.reservations[0].on; !slices.Equal(got, []roster.ID{"b"}) {
			t.Errorf("it was moved to %v", got)
		}
	})
}

// R#1597: the token of a session goes out with the headers of the answer, and is that of
// the endpoint that has served.
func TestSessionToken(t *testing.T) {
	r := newRig(t)
	r.server.deps.Decider = deciderFunc(func(req *route.Request) *route.Decision {
		d := r.pick(req)
		d.Pool, d.SessionHeaders = "pool", []string{"x-session-token"}
		return d
	})
	for served, want := range map[string]roster.ID{"192.168.1.1:8000": "e0", "192.168.1.3:8000": "e2"} {
		p := r.routedStream(duplex)
		p.know("envoy.lb", edge.HeaderServed, served).answer(200, true, "x-session-token", "the engine's own")
		set := p.recv().GetResponseHeaders().GetResponse().GetHeaderMutation().GetSetHeaders()
		if len(set) != 1 || set[0].GetHeader().GetKey() != "x-session-token" || string(set[0].GetHeader().GetRawValue()) != route.SessionToken("pool", want) {
			t.Errorf("served by %s, the headers set are %v", served, set)
		}
	}
	// A client is not sent back to who failed it; other answers are the endpoint's word.
	for status, tokens := range map[int]int{500: 0, 503: 0, 404: 1} {
		p := r.routedStream(duplex)
		p.answer(status, true)
		if set := p.recv().GetResponseHeaders().GetResponse().GetHeaderMutation().GetSetHeaders(); len(set) != tokens {
			t.Errorf("after %d, the headers set are %v", status, set)
		}
	}
}

// The quarantine hears of statuses, and of why where the proxy tells.
func TestQuarantine(t *testing.T) {
	for _, c := range []struct {
		status  int
		details string
		want    string // "": it succeeded
	}{
		{200, "", ""}, {404, "", ""}, {429, "", ""}, {501, "", ""},
		{500, "via_upstream", "e0: it answered with a failure"},
		{503, "", "e0: it answered with a failure"},
		{503, "upstream_reset_before_response_started{connection_failure}", "e0: upstream_reset_before_response_started{connection_failure}"},
	} {
		t.Run(fmt.Sprint(c.status, c.details), func(t *testing.T) {
			r := newRig(t)
			p := r.routedStream(duplex)
			if c.details != "" {
				p.attribute = &structpb.Struct{Fields: map[string]*structpb.Value{"response.code_details": structpb.NewStringValue(c.details), "response.flags": structpb.NewNumberValue(2)}}
			}
			p.answer(c.status, true)
			p.recv()
			r.last()
			r.mu.Lock()
			defer r.mu.Unlock()
			if c.want == "" {
				if len(r.failed) > 0 || !slices.Equal(r.succeeded, []string{"e0"}) {
					t.Errorf("failed %v, succeeded %v", r.failed, r.succeeded)
				}
			} else if !slices.Equal(r.failed, []string{c.want}) || len(r.succeeded) > 0 {
				t.Errorf("failed %v, succeeded %v", r.failed, r.succeeded)
			}
		})
	}
}

// Without a body, or without headers, what can be seen is seen.
func TestLittleOfAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name, mode string
		play       func(p *proxy)
		want       outcome
		reason     string
	}{
		{"no body, and then the stream is closed", none, func(p *proxy) { p.answer(200, false); p.recv() }, outcome{1, 1, true, route.NoUsage()}, "ok"},
		{"no body, a failure", none, func(p *proxy) { p.answer(503, false); p.recv() }, outcome{1, 0, false, route.NoUsage()}, "bad-answer"},
		{"no body, trailers", none, func(p *proxy) { p.answer(200, false); p.recv(); p.answerTrailers(); p.recv() }, outcome{1, 1, true, route.NoUsage()}, "ok"},
		{"no headers, JSON", duplex, func(p *proxy) {
			p.answerBody(` {"usage":{"prompt_tokens":3,"completion_tokens":4}}`, true)
			p.echoed()
		}, outcome{1, 1, true, route.Usage{PromptTokens: 3, CachedPromptTokens: -1, OutputTokens: 4}}, "ok"},
		{"no headers, events", streamed, func(p *proxy) {
			p.answerBody("", false)
			p.recv()
			p.answerBody("data: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n", true)
			p.recv()
		}, outcome{1, 0, true, route.Usage{PromptTokens: 3, CachedPromptTokens: -1, OutputTokens: 4}}, "ok"},
		{"nothing", none, func(*proxy) {}, outcome{1, 0, false, route.NoUsage()}, "unseen"},
		{"the end is missing", duplex, func(p *proxy) { p.answer(200, false); p.recv(); p.answerBody("x", false); p.recv() }, outcome{1, 1, false, route.NoUsage()}, "cut-short"},
		{"buffered", buffered, func(p *proxy) {
			p.answer(200, false, "content-type", "application/json")
			p.recv()
			p.answerBody(`{"usage":{"prompt_tokens":3}}`, true)
			p.recv()
		},
			outcome{1, 1, true, route.Usage{PromptTokens: 3, CachedPromptTokens: -1, OutputTokens: -1}}, "ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			p := r.routedStream(c.mode)
			c.play(p)
			p.stream.CloseSend()
			if got := r.last(); got != c.want {
				t.Errorf("the outcome is %+v, want %+v", got, c.want)
			}
			r.ended(c.reason, 1)
		})
	}
}
