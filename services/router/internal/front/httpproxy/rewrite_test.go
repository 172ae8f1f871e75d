package httpproxy

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// renames is a policy: models by the requested one, and priorities by objective.
type renames struct {
	models     map[string]string
	priorities map[string]int32
}

func (p renames) Rewrite(r *route.Request) (string, bool) {
	m, ok := p.models[r.Model]
	return m, ok
}

func (p renames) PriorityOf(h route.Headers) int32 {
	return p.priorities[h.Get("x-gateway-inference-objective")]
}

func heeding(p Policy) option { return func(r *rig, _ *Config) { r.policy = p } }

func TestModelIsRewritten(t *testing.T) {
	for name, c := range map[string]struct{ path, body, want, model string }{
		"longer":          {"/v1/chat/completions", `{"temperature": 1e0, "model" : "a", "messages":[{"role":"user","content":"a \"a\""}] }`, `{"temperature": 1e0, "model" : "a-much-longer-name", "messages":[{"role":"user","content":"a \"a\""}] }`, "a-much-longer-name"},
		"shorter":         {"/v1/completions", `{"model":"much-longer","prompt":"x"}`, `{"model":"b","prompt":"x"}`, "b"},
		"in escapes":      {"/v1/completions", `{"model":"\u0061","prompt":"x"}`, `{"model":"a-much-longer-name","prompt":"x"}`, "a-much-longer-name"},
		"of no rule":      {"/v1/completions", `{"model":"c",  "prompt":"x"}`, `{"model":"c",  "prompt":"x"}`, "c"},
		"a large body":    {"/v1/completions", `{"prompt":"` + strings.Repeat("x", 100<<10) + `","model":"a"}`, `{"prompt":"` + strings.Repeat("x", 100<<10) + `","model":"a-much-longer-name"}`, "a-much-longer-name"},
		"of an embedding": {"/v1/embeddings", `{"model":"a","input":"x"}`, `{"model":"a-much-longer-name","input":"x"}`, "a-much-longer-name"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, []http.Handler{echo()}, heeding(renames{models: map[string]string{"a": "a-much-longer-name", "much-longer": "b"}}))
			got := r.do("POST", c.path, c.body)
			if got.status != 200 || got.body != c.want {
				t.Errorf("status %d, the endpoint got %.200q, want %.200q", got.status, got.body, c.want)
			}
			if n := got.header.Get("X-Got-Length"); n != strconv.Itoa(len(c.want)) {
				t.Errorf("Content-Length %s for %d bytes", n, len(c.want))
			}
			q := r.lastRequest()
			if q.Model != c.model || (q.ClientModel != "") != (c.body != c.want) || q.AskedModel() == c.model != (c.body == c.want) {
				t.Errorf("routed as %q, the client named %q", q.Model, q.ClientModel)
			}
		})
	}
}

// Prefixes belong to the model that serves: two names of one model share them.
func TestRewrittenRequestsAreHashedByTheirTarget(t *testing.T) {
	r := newRig(t, []http.Handler{echo()}, heeding(renames{models: map[string]string{"alias": "real"}}))
	p, err := prompt.NewParser(prompt.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	body := func(model string) string {
		return `{"model":"` + model + `","prompt":"` + strings.Repeat("y", 200) + `"}`
	}
	want, err := p.Read(prompt.Input{Path: "/v1/completions", Body: []byte(body("real"))})
	if err != nil {
		t.Fatal(err)
	}
	r.do("POST", "/v1/completions", body("alias"))
	got := r.lastRequest().Prompt.Blocks(64, 256)
	if hashes := want.Prompt.Blocks(64, 256); len(got) != 3 || got[0] != hashes[0] || got[2] != hashes[2] {
		t.Errorf("hashes %x, want %x", got, hashes)
	}
}

// B043: the answer names the model as the endpoint does, streamed or not.
func TestB043_answers_are_not_rewritten_back(t *testing.T) {
	const answer = `{"id":"1","model":"real","choices":[]}`
	r := newRig(t, []http.Handler{answer200(answer)}, heeding(renames{models: map[string]string{"m": "real"}}))
	if got := r.chat(); got.body != answer {
		t.Errorf("the client got %q, want the endpoint's own bytes", got.body)
	}
}

func TestRewriteSurvivesRetries(t *testing.T) {
	r := newRig(t, []http.Handler{abort(), echo()}, heeding(renames{models: map[string]string{"m": "real"}}))
	if got := r.chat(); got.status != 200 || !strings.Contains(got.body, `"model":"real"`) {
		t.Errorf("status %d, the second endpoint got %q", got.status, got.body)
	}
}

func TestBodiesThatCannotBeRewritten(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(z, `{"model":"m","prompt":"x"}`); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	form := "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--B--\r\n"
	for name, c := range map[string]struct {
		path, body string
		headers    []string
	}{
		"compressed":  {"/v1/completions", zipped.String(), []string{"Content-Encoding", "gzip"}},
		"a form":      {"/v1/audio/transcriptions", form, []string{"Content-Type", "multipart/form-data; boundary=B"}},
		"in the path": {"/v2/models/m/generate", `{"text_input":"x"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for model, want := range map[string]int{"m": 415, "other": 200} {
				r := newRig(t, []http.Handler{answer200("{}")}, heeding(renames{models: map[string]string{model: "real"}}))
				if got := r.do("POST", c.path, c.body, c.headers...); got.status != want {
					t.Errorf("rewriting %q: status %d, want %d: %s", model, got.status, want, got.body)
				}
				if want == 415 {
					r.counted(1, "4xx", "not-rewritable")
				}
			}
		})
	}
}

// What says what the bytes of a body are goes if they change, and stays if not; and a
// header that gateways rewrite by is nothing that a client may say.
func TestHeadersOfRewrittenRequests(t *testing.T) {
	seen := make(chan http.Header, 1)
	engine := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header })
	for model, digest := range map[string]string{"m": "", "other": "sha-256=:x:"} {
		r := newRig(t, []http.Handler{engine}, heeding(renames{models: map[string]string{model: "real"}}))
		r.chat("Content-Digest", "sha-256=:x:", "X-Gateway-Model-Name-Rewrite", "evil", "X-Gateway-Inference-Objective", "batch")
		h := <-seen
		if h.Get("Content-Digest") != digest {
			t.Errorf("rewriting %q: Content-Digest %q, want %q", model, h.Get("Content-Digest"), digest)
		}
		if h.Get("X-Gateway-Model-Name-Rewrite") != "" || h.Get("X-Gateway-Inference-Objective") != "" || strings.Contains(r.lastRequest().Model, "evil") {
			t.Errorf("headers for the router went on or were believed: %v", h)
		}
	}
}

func TestPriorityIsThatOfTheObjective(t *testing.T) {
	r := newRig(t, []http.Handler{answer200("{}")}, heeding(renames{priorities: map[string]int32{"batch": -3}}))
	for name, c := range map[string]struct {
		headers []string
		want    int32
	}{
		"none":                        {nil, 0},
		"batch":                       {[]string{"X-Gateway-Inference-Objective", "batch"}, -3},
		"unknown":                     {[]string{"X-Gateway-Inference-Objective", "urgent"}, 0},
		"B219 set by a client":        {[]string{"X-Priority", "100", "X-Pointsman-Priority", "100"}, 0},
		"B219 empty, set by a client": {[]string{"X-Pointsman-Priority", ""}, 0},
	} {
		r.chat(c.headers...)
		if got := r.lastRequest().Priority; got != c.want {
			t.Errorf("%s: priority %d, want %d", name, got, c.want)
		}
	}
}

// Without a rule for its model, a request costs no more than without a policy.
func TestNoRewriteCopiesNothing(t *testing.T) {
	p, err := New(nil, nil, nil, telemetry.Discard(), DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	p.Heed(renames{})
	b := &buffer{pool: &p.buffers, data: []byte(`{"model":"m"}`)}
	x := &exchange{p: p, body: b, request: &route.Request{Model: "m"}}
	if n := testing.AllocsPerRun(100, func() {
		if f := x.rewrite(nil); f != nil || x.body != b {
			t.Fatal("something was rewritten")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// B224: a client's salt is replaced by one of its own tenant, and by itself where the
// operator says nothing of tenants.
func TestB224SaltsBelongToTenants(t *testing.T) {
	for _, on := range []bool{false, true} {
		t.Run(strconv.FormatBool(on), func(t *testing.T) {
			r := newRig(t, []http.Handler{echo()}, func(r *rig, _ *Config) {
				if on {
					r.salt = edge.NewSalter(edge.SaltConfig{IdentityHeader: "X-Tenant", Secret: "sixteen bytes or more"})
				}
			})
			const body = `{"model":"m","prompt":"x","cache_salt":"victim"}`
			a, b := r.do("POST", "/v1/completions", body, "X-Tenant", "a").body, r.do("POST", "/v1/completions", body, "X-Tenant", "b").body
			if (a == body) == on || (a == b) == on || strings.Contains(a, "victim") == on || !strings.HasPrefix(a, `{"model":"m","prompt":"x","cache_salt":"`) {
				t.Errorf("the endpoint got %s and %s", a, b)
			}
			got := r.do("POST", "/v1/completions", compressed(t, "gzip", body), "Content-Encoding", "gzip")
			if want := map[bool]int{false: http.StatusOK, true: http.StatusUnsupportedMediaType}[on]; got.status != want {
				t.Errorf("a compressed body: status %d, want %d", got.status, want)
			}
		})
	}
}
