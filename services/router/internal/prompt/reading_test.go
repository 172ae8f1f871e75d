package prompt_test

import (
	"bytes"
	"errors"
	"fmt"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

// blank is a reading of nothing.
func blank(k prompt.Kind) prompt.Reading { return prompt.Reading{Kind: k, MaxOutputTokens: -1} }

func TestReading(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		want             func(r *prompt.Reading)
	}{
		{"nothing", chat, `{}`, func(*prompt.Reading) {}},
		{"model", chat, `{"model":"m"}`, func(r *prompt.Reading) { r.Model, r.ModelStart, r.ModelEnd = "m", 10, 11 }},
		{"B030 percent sign", chat, `{"model":"tweet-summary%-0"}`, func(r *prompt.Reading) { r.Model, r.ModelStart, r.ModelEnd = "tweet-summary%-0", 10, 26 }},
		{"B030 slash and colon", chat, `{"model":"org/name:tag"}`, func(r *prompt.Reading) { r.Model, r.ModelStart, r.ModelEnd = "org/name:tag", 10, 22 }},
		{"B031 byte exact", chat, `{"model":"gpt-4o-2024-08-06"}`, func(r *prompt.Reading) { r.Model, r.ModelStart, r.ModelEnd = "gpt-4o-2024-08-06", 10, 27 }},
		{"escaped model", chat, `{"model":"a\/\u00e9"}`, func(r *prompt.Reading) { r.Model, r.ModelStart, r.ModelEnd = "a/é", 10, 19 }},
		{"invalid UTF-8", chat, "{\"model\":\"a\xff\"}", func(r *prompt.Reading) { r.Model, r.ModelStart, r.ModelEnd = "a\uFFFD", 10, 12 }},
		{"null model", chat, `{"model":null}`, func(*prompt.Reading) {}},
		{"nested model", chat, `{"metadata":{"model":"x"},"messages":[{"model":"y","role":"u"}]}`, func(r *prompt.Reading) { r.PromptTokens = 1 }},
		{"stream", chat, `{"stream":true}`, func(r *prompt.Reading) { r.Stream = true }},
		{"last stream", chat, `{"stream":true,"stream":false}`, func(*prompt.Reading) {}},
		{"B033 stream of a string", chat, `{"stream":"true","stream_options":{"include_usage":"true"}}`, func(*prompt.Reading) {}},
		{"B033 max_tokens of a string", chat, `{"max_tokens":"100"}`, func(*prompt.Reading) {}},
		{"max_tokens", chat, `{"max_tokens":7}`, func(r *prompt.Reading) { r.MaxOutputTokens = 7 }},
		{"max_completion_tokens wins", chat, `{"max_completion_tokens":5,"max_tokens":7}`, func(r *prompt.Reading) { r.MaxOutputTokens = 5 }},
		{"max_output_tokens", responses, `{"max_output_tokens":9}`, func(r *prompt.Reading) { r.MaxOutputTokens = 9 }},
		{"max_tokens out of range", chat, `{"max_tokens":99999999999999999999}`, func(*prompt.Reading) {}},
		{"max_tokens of a fraction", chat, `{"max_tokens":1.5}`, func(*prompt.Reading) {}},
		{"zero max_tokens", chat, `{"max_tokens":0}`, func(r *prompt.Reading) { r.MaxOutputTokens = 0 }},
		{"user", chat, `{"user":"u"}`, func(r *prompt.Reading) { r.SessionKey = "u" }},
		{"cache key over user", chat, `{"user":"u","prompt_cache_key":"k"}`, func(r *prompt.Reading) { r.SessionKey = "k" }},
		{"session over all", chat, `{"session_id":"s","user":"u","prompt_cache_key":"k","conversation":"c"}`, func(r *prompt.Reading) { r.SessionKey = "s" }},
		{"conversation object", responses, `{"conversation":{"id":"c"}}`, func(r *prompt.Reading) { r.SessionKey = `{"id":"c"}` }},
		{"long user", chat, `{"user":"` + strings.Repeat("u", 129) + `"}`, func(r *prompt.Reading) { r.SessionKey = "xxh64:" + digest(strings.Repeat("u", 129)) }},
		{"adapter", chat, `{"lora_path":"a"}`, func(r *prompt.Reading) { r.Adapter = "a" }},
		{"tokens are a quarter, rounded up", completions, `{"prompt":"123456789"}`, func(r *prompt.Reading) { r.PromptTokens = 3 }},
		{"model in the path", "/v2/models/bert/infer", `{"inputs":[]}`, func(r *prompt.Reading) { r.Model = "bert" }},
		{"unknown path", "/v1/images/generations", `{"model":"m","prompt":"x"}`, func(r *prompt.Reading) { r.Model, r.ModelStart, r.ModelEnd = "m", 10, 11 }},
		{"not JSON at an unknown path", "/v1/files", `hello`, func(r *prompt.Reading) { r.Opaque = "not JSON that can be read" }},
		{"too deep at an unknown path", "/v1/files", strings.Repeat("[", 200), func(r *prompt.Reading) { r.Opaque = "not JSON that can be read" }},
		{"empty at an unknown path", "/v1/files", ``, func(*prompt.Reading) {}},
		{"no form", "/v1/audio/transcriptions", `{"model":"m"}`, func(r *prompt.Reading) { r.Opaque = "not a multipart form" }},
		{"depth 128", chat, `{"x":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}`, func(*prompt.Reading) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := blank(prompt.KindOf(c.path))
			c.want(&want)
			got := read(t, c.path, c.body)
			if diff := cmp.Diff(want, *got, cmpopts.IgnoreFields(prompt.Reading{}, "Prompt"), cmpopts.IgnoreUnexported(prompt.Reading{})); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		reason           prompt.Reason
		param            string
	}{
		{"A2 plain text", completions, `no healthy upstream`, prompt.BadJSON, ""},
		{"B030 zero length", chat, ``, prompt.BadJSON, ""},
		{"cut short", chat, `{"model":"m"`, prompt.BadJSON, ""},
		{"two values", chat, `{"model":"m"}{"model":"n"}`, prompt.BadJSON, ""},
		{"raw newline", chat, "{\"model\":\"m\n\"}", prompt.BadJSON, ""},
		{"NaN", chat, `{"temperature":NaN}`, prompt.BadJSON, ""},
		{"B033 model of a number", chat, `{"model":123}`, prompt.BadModel, "model"},
		{"B033 model of an object", chat, `{"model":{"a":1}}`, prompt.BadModel, "model"},
		{"absurd model", chat, `{"model":"` + strings.Repeat("m", 1025) + `"}`, prompt.BadModel, "model"},
		{"B029 model twice", chat, `{"model":"cheap","messages":[],"model":"dear"}`, prompt.DuplicateKey, "model"},
		{"B029 model twice, once escaped", chat, `{"model":"cheap","messages":[],"mod\u0065l":"dear"}`, prompt.DuplicateKey, `mod\u0065l`},
		{"B029 messages twice", chat, `{"messages":[],"messages":[]}`, prompt.DuplicateKey, "messages"},
		{"B029 prompt twice", completions, `{"prompt":"a","prompt":"b"}`, prompt.DuplicateKey, "prompt"},
		{"B029 input twice", embeddings, `{"input":"a","input":"b"}`, prompt.DuplicateKey, "input"},
		{"B231 depth 129", chat, `{"x":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`, prompt.TooDeep, ""},
		{"B231 a million arrays", chat, `{"x":` + strings.Repeat("[", 1e6) + strings.Repeat("]", 1e6) + `}`, prompt.TooDeep, ""},
		{"B231 31k objects", chat, strings.Repeat(`{"a":`, 31e3) + "1" + strings.Repeat("}", 31e3), prompt.TooDeep, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parser(t).Read(prompt.Input{Path: c.path, Body: []byte(c.body)})
			var refused *prompt.Error
			if !errors.As(err, &refused) {
				t.Fatal(err)
			}
			if refused.Reason != c.reason || refused.Param != c.param {
				t.Errorf("reason %q, param %q: %v", refused.Reason, refused.Param, err)
			}
		})
	}
}

// B209: no error quotes the body.
func TestB209ErrorsDoNotQuoteTheBody(t *testing.T) {
	for _, body := range []string{`MARKER`, `{"MARKER":"MARKER"`, `{"model":"MARKER","model":"MARKER"}`, "{\"messages\":\"MARKER\x01\"}", `{"a":MARKER}`} {
		_, err := parser(t).Read(prompt.Input{Path: chat, Body: []byte(body)})
		if err == nil || strings.Contains(err.Error(), "MARKER") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// B021: the model of an audio request is in the form.
func TestB021MultipartForm(t *testing.T) {
	form := func(fields ...string) (body []byte, contentType string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		f, err := w.CreateFormFile("file", "a.mp3")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(bytes.Repeat([]byte{0xff, '\r', '\n', '-', '-'}, 156_000)); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(fields); i += 2 {
			if err := w.WriteField(fields[i], fields[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes(), w.FormDataContentType()
	}
	for _, c := range []struct {
		name   string
		fields []string
		cut    int
		typ    string
		want   func(r *prompt.Reading)
		reason prompt.Reason
	}{
		{name: "model and stream", fields: []string{"prompt", "p", "model", "whisper", "stream", "True"}, want: func(r *prompt.Reading) { r.Model, r.Stream = "whisper", true }},
		{name: "no model", fields: []string{"prompt", "p"}, want: func(*prompt.Reading) {}},
		{name: "cut short", fields: []string{"model", "m"}, cut: 400, want: func(r *prompt.Reading) { r.Opaque = "multipart form that is cut short" }},
		{name: "no boundary", typ: "multipart/form-data", want: func(r *prompt.Reading) { r.Opaque = "multipart form without a boundary" }},
		{name: "model twice", fields: []string{"model", "a", "model", "b"}, reason: prompt.DuplicateKey},
		{name: "absurd model", fields: []string{"model", strings.Repeat("m", 2000)}, reason: prompt.BadModel},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, typ := form(c.fields...)
			if c.typ != "" {
				typ = c.typ
			}
			got, err := parser(t).Read(prompt.Input{Path: "/v1/audio/transcriptions", ContentType: typ, Body: body[:len(body)-c.cut]})
			if reason(err) != c.reason {
				t.Fatal(err)
			}
			if c.reason != "" {
				return
			}
			want := blank(prompt.Form)
			c.want(&want)
			if diff := cmp.Diff(want, *got, cmpopts.IgnoreFields(prompt.Reading{}, "Prompt"), cmpopts.IgnoreUnexported(prompt.Reading{})); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestKindOf(t *testing.T) {
	for path, want := range map[string]prompt.Kind{
		"": prompt.Shape, "/v1/chat/completions": prompt.Chat, "/v1/chat/completions/": prompt.Chat, "/openai/deployments/x/chat/completions": prompt.Chat,
		"/v1/completions": prompt.Completions, "/v1/embeddings": prompt.Embeddings, "/pooling": prompt.Embeddings, "/v1/responses": prompt.Responses,
		"/v1/responses/resp_1": prompt.Unknown, "/v1/messages": prompt.Messages, "/v1/threads/t/messages": prompt.Unknown, "/v1/messages/count_tokens": prompt.Tokenize,
		"/v1/rerank": prompt.Rerank, "/score": prompt.Rerank, "/tokenize": prompt.Tokenize, "/invocations": prompt.Shape, "/v1/audio/translations": prompt.Form, "/v1/models": prompt.Unknown,
	} {
		if got := prompt.KindOf(path); got != want {
			t.Errorf("%q: %d, want %d", path, got, want)
		}
	}
	for k, want := range map[prompt.Kind][2]bool{
		prompt.Chat: {true, true}, prompt.Embeddings: {true, true}, prompt.Rerank: {true, false}, prompt.Tokenize: {true, false},
		prompt.Form: {false, false}, prompt.Unknown: {false, false}, prompt.Shape: {false, false},
	} {
		if got := [2]bool{k.NeedsJSON(), k.NeedsModel()}; got != want {
			t.Errorf("kind %d needs JSON and model: %v, want %v", k, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := prompt.DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	_, err := prompt.NewParser(prompt.Config{MaxDepth: 2000, MaxDecodedBytes: -1})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, key := range []string{"maxDepth 2000", "maxDecodedBytes -1"} {
		if !strings.Contains(fmt.Sprint(err), key) {
			t.Errorf("%s is not named: %v", key, err)
		}
	}
}
