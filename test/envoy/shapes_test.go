package envoy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// shape is a request as clients send them, and what becomes of it where its body is
// known.
type shape struct {
	name, path, body string
	headers          map[string]string
	model            string // as decided on; "-": not asserted
	status           int    // 0: it is passed on
	reason           string
}

func gzipped(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const form = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nsim-model\r\n" +
	"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\n"

// shapes are bodies that routers have stumbled over, by their ids in the reports.
func shapes(t testing.TB) []shape {
	const m = `"model":"sim-model"`
	message := func(s string) string { return `{` + m + `,"messages":[` + s + `]}` }
	deep := func(n int) string {
		return `{` + m + `,"messages":[],"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	compressed := map[string]string{"Content-Encoding": "gzip"}
	return []shape{
		{name: "B001: a chat without a prompt", path: chatPath, body: `{` + m + `,"temperature":0,"messages":[{"role":"user","content":"hi"}]}`, model: "sim-model"},
		{name: "B002: content in parts", path: chatPath, body: message(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}`), model: "sim-model"},
		{name: "B004: a tool's result", path: chatPath, body: message(`{"role":"user","content":"u"},{"role":"assistant","tool_calls":[]},{"role":"tool","tool_call_id":"c1","content":"[{}]"}`), model: "sim-model"},
		{name: "B006: a list of prompts", path: "/v1/completions", body: `{` + m + `,"prompt":["a","b"],"max_tokens":1}`, model: "sim-model"},
		{name: "B007: a prompt of tokens", path: "/v1/completions", body: `{` + m + `,"prompt":[1,2,3,4]}`, model: "sim-model"},
		{name: "B007: prompts of tokens", path: "/v1/completions", body: `{` + m + `,"prompt":[[1,2],[3,4]]}`, model: "sim-model"},
		{name: "B009: embeddings", path: "/v1/embeddings", body: `{` + m + `,"input":["a","b"]}`, model: "sim-model"},
		{name: "B010: responses of a list", path: "/v1/responses", body: `{` + m + `,"input":[{"role":"user","content":"Hello"}],"max_tokens":50}`, model: "sim-model"},
		{name: "B012: a part that OpenAI does not know", path: chatPath, body: message(`{"role":"user","content":[{"type":"image","image":"data:image;base64,/9j/"},{"type":"text","text":"Describe"}]}`), model: "sim-model"},
		{name: "B019: compressed", path: chatPath, body: gzipped(t, message(`{"role":"user","content":"hi"}`)), headers: compressed, model: "sim-model"},
		{name: "B019: compressed and large", path: chatPath, body: gzipped(t, string(chat(3_000_000))), headers: compressed, model: "sim-model"},
		{name: "B021: a form with a file", path: "/v1/audio/transcriptions", body: form + string(filler(780_000)) + "\r\n--b--\r\n", headers: map[string]string{"Content-Type": "multipart/form-data; boundary=b"}, model: "sim-model"},
		{name: "B028: what encoders escape", path: chatPath, body: message(`{"role":"user","content":"` + strings.Repeat("\u2028<&>", 10_000) + `"}`), model: "sim-model"},
		{name: "B029: a model twice", path: chatPath, body: `{"model":"cheap","messages":[],"model":"dear"}`, status: 400, reason: "duplicate-key"},
		{name: "B030: an odd name", path: chatPath, body: `{"model":"tweet-summary%-0","messages":[]}`, model: "-"},
		{name: "B030: no model", path: "/v1/completions", body: `{"prompt":"x"}`, status: 400, reason: "model-missing"},
		{name: "B030: nothing in it", path: chatPath, body: `{}`, status: 400, reason: "model-missing"},
		{name: "B033: a stream that is a string", path: chatPath, body: `{` + m + `,"stream":"true","max_tokens":"100","messages":[]}`, model: "sim-model"},
		{name: "B033: a model that is a number", path: chatPath, body: `{"model":123,"messages":[]}`, status: 400, reason: "bad-model"},
		{name: "A2: not JSON", path: chatPath, body: "no healthy upstream", status: 400, reason: "bad-json"},
		{name: "B231: nested 1,000 deep", path: chatPath, body: deep(1_000), status: 400, reason: "too-deep"},
		{name: "B231: nested 1,000,000 deep", path: chatPath, body: deep(1_000_000), status: 400, reason: "too-deep"},
		{name: "not JSON, for nobody we know", path: "/foo", body: "no healthy upstream"},
		{name: "Anthropic's messages", path: "/v1/messages", body: `{` + m + `,"max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`, model: "sim-model"},
		{name: "tokenize", path: "/tokenize", body: `{` + m + `,"prompt":"hi"}`, model: "-"},
		{name: "rerank", path: "/v1/rerank", body: `{` + m + `,"query":"q","documents":["a"]}`, model: "-"},
	}
}

// shapes sends all of them, and requests without a body (A13, B13, B023).
func (r *rig) shapes(t *testing.T, w way) {
	for _, s := range shapes(t) {
		t.Run(s.name, func(t *testing.T) {
			q := request{path: s.path, body: []byte(s.body), headers: map[string]string{headerDo: "echo"}}
			for name, value := range s.headers {
				q.headers[name] = value
			}
			if s.status != 0 && w.basis == "body" {
				refusals := r.counter("pointsman_router_extproc_requests_total", fmt.Sprintf(`code="%dxx",reason=%q`, s.status/100, s.reason))
				r.send(t, w.name, q).refused(t, s.status, s.reason)
				refusals.rose(t, 1)
				return
			}
			got := r.echo(t, w.name, q)
			d := r.decided(t, got)
			if want := s.model; w.basis == "body" && want != "-" && d.GetModel() != want {
				t.Errorf("the model is taken to be %q, want %q", d.GetModel(), want)
			}
		})
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodHead, http.MethodOptions} {
		t.Run(method, func(t *testing.T) {
			decided := r.counter("pointsman_router_extproc_decisions_total", `basis="headers"`)
			q := request{method: method, path: "/v1/models?x=1", headers: map[string]string{headerDo: "echo"}}
			if method == http.MethodHead {
				if a := r.send(t, w.name, q); a.status != http.StatusOK {
					t.Errorf("status %d", a.status)
				}
			} else if got := r.echo(t, w.name, q); got.Method != method || got.Path != q.path {
				t.Errorf("the server got %s %s", got.Method, got.Path)
			}
			decided.rose(t, 1)
		})
	}
}
