package usage_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pointsman/pointsman/services/router/internal/usage"
)

const (
	sse     = "text/event-stream"
	jsonDoc = "application/json"
)

// result is all that a Reader tells.
type result struct {
	usage.Counts
	Generated, Done bool
}

func none() result { return result{Counts: usage.None()} }

func counts(prompt, cached, output, total int64) result {
	return result{Counts: usage.Counts{Prompt: prompt, Cached: cached, Output: output, Total: total}}
}

func (r result) generated() result { r.Generated = true; return r }
func (r result) done() result      { r.Done = true; return r }

func feed(typ string, chunks ...string) result {
	r := usage.New(typ, "")
	for _, c := range chunks {
		r.Feed([]byte(c))
	}
	return result{Counts: r.Counts(), Generated: r.Generated(), Done: r.Done()}
}

var cases = []struct {
	name, typ string
	chunks    []string
	want      result
}{
	{"C19 JSON", jsonDoc, []string{`{"id":"x","choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":9}"}}],"usage":{"prompt_tokens":11,"total_tokens":111,"completion_tokens":100}}`}, counts(11, -1, 100, 111)},
	{"C20 prompt_token_details", jsonDoc, []string{`{"usage":{"prompt_tokens":11,"completion_tokens":100,"total_tokens":111,"prompt_token_details":{"cached_tokens":10}}}`}, counts(11, 10, 100, 111)},
	{"C20 prompt_tokens_details", jsonDoc, []string{`{"usage":{"prompt_tokens":11,"completion_tokens":100,"total_tokens":111,"prompt_tokens_details":{"audio_tokens":0,"cached_tokens":10}}}`}, counts(11, 10, 100, 111)},
	{"C22 usage null", sse, []string{"data: {\"choices\":[],\"usage\":null}\n\n"}, none()},
	{"C23 usage and [DONE] in a chunk", sse, []string{"data: {\"id\":\"c\",\"usage\":{\"prompt_tokens\":7,\"total_tokens\":17,\"completion_tokens\":10}}\ndata: [DONE]\n\n"}, counts(7, -1, 10, 17).done()},
	{"C23 with empty lines", sse, []string{"data: {\"usage\":{\"prompt_tokens\":7,\"total_tokens\":17,\"completion_tokens\":10}}\n\ndata: [DONE]\n\n"}, counts(7, -1, 10, 17).done()},
	{"C25, B035 content, usage, [DONE] in three chunks", sse, []string{
		"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n", "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":10,\"total_tokens\":15}}\n\n", "data: [DONE]\n\n"},
		counts(5, -1, 10, 15).generated().done()},
	{"C26 content, [DONE]", sse, []string{"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n", "data: [DONE]\n\n"}, none().generated().done()},
	{"C28 unknown object", jsonDoc, []string{`{"object":"unknown","usage":{"input_tokens":5,"completion_tokens":5,"total_tokens":10}}`}, counts(5, -1, 5, 10)},
	{"C29, B039 responses stream", sse, []string{"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"usage\":{\"input_tokens\":31,\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":3,\"total_tokens\":34}}}\n\n"},
		counts(31, 0, 3, 34).done()},
	{"C31 delta and completed in a chunk", sse, []string{"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":39,\"output_tokens\":10,\"total_tokens\":49}}}\n\n"},
		counts(39, -1, 10, 49).generated().done()},
	{"C32 one literal line", sse, []string{`data: {bad-json}\ndata: {"usage":{"prompt_tokens":1}}` + "\n\n"}, none()},
	{"bad JSON, then good", sse, []string{"data: {bad-json}\ndata: {\"usage\":{\"prompt_tokens\":1}}\n\n"}, counts(1, -1, -1, -1)},
	{"B015 SSE of nothing", sse, []string{"data: {}\n\n", ""}, none()},
	{"B036 an event in halves", sse, []string{"data: {\"id\":\"x\",\"cho", "ices\":[],\"usage\":{\"prompt_tokens\":1", "2}}\n", "\n"}, counts(12, -1, -1, -1)},
	{"B039 as reported", sse, []string{`data: {"type":"response.completed","response":{"usage":{"input_tokens":9,"output_tokens":3,"total_tokens":12}}}` + "\n\n"}, counts(9, -1, 3, 12).done()},
	{"B009 embeddings: no completion tokens", jsonDoc, []string{`{"object":"list","data":[{"embedding":[0.1,0.2]}],"usage":{"prompt_tokens":4,"total_tokens":4}}`}, counts(4, -1, -1, 4)},
	{"B051 long lines", sse, []string{"data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("a", 100_000) + "\"}}]}\n\n", "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"arguments\":\"" + strings.Repeat("b", 1_500_000), "\"}]}}],\"usage\":{\"prompt_tokens\":3}}\n\n"},
		counts(3, -1, -1, -1).generated()},
	{"responses JSON", jsonDoc, []string{`{"object":"response","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":3,"total_tokens":12}}`}, counts(9, 4, 3, 12)},
	{"anthropic stream", sse, []string{
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"cache_read_input_tokens\":30,\"cache_creation_input_tokens\":2,\"output_tokens\":1}}}\n\n",
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
		counts(42, 30, 15, -1).generated().done()},
	{"the last usage wins, nothing overwrites", sse, []string{"data: {\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\ndata: {\"usage\":{\"completion_tokens\":2}}\n\ndata: {\"usage\":{}}\n\ndata: {\"usage\":null}\n\n"}, counts(5, -1, 2, -1)},
	{"CR LF", sse, []string{"data: {\"usage\":{\"prompt_tokens\":5}}\r\n\r\ndata: [DONE]\r\n\r\n"}, counts(5, -1, -1, -1).done()},
	{"no space after the colon", sse, []string{"data:{\"usage\":{\"prompt_tokens\":5}}\n\ndata:[DONE]\n\n"}, counts(5, -1, -1, -1).done()},
	{"a value over several lines", sse, []string{"data: {\"usage\":\ndata: {\"prompt_tokens\":5}\ndata: }\n\n"}, counts(5, -1, -1, -1)},
	{"half a value, then another event", sse, []string{"data: {\"usage\":{\n\ndata: {\"usage\":{\"prompt_tokens\":5}}\n\n"}, counts(5, -1, -1, -1)},
	{"comments and other fields", sse, []string{": ping\n\nevent: x\nid: data: {\"usage\":{\"prompt_tokens\":5}}\nretry: 1\ndatum: 2\nda\n\n"}, none()},
	{"no line end at the end", sse, []string{"data: {\"usage\":{\"prompt_tokens\":5}}"}, counts(5, -1, -1, -1)},
	{"[DONE] as text", sse, []string{"data: {\"choices\":[{\"delta\":{\"content\":\"[DONE]\"}}]}\n\ndata: [DONE]x\n\ndata: \"[DONE]\"\n\n"}, none().generated()},
	{"usage elsewhere", jsonDoc, []string{`{"choices":[{"usage":{"prompt_tokens":1}}],"x":{"usage":{"prompt_tokens":2}}}`}, none()},
	{"figures that are none", jsonDoc, []string{`{"usage":{"prompt_tokens":"5","completion_tokens":1.5,"total_tokens":-1,"prompt_tokens_details":null,"x":{"prompt_tokens":3}}}`}, none()},
	{"figures out of range", jsonDoc, []string{`{"usage":{"prompt_tokens":99999999999999999999}}`}, none()},
	{"not JSON", jsonDoc, []string{`no healthy upstream`}, none()},
	{"empty", jsonDoc, nil, none()},
	{"array", jsonDoc, []string{`[{"usage":{"prompt_tokens":5}}]`}, none()},
	{"B231 deep answer", jsonDoc, []string{`{"a":` + strings.Repeat("[", 1000)}, none()},

	{"B211 role-only first event", sse, []string{"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[]},\"finish_reason\":null}]}\n\n"}, none()},
	{"B211 reasoning before text", sse, []string{"data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"}, none().generated()},
	{"B211 tool call", sse, []string{"data: {\"choices\":[{\"delta\":{\"content\":null,\"tool_calls\":[{\"index\":0}]}}]}\n\n"}, none().generated()},
	{"completions text", sse, []string{"data: {\"choices\":[{\"text\":\"a\"}]}\n\n"}, none().generated()},
	{"completions empty text", sse, []string{"data: {\"choices\":[{\"text\":\"\"}]}\n\n"}, none()},
	{"finish reason alone", sse, []string{"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"}, none().generated()},
	{"responses reasoning delta", sse, []string{"data: {\"type\":\"response.reasoning_text.delta\",\"delta\":\"x\"}\n\n"}, none().generated()},
	{"responses created", sse, []string{"data: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n"}, none()},
	{"escaped key", jsonDoc, []string{`{"us\u0061ge":{"prompt_tokens":5}}`}, counts(5, -1, -1, -1)},
}

func TestReader(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, feed(c.typ, c.chunks...)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// B036: the same is read wherever the answer is cut, and byte by byte.
func TestB036EveryCut(t *testing.T) {
	for _, c := range cases {
		all := strings.Join(c.chunks, "")
		if len(all) > 4000 {
			continue
		}
		for cut := range len(all) + 1 {
			if diff := cmp.Diff(c.want, feed(c.typ, all[:cut], all[cut:])); diff != "" {
				t.Fatalf("%s cut at %d: %s", c.name, cut, diff)
			}
		}
		if diff := cmp.Diff(c.want, feed(c.typ, strings.Split(all, "")...)); diff != "" {
			t.Fatalf("%s byte by byte: %s", c.name, diff)
		}
	}
}

func FuzzCuts(f *testing.F) {
	for _, c := range cases {
		if all := strings.Join(c.chunks, ""); len(all) < 4000 {
			f.Add(all, uint(len(all)/2), c.typ == sse)
		}
	}
	f.Fuzz(func(t *testing.T, all string, cut uint, stream bool) {
		typ := jsonDoc
		if stream {
			typ = sse
		}
		at := int(cut % uint(len(all)+1))
		whole := feed(typ, all)
		if diff := cmp.Diff(whole, feed(typ, all[:at], all[at:])); diff != "" {
			t.Fatalf("cut at %d: %s", at, diff)
		}
		if diff := cmp.Diff(whole, feed(typ, strings.Split(all, "")...)); diff != "" && strings.ToValidUTF8(all, "") == all {
			t.Fatalf("by characters: %s", diff)
		}
	})
}

func TestFormats(t *testing.T) {
	body := "data: {\"usage\":{\"prompt_tokens\":5}}\n\n"
	for _, c := range []struct {
		typ, encoding string
		streams       bool
	}{
		{"text/event-stream", "", true},
		{"Text/Event-Stream; charset=utf-8", "identity", true},
		{"text/event-stream", "gzip", false},
		{"text/plain", "", false},
		{"", "", false},
		{"application/json", "", false},
	} {
		r := usage.New(c.typ, c.encoding)
		r.Feed([]byte(body))
		if got := r.Counts().Prompt == 5; got != c.streams || r.Streams() != c.streams {
			t.Errorf("%+v: read %v, streams %v", c, got, r.Streams())
		}
	}
	for _, typ := range []string{"application/json", "application/problem+json; charset=utf-8"} {
		r := usage.New(typ, "")
		r.Feed([]byte(`{"usage":{"prompt_tokens":5}}`))
		if r.Counts().Prompt != 5 {
			t.Errorf("%s was not read", typ)
		}
	}
}

func BenchmarkFeed(b *testing.B) {
	event := []byte(`data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"m","choices":[{"index":0,"delta":{"content":" fox"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	answer := []byte(`{"id":"chatcmpl-123","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("the quick brown fox ", 200) + `"}}],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}`)
	for _, c := range []struct {
		name, typ string
		chunk     []byte
	}{{"event", sse, event}, {"answer", jsonDoc, answer}} {
		b.Run(fmt.Sprintf("%s/%dB", c.name, len(c.chunk)), func(b *testing.B) {
			r := usage.New(c.typ, "")
			b.ReportAllocs()
			b.SetBytes(int64(len(c.chunk)))
			for b.Loop() {
				if c.typ == jsonDoc {
					r = usage.New(c.typ, "")
				}
				r.Feed(c.chunk)
			}
		})
	}
}
