package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// B048: a stream may end after any message, closed or cancelled; both are a normal end.
// What was reserved is released once, and nothing is logged as an error.
func TestStreamEndsAnywhere(t *testing.T) {
	steps := []struct {
		name string
		play func(p *proxy)
	}{
		{"opened", func(*proxy) {}},
		{"request headers", func(p *proxy) { p.headers("POST", "/v1/completions", false) }},
		{"half of the body", func(p *proxy) { p.body(`{"model":"m",`, false) }},
		{"the body", func(p *proxy) { p.body(`"prompt":"x"}`, true); p.routed(); p.echoed() }},
		{"the answer's headers", func(p *proxy) { p.answer(200, false); p.recv() }},
		{"half of the answer's body", func(p *proxy) { p.answerBody("x", false); p.recv() }},
		{"the answer's body", func(p *proxy) { p.answerBody("", true); p.echoed() }},
	}
	reasons := []string{"ok", "cancelled", "cancelled", "unseen", "cut-short", "cut-short", "ok"}
	for _, end := range []string{"closed", "cancelled"} {
		for n := range steps {
			t.Run(end+" after "+steps[n].name, func(t *testing.T) {
				r := newRig(t)
				p := r.duplex()
				for _, s := range steps[:n+1] {
					s.play(p)
				}
				if end == "closed" {
					p.stream.CloseSend()
				} else {
					if n < 3 { // the server has the stream by then
						kittest.Eventually(t, "the stream to be opened", func() bool { return n == 0 || r.count("streams_total") == 1 })
					}
					p.cancel()
				}
				if n == 0 {
					return // the stream may never have come to the server
				}
				r.ended(reasons[n], 1)
				if n >= 3 {
					r.last()
				}
			})
		}
	}
}

// B050: a decision is wanted well before the proxy gives up, and the request says when.
func TestLateDecision(t *testing.T) {
	slow := func(r *rig, c *Config) {
		c.DecisionTimeout = conf.Duration(20 * time.Millisecond)
		r.decide = func(ctx context.Context, req *route.Request) error {
			select {
			case <-time.After(time.Until(req.Deadline)):
				return errors.New("too late")
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	t.Run("whoever decides fails", func(t *testing.T) {
		p := newRig(t, slow).duplex()
		p.headers("GET", "/", true)
		if got := p.refused(); got.Status != 503 || got.Reason != "late" {
			t.Errorf("refused with %+v", got)
		}
	})
	t.Run("the client has gone", func(t *testing.T) {
		deciding := make(chan struct{})
		r := newRig(t, slow, func(r *rig, c *Config) {
			c.DecisionTimeout = conf.Duration(time.Minute)
			inner := r.decide
			r.decide = func(ctx context.Context, req *route.Request) error { close(deciding); return inner(ctx, req) }
		})
		p := r.duplex()
		p.headers("GET", "/", true)
		<-deciding
		p.cancel()
		r.ended("cancelled", 1)
	})
}

// Once the body is on its way its buffers are no longer ours: the prompt, which lies in
// them, has let go by then.
func TestPromptLetsGoOfTheBody(t *testing.T) {
	r := newRig(t)
	eachMode(t, func(t *testing.T, mode string) {
		p := r.open(mode, none)
		p.submit(mode, "/v1/completions", `{"model":"m","prompt":"`+strings.Repeat("x", 500)+`"}`)
		req, text := r.request()
		if text == "" || req.Prompt.Text() != "" {
			t.Errorf("the prompt was of %d bytes, and is of %d", len(text), len(req.Prompt.Text()))
		}
		p.finish()
	})
}

// A proxy that sends the body without waiting is not waited for in turn: it gives up when
// the headers are not answered, and keeps trailers back until they are.
func TestHurry(t *testing.T) {
	r := newRig(t, with(func(c *Config) { c.DecisionTimeout = conf.Duration(20 * time.Millisecond) }))
	p := r.openNoWait(none)
	p.headers("POST", "/v1/completions", false)
	p.body(`{"model":"m",`, false)
	p.to("192.168.1.1:8000")
	if m := p.recv(); m.GetRequestBody() == nil || m.GetRequestBody().GetResponse() != nil {
		t.Errorf("the body was answered with %v", m)
	}
	p.body(`"prompt":"x"}`, false)
	if m := p.recv(); m.GetRequestBody() == nil || m.GetRequestBody().GetResponse() != nil {
		t.Errorf("the rest of the body was answered with %v", m)
	}
	p.trailers()
	if m := p.recv(); m.GetRequestTrailers() == nil {
		t.Errorf("the trailers were answered with %v", m)
	}
	p.finish()
	if got := r.count("decisions_total", "basis", "hurry"); got != 1 {
		t.Errorf("%d decisions were hurried", got)
	}
	t.Run("nobody there", func(t *testing.T) {
		r := newRig(t, func(r *rig, c *Config) {
			r.err, c.DecisionTimeout = route.ErrNoEndpoint, conf.Duration(20*time.Millisecond)
		})
		p := r.openNoWait(none)
		p.headers("POST", "/v1/completions", false)
		m := p.recv()
		if m.GetImmediateResponse() == nil {
			t.Errorf("it was answered with %v", m)
		}
		p.cancel()
		r.ended("no-endpoint", 1)
	})
	t.Run("what was under way when nobody was there", func(t *testing.T) {
		r := newRig(t, func(r *rig, c *Config) {
			r.err, c.DecisionTimeout = route.ErrNoEndpoint, conf.Duration(20*time.Millisecond)
		})
		p := r.openNoWait(none)
		p.headers("POST", "/v1/completions", false)
		if m := p.recv(); m.GetImmediateResponse() == nil {
			t.Errorf("it was answered with %v", m)
		}
		p.body(`{"model":"m"}`, true)
		if m, err := p.stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("after the end it was answered with %v, %v", m, err)
		}
		r.ended("no-endpoint", 1)
	})
	t.Run("the stream ends first", func(t *testing.T) {
		r := newRig(t, with(func(c *Config) { c.DecisionTimeout = conf.Duration(10 * time.Minute) }))
		p := r.openNoWait(none)
		p.headers("POST", "/v1/completions", false)
		kittest.Eventually(t, "the stream to be opened", func() bool { return r.count("streams_total") == 1 })
		p.cancel()
		r.ended("cancelled", 1)
	})
}

// Of a body that the proxy has cut, the model is known if it is there; the prompt is not.
func TestPartOfABody(t *testing.T) {
	for _, c := range []struct{ name, body, model string }{
		{"the model is there", `{"x":{"model":"no"},"model":"m\u002d1","prompt":"xxxxxxx`, "m-1"},
		{"the model is cut", `{"prompt":"x","model":"m`, ""},
		{"the model comes later", `{"prompt":"model","messages":[{"model":"no"}, {`, ""},
		{"not JSON", `model`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			p := r.open(partial, none)
			p.headers("POST", "/v1/completions", false)
			p.routed()
			p.body(c.body, false)
			m := p.recv()
			if got := mutationOf(m.GetRequestBody().GetResponse(), m); got.Set[edge.HeaderDestination] != "192.168.1.1:8000" {
				t.Errorf("it was answered with %v", m)
			}
			if req, _ := r.request(); req.Model != c.model || req.Prompt != nil {
				t.Errorf("it was read as %+v", req)
			}
			p.finish()
			if got := r.count("decisions_total", "basis", "part"); got != 1 {
				t.Errorf("%d decisions by a part", got)
			}
		})
	}
	t.Run("whole, but for trailers", func(t *testing.T) {
		r := newRig(t)
		p := r.open(partial, none)
		p.headers("POST", "/v1/completions", false)
		p.routed()
		p.body(`{"model":"m","prompt":"x"}`, false)
		p.recv()
		if req, _ := r.request(); req.Model != "m" || req.Prompt == nil {
			t.Errorf("it was read as %+v", req)
		}
		p.finish()
	})
}

// In STREAMED and NONE the headers go on before the body comes.
func TestDecidedByHeaders(t *testing.T) {
	for _, mode := range []string{streamed, none} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t)
			p := r.open(mode, none)
			p.allow("192.168.1.1").headers("POST", "/v1/completions", false, "content-length", fmt.Sprint(1<<40))
			p.to("192.168.1.1:8000")
			if mode == streamed {
				for i := range 3 {
					p.body("anything", i == 2)
					if m := p.recv(); m.GetRequestBody() == nil || m.GetRequestBody().GetResponse() != nil {
						t.Errorf("the body was answered with %v", m)
					}
				}
			}
			p.finish()
			if got := r.count("decisions_total", "basis", "headers"); got != 1 {
				t.Errorf("%d decisions by headers", got)
			}
		})
	}
}

// A proxy that does not tell its modes has the protocol's, or those that are configured.
func TestAssumedMode(t *testing.T) {
	t.Run("full duplex", func(t *testing.T) {
		r := newRig(t)
		p := r.open("", "")
		p.post("/v1/completions", `{"model":"m","prompt":"x"}`)
		p.to("192.168.1.1:8000")
		p.same(`{"model":"m","prompt":"x"}`)
		p.answer(200, false)
		p.recv()
		p.answerBody("x", true)
		p.same("x")
		p.cancel()
	})
	t.Run("buffered", func(t *testing.T) {
		r := newRig(t, with(func(c *Config) { c.AssumedMode = "BUFFERED" }))
		p := r.open("", "")
		if got, _ := p.submit(buffered, "/v1/completions", `{"model":"m","prompt":"x"}`); got.Set[edge.HeaderDestination] == "" {
			t.Errorf("it was answered with %v", got)
		}
		p.finish()
	})
}

// A mode that nobody knows gets a decision by the headers, and then the proxy is left
// alone: no request fails for it.
func TestUnknownMode(t *testing.T) {
	r := newRig(t)
	p := r.open("GRPC", "GRPC")
	p.headers("POST", "/v1/completions", false)
	p.to("192.168.1.1:8000")
	p.silent()
	r.ended("unseen", 1)
	if got := r.count("streams_total", "mode", "GRPC"); got != 1 {
		t.Errorf("%d streams of the mode were counted", got)
	}
}

// A proxy that only shows what it does is not answered.
func TestObservabilityMode(t *testing.T) {
	r := newRig(t)
	p := r.duplex()
	m := observed()
	p.send(m)
	p.silent()
	if r.decided() != 0 {
		t.Error("it was decided")
	}
}

// A proxy that does not send headers gets the destination in the metadata.
func TestWithoutRequestHeaders(t *testing.T) {
	for _, mode := range []string{duplex, buffered, partial, streamed} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t)
			p := r.open(mode, none)
			p.body(chat("m", strings.Repeat("x", 70000)), true)
			m := p.recv()
			if mutationOf(nil, m).Meta != "192.168.1.1:8000" || m.GetRequestBody() == nil {
				t.Errorf("it was answered with %.200v", m)
			}
			if s := m.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse(); mode == duplex && len(s.GetBody()) != maxChunk {
				t.Errorf("the body was answered with %d bytes", len(s.GetBody()))
			}
			if mode == duplex {
				p.echoed()
			}
			if req, _ := r.request(); req.Model != "m" || req.Path != "" {
				t.Errorf("it was read as %+v", req)
			}
			p.finish()
		})
	}
}

// A router that stops lets go of streams that the proxy can do without, and keeps those
// whose bodies go through it.
func TestDrain(t *testing.T) {
	r := newRig(t)
	kept, left := r.open(duplex, duplex), r.open(duplex, streamed)
	for _, p := range []*proxy{kept, left} {
		p.headers("GET", "/", true)
		p.routed()
	}
	r.server.Drain()
	for _, p := range []*proxy{kept, left} {
		p.answer(200, false)
		p.recv()
	}
	if m, err := left.stream.Recv(); err == nil {
		t.Errorf("after the drain came %v", m)
	}
	kept.answerBody("x", true)
	kept.same("x")
	kept.cancel()
}

// An error that is not one of route's is no reason to fail strangely.
func TestUnknownDecisionError(t *testing.T) {
	r := newRig(t, func(r *rig, _ *Config) { r.err = errors.New("something else") })
	p := r.duplex()
	p.headers("GET", "/", true)
	if got := p.refused(); got.Status != 503 || strings.Contains(got.Body, "something else") {
		t.Errorf("refused with %+v", got)
	}
}

// IPv6 addresses are bracketed.
func TestIPv6(t *testing.T) {
	r := newRig(t, func(r *rig, _ *Config) { r.max = 2 })
	r.setTable([]roster.Endpoint{{ID: "a", Host: "fd00::1", Port: 80}, {ID: "b", Host: "fd00::2", Port: 80}})
	p := r.duplex()
	p.headers("GET", "/", true)
	p.to("[fd00::1]:80,[fd00::2]:80")
	p.finish()
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults are wrong: %v", err)
	}
	c := Config{
		MaxRequestBytes: 1 << 40, MaxBufferedBytes: 1, DecisionTimeout: -1, AssumedMode: "GRPC", FailureStatuses: []int{404}, Fallbacks: -2, CertPath: "/x",
		DestinationHeader: "X-Up", Prompt: DefaultConfig().Prompt,
	}
	c.Prompt.MaxDepth = 1
	got := strings.Split(c.Validate().Error(), "\n")
	want := []string{
		"maxRequestBytes: 1099511627776 is not within 1 and 268435456",
		"maxBufferedBytes: 1 is less than one body of maxRequestBytes, 1099511627776",
		"decisionTimeout: -1ns is not above 0",
		`assumedMode: "GRPC" is none of NONE, STREAMED, BUFFERED, BUFFERED_PARTIAL, FULL_DUPLEX_STREAMED`,
		"failureStatuses: 404 is not a status of a server's failure, 500 to 599",
		"fallbacks: -2 is below -1",
		"certPath: is of no use without secureServing",
		`destinationHeader: "X-Up" is not the name of a header in lower case`,
		"destinationNamespace: must not be empty",
		"prompt.maxDepth 1: must be between 8 and 1024",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := New(Deps{}, c); err == nil {
		t.Error("a server was made of it")
	}
}
