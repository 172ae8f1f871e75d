package prompt_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"testing"

	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

func newParser(t testing.TB) *prompt.Parser {
	t.Helper()
	p, err := prompt.NewParser(prompt.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReplaceModel(t *testing.T) {
	zipped := func(s string) string {
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
	for name, c := range map[string]struct{ path, contentType, encoding, body, model, want string }{
		"only the value differs":       {body: `{ "temperature" : 1e0, "model" : "a" , "prompt":"model: \"a\"" }` + "\n", model: "longer/name", want: `{ "temperature" : 1e0, "model" : "longer/name" , "prompt":"model: \"a\"" }` + "\n"},
		"a shorter one":                {body: `{"model":"much-longer","prompt":"x"}`, model: "b", want: `{"model":"b","prompt":"x"}`},
		"written with escapes":         {body: `{"model":"\u0061\/b","prompt":"x"}`, model: "c", want: `{"model":"c","prompt":"x"}`},
		"needs escapes":                {body: `{"model":"a","prompt":"x"}`, model: "q\"u\\o\n<é>", want: `{"model":"q\"u\\o\n<é>","prompt":"x"}`},
		"a key of that name elsewhere": {body: `{"metadata":{"model":"z"},"model":"a","prompt":"x"}`, model: "b", want: `{"metadata":{"model":"z"},"model":"b","prompt":"x"}`},
		"compressed":                   {encoding: "gzip", body: zipped(`{"model":"a","prompt":"x"}`), model: "b"},
		"in the path":                  {path: "/v2/models/a/generate", body: `{"text_input":"x"}`, model: "b"},
		"no model":                     {path: "/v1/embeddings", body: `{"input":"x"}`, model: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.path == "" {
				c.path = "/v1/completions"
			}
			got, err := newParser(t).Read(prompt.Input{Path: c.path, ContentType: c.contentType, ContentEncoding: c.encoding, Body: []byte(c.body)})
			if err != nil {
				t.Fatal(err)
			}
			out, ok := got.ReplaceModel(nil, []byte(c.body), c.model)
			if ok != (c.want != "") || ok && string(out) != c.want {
				t.Errorf("%s, %v, want %s", out, ok, c.want)
			}
		})
	}
}

// Whatever the body, the rest of it stays and the model is the one that was asked for.
func FuzzReplaceModel(f *testing.F) {
	f.Add([]byte(`{"model":"a","prompt":"x"}`), "b")
	f.Add([]byte(`{"x":[{"model":1}],"model":"\u0061"}`), "é\"\\\x00")
	f.Fuzz(func(t *testing.T, body []byte, model string) {
		p := newParser(t)
		got, err := p.Read(prompt.Input{Path: "/v1/completions", Body: body})
		if err != nil || got.Model == "" {
			return
		}
		out, ok := got.ReplaceModel(nil, body, model)
		if !ok {
			t.Fatalf("the model %q of %q cannot be replaced", got.Model, body)
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(out, &m); err != nil {
			t.Fatalf("%q is no JSON any more: %v", out, err)
		}
		raw, err := json.Marshal(model)
		if err != nil {
			t.Fatal(err)
		}
		var want, is string
		if json.Unmarshal(raw, &want) != nil || json.Unmarshal(m["model"], &is) != nil || is != want {
			t.Fatalf("model %q, want %q in %q", is, want, out)
		}
		if n := len(body) - int(got.ModelEnd-got.ModelStart); !bytes.HasPrefix(out, body[:got.ModelStart]) || !bytes.HasSuffix(out, body[got.ModelEnd:]) || len(out) < n {
			t.Fatalf("more than the model differs: %q became %q", body, out)
		}
	})
}
