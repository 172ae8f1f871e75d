package modelserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/sim/token"
)

const hello = `{"model":"sim-model","messages":[{"role":"user","content":"Hello"}],"max_tokens":3,"ignore_eos":true}`

// volatile are the parts of an answer that differ from run to run.
var volatile = regexp.MustCompile(`"created":\d+`)

func TestChat(t *testing.T) {
	x := start(t, nil)
	resp, got := x.call("POST", "/v1/chat/completions", hello, "X-Request-Id", "abc")
	want := `{"id":"chatcmpl-abc","object":"chat.completion","created":0,"model":"sim-model","choices":[{"index":0,"message":` +
		`{"role":"assistant","content":"Ojif jus guk"},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":11,` +
		`"total_tokens":14,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}}`
	if diff := cmp.Diff(want, volatile.ReplaceAllString(got, `"created":0`)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "X-Request-Id": "abc", "X-Sim-Server": x.Address(), "Content-Length": fmt.Sprint(len(got)),
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("header %s: %q, want %q", name, got, want)
		}
	}
	if resp, _ := x.call("POST", "/v1/chat/completions", hello); len(resp.Header.Get("X-Request-Id")) != 32 {
		t.Errorf("no request id was made up: %q", resp.Header.Get("X-Request-Id"))
	}
}

func TestChatStream(t *testing.T) {
	x := start(t, nil)
	whole := post[wholeBody](x, "/v1/chat/completions", hello, 200)
	for _, withUsage := range []bool{false, true} {
		t.Run(fmt.Sprintf("usage=%v", withUsage), func(t *testing.T) {
			body := strings.TrimSuffix(hello, "}") + fmt.Sprintf(`,"stream":true,"stream_options":{"include_usage":%v}}`, withUsage)
			chunks := x.streamed("/v1/chat/completions", body)
			if withUsage {
				last := chunks[len(chunks)-1]
				chunks = chunks[:len(chunks)-1]
				if last.Usage == nil || len(last.Choices) != 0 {
					t.Fatalf("last chunk %+v, want the usage and no choices", last)
				}
				if last.Usage.CompletionTokens != 3 || last.Usage.PromptTokens != whole.Usage.PromptTokens {
					t.Errorf("usage %+v, want that of the whole answer, %+v", last.Usage, whole.Usage)
				}
			}
			if len(chunks) != 5 { // role, three tokens, finish
				t.Fatalf("%d chunks, want 5: %+v", len(chunks), chunks)
			}
			text := ""
			for i, c := range chunks {
				if c.Object != "chat.completion.chunk" || c.ID != chunks[0].ID || c.Model != "sim-model" || c.Usage != nil || len(c.Choices) != 1 {
					t.Errorf("chunk %d: %+v", i, c)
				}
				d := c.Choices[0].Delta
				if (d.Role == "assistant") != (i == 0) {
					t.Errorf("chunk %d: role %q", i, d.Role)
				}
				if d.Content != nil {
					text += *d.Content
				}
				if f := c.Choices[0].FinishReason; (f != nil) != (i == 4) || f != nil && *f != "length" {
					t.Errorf("chunk %d: finish reason %v", i, f)
				}
			}
			if want := whole.Choices[0].Message.Content; text != want {
				t.Errorf("streamed %q, whole %q", text, want)
			}
		})
	}
}

func TestCompletions(t *testing.T) {
	x := start(t, nil)
	for _, c := range []struct {
		name, prompt  string
		choices, size int
	}{
		{"a string", `"Once upon a time"`, 1, 4},
		{"strings", `["Once upon a time", "Hey", "x"]`, 3, 6},
		{"token ids", `[5,6,7,8,9]`, 1, 5},
		{"lists of token ids", `[[5,6],[7,8,9]]`, 2, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := `{"model":"sim-model","prompt":` + c.prompt + `,"max_tokens":4,"ignore_eos":true`
			whole := post[wholeBody](x, "/v1/completions", body+"}", 200)
			if len(whole.Choices) != c.choices || whole.Usage.PromptTokens != c.size || whole.Usage.CompletionTokens != 4*c.choices {
				t.Errorf("%d choices, usage %+v; want %d and %d prompt tokens", len(whole.Choices), whole.Usage, c.choices, c.size)
			}
			texts, finished := make([]string, c.choices), make([]bool, c.choices)
			for _, chunk := range x.streamed("/v1/completions", body+`,"stream":true}`) {
				choice := chunk.Choices[0]
				texts[choice.Index] += choice.Text
				finished[choice.Index] = choice.FinishReason != nil
			}
			for i, choice := range whole.Choices {
				if choice.Index != i || *choice.Text != texts[i] || !finished[i] || len(texts[i]) != 16 {
					t.Errorf("choice %d: %q whole, %q streamed, finished %v", i, *choice.Text, texts[i], finished[i])
				}
			}
		})
	}
}

func TestLimits(t *testing.T) {
	x := start(t, func(c *Config) { c.MinAnswer, c.MaxAnswer = 20, 20 })
	for _, c := range []struct {
		name, params string
		tokens       int
		reason       string
	}{
		{"natural length", ``, 20, "stop"},
		{"max_tokens below it", `,"max_tokens":7`, 7, "length"},
		{"max_tokens above it", `,"max_tokens":30`, 20, "stop"},
		{"max_completion_tokens wins", `,"max_tokens":7,"max_completion_tokens":5`, 5, "length"},
		{"ignore_eos", `,"max_tokens":30,"ignore_eos":true`, 30, "length"},
		{"min_tokens", `,"min_tokens":25`, 25, "stop"},
		{"null is not a limit", `,"max_tokens":null,"stream":false,"n":1`, 20, "stop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := post[wholeBody](x, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]`+c.params+`}`, 200)
			if got.Usage.CompletionTokens != c.tokens || got.Choices[0].FinishReason != c.reason {
				t.Errorf("%d tokens, %s; want %d, %s", got.Usage.CompletionTokens, got.Choices[0].FinishReason, c.tokens, c.reason)
			}
			if n := len(token.AppendText(nil, got.Choices[0].Message.Content)); n != c.tokens {
				t.Errorf("the text has %d tokens, the usage says %d", n, c.tokens)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	x := start(t, func(c *Config) { c.Engine.MaxModelLen = 100 })
	long := strings.Repeat("word", 120)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		kind, says               string
	}{
		{"unknown model", "POST", "/v1/chat/completions", `{"model":"gpt","messages":[{"role":"user","content":"x"}]}`, 404, "NotFoundError", "`gpt` does not exist"},
		{"unknown model, embeddings", "POST", "/v1/embeddings", `{"model":"gpt","input":"x"}`, 404, "NotFoundError", "`gpt`"},
		{"no JSON", "POST", "/v1/chat/completions", `{"model":`, 400, "BadRequestError", "not understood"},
		{"no messages", "POST", "/v1/chat/completions", `{}`, 400, "BadRequestError", "messages"},
		{"content of no known shape", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":5}]}`, 400, "BadRequestError", "content"},
		{"no prompt", "POST", "/v1/completions", `{"prompt":[]}`, 400, "BadRequestError", "prompt"},
		{"empty prompt", "POST", "/v1/completions", `{"prompt":""}`, 400, "BadRequestError", "empty_prompt"},
		{"mixed prompt", "POST", "/v1/completions", `{"prompt":[1,"a"]}`, 400, "BadRequestError", "token ids"},
		{"no tokens", "POST", "/v1/completions", `{"prompt":"a","max_tokens":0}`, 400, "BadRequestError", "at least 1"},
		{"two answers", "POST", "/v1/completions", `{"prompt":"a","n":2}`, 400, "BadRequestError", "n must be 1"},
		{"answer too long", "POST", "/v1/completions", `{"prompt":"a","max_tokens":100}`, 400, "BadRequestError", "requested 101 tokens"},
		{"prompt too long", "POST", "/v1/completions", `{"prompt":"` + long + `"}`, 400, "BadRequestError", "maximum context length is 100"},
		{"input too long", "POST", "/v1/embeddings", `{"input":"` + long + `"}`, 400, "BadRequestError", "maximum context length is 100"},
		{"no input", "POST", "/v1/embeddings", `{"input":[]}`, 400, "BadRequestError", "input"},
		{"too many dimensions", "POST", "/v1/embeddings", `{"input":"a","dimensions":1000}`, 400, "BadRequestError", "dimensions"},
		{"unknown encoding", "POST", "/v1/embeddings", `{"input":"a","encoding_format":"hex"}`, 400, "BadRequestError", "hex"},
		{"nothing to tokenize", "POST", "/tokenize", `{}`, 400, "BadRequestError", "prompt"},
		{"adapters without slots", "POST", "/v1/load_lora_adapter", `{"lora_name":"a","lora_path":"/a"}`, 400, "BadRequestError", "without LoRA"},
		{"unknown path", "GET", "/v1/nothing", ``, 404, "NotFoundError", "GET /v1/nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, text := x.call(c.method, c.path, c.body)
			var got errorBody
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			if resp.StatusCode != c.status || got.Error.Code != c.status || got.Error.Type != c.kind || !strings.Contains(got.Error.Message, c.says) {
				t.Errorf("status %d, %s; want %d, %s with %q", resp.StatusCode, text, c.status, c.kind, c.says)
			}
		})
	}
	if s := x.Stats(); s.Running+s.Waiting+s.BlocksUsed != 0 || s.GenerationTokens != 0 {
		t.Errorf("refused requests left something: %+v", s)
	}
}

func TestEmbeddings(t *testing.T) {
	x := start(t, nil)
	type item struct{ Embedding []float32 }
	type body struct {
		Data  []item
		Usage usage
	}
	got := post[body](x, "/v1/embeddings", `{"model":"sim-model","input":["hello","world","hello"]}`, 200)
	if len(got.Data) != 3 || got.Usage.PromptTokens != 6 || got.Usage.CompletionTokens != 0 {
		t.Fatalf("%d embeddings, usage %+v", len(got.Data), got.Usage)
	}
	square := 0.0
	for _, v := range got.Data[0].Embedding {
		square += float64(v) * float64(v)
	}
	if len(got.Data[0].Embedding) != 64 || math.Abs(square-1) > 1e-5 {
		t.Errorf("%d dimensions, length² %v", len(got.Data[0].Embedding), square)
	}
	if !cmp.Equal(got.Data[0], got.Data[2]) || cmp.Equal(got.Data[0], got.Data[1]) {
		t.Error("equal texts must have equal embeddings, others not")
	}
	short := post[body](x, "/v1/embeddings", `{"input":"hello","dimensions":8}`, 200)
	if len(short.Data[0].Embedding) != 8 {
		t.Errorf("%d dimensions, want 8", len(short.Data[0].Embedding))
	}
	coded := post[struct{ Data []struct{ Embedding string } }](x, "/v1/embeddings", `{"input":[1,2,3],"encoding_format":"base64"}`, 200)
	if b, err := base64.StdEncoding.DecodeString(coded.Data[0].Embedding); err != nil || len(b) != 4*64 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if s := x.Stats(); s.GenerationTokens != 0 || s.PromptTokens != 6+2+3 {
		t.Errorf("prompt tokens %d, generated %d; want 11 and 0", s.PromptTokens, s.GenerationTokens)
	}
}

func TestModelsAndAdapters(t *testing.T) {
	x := start(t, func(c *Config) { c.Adapters, c.Engine.MaxAdapters = []string{"lora-a"}, 2 })
	names := func() (ids []string) {
		_, text := x.call("GET", "/v1/models", "")
		var list modelList
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		for i, m := range list.Data {
			ids = append(ids, m.ID)
			if (i == 0) != (m.Parent == nil) || m.Parent != nil && *m.Parent != "sim-model" {
				t.Errorf("model %s has parent %v", m.ID, m.Parent)
			}
		}
		return ids
	}
	ask := func(model string, status int) {
		t.Helper()
		post[any](x, "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"x"}]}`, status)
	}
	if diff := cmp.Diff([]string{"sim-model", "lora-a"}, names()); diff != "" {
		t.Errorf("models: %s", diff)
	}
	ask("lora-a", 200)
	ask("lora-b", 404)
	x.call("POST", "/v1/load_lora_adapter", `{"lora_name":"lora-b","lora_path":"/b"}`)
	ask("lora-b", 200)
	x.call("POST", "/v1/unload_lora_adapter", `{"lora_name":"lora-a"}`)
	ask("lora-a", 404)
	if diff := cmp.Diff([]string{"sim-model", "lora-b"}, names()); diff != "" {
		t.Errorf("models: %s", diff)
	}
	for body, status := range map[string]int{`{"lora_name":"lora-b","lora_path":"/b"}`: 400, `{"lora_name":"x"}`: 400} {
		post[errorBody](x, "/v1/load_lora_adapter", body, status)
	}
	post[errorBody](x, "/v1/unload_lora_adapter", `{"lora_name":"x"}`, 404)
}

func TestTokenize(t *testing.T) {
	x := start(t, nil)
	type body struct {
		Count       int
		MaxModelLen int `json:"max_model_len"`
		Tokens      []token.Token
	}
	got := post[body](x, "/tokenize", `{"model":"sim-model","prompt":"Hello, world"}`, 200)
	if diff := cmp.Diff(body{3, 32768, token.AppendText(nil, "Hello, world")}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	chat := post[body](x, "/tokenize", hello, 200)
	if want := post[wholeBody](x, "/v1/chat/completions", hello, 200).Usage.PromptTokens; chat.Count != want {
		t.Errorf("a chat has %d tokens, its answer says %d", chat.Count, want)
	}
}

func TestContentParts(t *testing.T) {
	x := start(t, nil)
	size := func(message string) int {
		return post[wholeBody](x, "/v1/chat/completions", `{"messages":[`+message+`],"max_tokens":1}`, 200).Usage.PromptTokens
	}
	text := size(`{"role":"user","content":"look here"}`)
	if got := size(`{"role":"user","content":[{"type":"text","text":"look here"}]}`); got != text {
		t.Errorf("a text part has %d tokens, the text %d", got, text)
	}
	if got := size(`{"role":"user","content":[{"type":"text","text":"look here"},{"type":"image_url","image_url":{"url":"data:x"}}]}`); got != text+token.MediaTokens {
		t.Errorf("with an image %d tokens, want %d more than %d", got, token.MediaTokens, text)
	}
	if size(`{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}`) <= size(`{"role":"assistant","content":null,"tool_calls":null}`) {
		t.Error("tool calls are not in the prompt")
	}
	if got := size(`{"role":"user","content":"look here"}],"tools":[{"type":"function"}`); got <= text {
		t.Error("tools are not in the prompt")
	}
}
