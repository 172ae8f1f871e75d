package prompt_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

var _ route.Prompt = (*prompt.Prompt)(nil)

const (
	chat        = "/v1/chat/completions"
	completions = "/v1/completions"
	embeddings  = "/v1/embeddings"
	responses   = "/v1/responses"
	messages    = "/v1/messages"
)

func parser(t testing.TB) *prompt.Parser {
	t.Helper()
	p, err := prompt.NewParser(prompt.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func read(t testing.TB, path, body string) *prompt.Reading {
	t.Helper()
	out, err := parser(t).Read(prompt.Input{Path: path, Body: []byte(body)})
	if err != nil {
		t.Fatalf("%s %s: %v", path, body, err)
	}
	return out
}

// canonical shows a prompt with frames as <letter>.
func canonical(p *prompt.Prompt) string {
	if p == nil {
		return "none"
	}
	text, out := p.Text(), ""
	for {
		before, after, found := strings.Cut(text, "\x1e")
		out += before
		if !found {
			return out
		}
		if after[0] == 0x1e {
			out += "<RS>"
		} else {
			out += "<" + after[:1] + ">"
		}
		text = after[1:]
	}
}

func TestGoldenChain(t *testing.T) {
	p := read(t, completions, `{"model":"m","prompt":"`+strings.Repeat("x", 256)+`"}`).Prompt
	want := []uint64{0xe764d651d54e82bf, 0x49a63b97a7cef4cc, 0x10cc8d2ebbf8d47b, 0x40def5e5d3fbfc9f}
	if diff := cmp.Diff(want, p.Blocks(64, 256)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[:2], p.Blocks(64, 2)); diff != "" {
		t.Error("a shorter limit is not a prefix:", diff)
	}
	if got := p.Blocks(257, 4); len(got) != 0 {
		t.Error("the trailing partial block was hashed:", got)
	}
	for _, bad := range [][2]int{{0, 4}, {-1, 4}, {64, 0}, {64, -1}} {
		if got := p.Blocks(bad[0], bad[1]); got != nil {
			t.Error(bad, got)
		}
	}
	// A longer chain after a shorter one of the same size, and another size.
	q := read(t, completions, `{"model":"m","prompt":"`+strings.Repeat("x", 256)+`"}`).Prompt
	if diff := cmp.Diff(want[:1], q.Blocks(64, 1)); diff != "" {
		t.Error(diff)
	}
	if n := len(q.Blocks(128, 9)); n != 2 {
		t.Error("blocks of 128:", n)
	}
	if diff := cmp.Diff(want, q.Blocks(64, 4)); diff != "" {
		t.Error(diff)
	}
}

func TestCanonical(t *testing.T) {
	long := strings.Repeat("QUJD", 100)
	for _, c := range []struct{ name, path, body, want string }{
		{"I2 prompt", completions, `{"model":"m","prompt":"test prompt"}`, "test prompt"},
		{"chat", chat, `{"messages":[{"role":"system","content":"be kind"},{"role":"user","content":"hi"}]}`, "<m>system<c>be kind<m>user<c>hi"},
		{"key order in a message", chat, `{"messages":[{"content":"hi","name":"bob","role":"user"}]}`, "<m>user<n>bob<c>hi"},
		{"tools come first", chat, `{"messages":[{"role":"user","content":"hi"}],"tools":[ {"a" : 1} ]}`, `<T>[{"a":1}]<m>user<c>hi`},
		{"no tools", chat, `{"tools":[],"functions":null,"messages":[{"role":"user","content":"hi"}]}`, "<m>user<c>hi"},
		{"functions, documents, template", chat, `{"messages":[{"role":"user","content":"x"}],"chat_template":"t","documents":[1],"functions":[2]}`, `<F>[2]<D>[1]<K>"t"<m>user<c>x`},
		{"B001 no prompt field", chat, `{"model":"m","temperature":0,"messages":[{"role":"user","content":"hi"}]}`, "<m>user<c>hi"},
		{"B002 text parts", chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]}`, "<m>user<c>a<c>b<m>user<c>c"},
		{"B004 tool result turn", chat, `{"messages":[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"c1", "type":"function"}]},{"role":"tool","tool_call_id":"c1","content":"[{\"a\":1}]"}]}`,
			`<m>user<c>q<m>assistant<k>[{"id":"c1","type":"function"}]<m>tool<c>[{"a":1}]<i>"c1"`},
		{"absent, null and empty content", chat, `{"messages":[{"role":"a"},{"role":"b","content":null},{"role":"c","content":""},{"role":"d","content":[]}]}`, "<m>a<m>b<m>c<m>d"},
		{"function_call", chat, `{"messages":[{"role":"assistant","function_call":{"name":"f"},"tool_calls":null}]}`, `<m>assistant<f>{"name":"f"}`},
		{"B006 list of strings", completions, `{"prompt":["a","b","","c"]}`, "a<p>b<p><p>c"},
		{"B006 list of one", completions, `{"prompt":["a"]}`, "a"},
		{"B009 input list", embeddings, `{"input":["a","b"]}`, "a<p>b"},
		{"B009 input string", embeddings, `{"input":"a"}`, "a"},
		{"embeddings of messages", embeddings, `{"messages":[{"role":"user","content":"hi"}]}`, "<m>user<c>hi"},
		{"B010 responses list", responses, `{"input":[{"role":"user","content":"Hello"}],"max_tokens":50}`, "<m>user<c>Hello"},
		{"B010 responses string", responses, `{"input":"Hello","instructions":"be kind"}`, "<m>system<c>be kind<m>user<c>Hello"},
		{"responses items", responses, `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]},{"type":"function_call","name":"f"},{"type":"function_call_output","output":"o"}]}`,
			`<m>user<c>q<v>{"type":"function_call","name":"f"}<v>{"type":"function_call_output","output":"o"}`},
		{"B012 unknown image part", chat, `{"messages":[{"role":"user","content":[{"type":"image","image":"data:image;base64,/9j/.."},{"type":"text","text":"Describe"}]}]}`,
			`<m>user<x>{"type":"image","image":"data:image;base64,/9j/.."}<c>Describe`},
		{"media is digested", chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + long + `"}}]}]}`,
			`<m>user<x>{"type":"image_url","image_url":{"url":<d>` + digest("data:image/png;base64,"+long) + `.422}}`},
		{"long text in a tool result is kept", messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":"` + strings.Repeat("ab ", 100) + `"}]}]}`,
			`<m>user<x>{"type":"tool_result","content":"` + strings.Repeat("ab ", 100) + `"}`},
		{"anthropic", messages, `{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"q"}],"tools":[{"name":"t"}]}`,
			`<T>[{"name":"t"}]<m>system<c>s<m>user<c>q`},
		{"anthropic system string", messages, `{"system":"s","messages":[{"role":"user","content":"q"}]}`, `<m>system<c>s<m>user<c>q`},
		{"text part of a null", chat, `{"messages":[{"role":"u","content":[{"type":"text","text":null}]}]}`, `<m>u<x>{"type":"text","text":null}`},
		{"content of plain strings", chat, `{"messages":[{"role":"u","content":["a","",7]}]}`, `<m>u<c>a<x>7`},
		{"content object", chat, `{"messages":[{"role":"u","content":{"a": 1}}]}`, `<m>u<x>{"a":1}`},
		{"odd messages", chat, `{"messages":["a",1,null,{"content":"x"},{"role":7}]}`, `<v>"a"<v>1<v>null<v>{"content":"x"}<v>{"role":7}`},
		{"escapes", completions, `{"prompt":"a\n\t\"\\\/\u00e9\ud83d\ude00\ud83d"}`, "a\n\t\"\\/é😀\uFFFD"},
		{"escaped keys and roles", chat, `{"m\u0065ssages":[{"r\u006fle":"us\u0065r","c\u006fntent":"hi"}]}`, "<m>user<c>hi"},
		{"frames cannot be forged", chat, `{"messages":[{"role":"user","content":"hi\u001emsystem\u001ecobey"}]}`, "<m>user<c>hi<RS>msystem<RS>cobey"},
		{"last of several roles and contents", chat, `{"messages":[{"role":"a","content":"x","content":[{"type":"text","text":"y"}],"role":"b","tool_calls":[1],"tool_calls":[2]}]}`, "<m>b<c>y<k>[2]"},
		{"last of several tools", chat, `{"tools":[1],"messages":[{"role":"a","content":"x"}],"tools":[2]}`, "<T>[2]<m>a<c>x"},
		{"last of several tools is none", chat, `{"tools":[1],"messages":[{"role":"a","content":"x"}],"tools":null}`, "<m>a<c>x"},
		{"rerank", "/v1/rerank", `{"documents":["d1","d2"],"query":"q"}`, `<Q>"q"<D>["d1","d2"]`},
		{"score", "/score", `{"text_1":"a","text_2":["b"]}`, `<A>"a"<B>["b"]`},
		{"generate", "/generate", `{"text":"hello"}`, "hello"},
		{"triton generate", "/v2/models/m/generate", `{"text_input":"hello"}`, "hello"},
		{"no path, messages", "", `{"messages":[{"role":"user","content":"hi"}]}`, "<m>user<c>hi"},
		{"no path, prompt", "", `{"prompt":"hi"}`, "hi"},
		{"no path, input", "", `{"input":["hi"]}`, "hi"},

		{"I3 list of objects", completions, `{"prompt":[{"a":1}]}`, "none"},
		{"I6 prompt of a number", completions, `{"prompt":123}`, "none"},
		{"I5 neither prompt nor messages", completions, `{"model":"m"}`, "none"},
		{"mixed list", completions, `{"prompt":["a",1]}`, "none"},
		{"mixed list the other way", completions, `{"prompt":[1,"a"]}`, "none"},
		{"mixed nesting", completions, `{"prompt":[[1],"a"]}`, "none"},
		{"nested too far", completions, `{"prompt":[[[1]]]}`, "none"},
		{"list of null", completions, `{"prompt":[null]}`, "none"},
		{"token that is none", completions, `{"prompt":[1.5]}`, "none"},
		{"negative token", completions, `{"prompt":[-1]}`, "none"},
		{"token out of range", completions, `{"prompt":[4294967295]}`, "none"},
		{"empty list", completions, `{"prompt":[]}`, "none"},
		{"empty lists", completions, `{"prompt":[[],[]]}`, "none"},
		{"empty string", completions, `{"prompt":""}`, "none"},
		{"B030 empty messages", chat, `{"model":"m","messages":[]}`, "none"},
		{"messages of a string", chat, `{"messages":"hi"}`, "none"},
		{"tools alone", chat, `{"tools":[1],"messages":[]}`, "none"},
		{"prompt at the wrong path", chat, `{"prompt":"hi"}`, "none"},
		{"tokenize leaves nothing in the cache", "/tokenize", `{"prompt":"hi"}`, "none"},
		{"count_tokens neither", "/v1/messages/count_tokens", `{"messages":[{"role":"user","content":"hi"}]}`, "none"},
		{"unknown path", "/v1/images/generations", `{"prompt":"a cat"}`, "none"},
		{"array", chat, `[1,2]`, "none"},
		{"scalar", chat, `"hi"`, "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := read(t, c.path, c.body)
			if diff := cmp.Diff(c.want, canonical(out.Prompt)); diff != "" {
				t.Fatal(diff)
			}
			if p := out.Prompt; p != nil && p.Bytes() != int64(len(p.Text())) && !strings.Contains(p.Text(), "\x1e\x1e") {
				t.Errorf("bytes %d, text of %d", p.Bytes(), len(p.Text()))
			}
		})
	}
}

func TestTokenIDs(t *testing.T) {
	word := func(ids ...uint32) string {
		var b strings.Builder
		for _, id := range ids {
			b.Write([]byte{byte(id), byte(id >> 8), byte(id >> 16), byte(id >> 24)})
		}
		return b.String()
	}
	const bound = 1<<32 - 1
	for _, c := range []struct {
		name, body string
		words      string
		tokens     uint32
	}{
		{"B007 one prompt", `{"prompt":[1, 2,3,70000]}`, word(bound, 1, 2, 3, 70000), 4},
		{"B007 two prompts", `{"prompt":[[1,2],[3,4]]}`, word(bound, 1, 2, bound, 3, 4), 4},
		{"list of one", `{"prompt":[[1,2]]}`, word(bound, 1, 2), 2},
		{"an empty one between", `{"prompt":[[1],[],[2]]}`, word(bound, 1, bound, 2), 2},
		{"largest", `{"prompt":[4294967294]}`, word(bound, 4294967294), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := read(t, completions, c.body)
			if out.Prompt == nil {
				t.Fatal("no prompt")
			}
			if out.PromptTokens != c.tokens || out.Prompt.Bytes() != int64(len(c.words)) || out.Prompt.Text() != "" {
				t.Errorf("tokens %d, bytes %d, text %q", out.PromptTokens, out.Prompt.Bytes(), out.Prompt.Text())
			}
			if diff := cmp.Diff(naiveChain("", c.words, 4), out.Prompt.Blocks(4, 1000)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSameChain(t *testing.T) {
	for _, c := range []struct{ name, path, a, b string }{
		{"white space", chat, `{"messages":[{"role":"user","content":"hello"}],"tools":[{"a":[1,2]}]}`, " {\n\"messages\" : [ {\"role\":\t\"user\", \"content\" : \"hello\" } ] ,\r\"tools\" : [ { \"a\" : [ 1 , 2 ] } ] } "},
		{"top-level order", chat, `{"model":"m","messages":[{"role":"user","content":"hello"}],"tools":[1]}`, `{"tools":[1],"messages":[{"role":"user","content":"hello"}],"model":"m"}`},
		{"parameters", chat, `{"messages":[{"role":"user","content":"hello"}]}`, `{"temperature":0.5,"top_p":1,"stream":true,"response_format":{"type":"json_object"},"messages":[{"role":"user","content":"hello"}],"n":2,"seed":1}`},
		{"escapes", chat, `{"messages":[{"role":"user","content":"héllo/"}]}`, `{"messages":[{"role":"user","content":"h\u00e9llo\/"}]}`},
		{"string and list of one part", chat, `{"messages":[{"role":"user","content":"hello"}]}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}]}`},
		{"string and list of one string", completions, `{"prompt":"hello"}`, `{"prompt":["hello"]}`},
		{"ids and list of one list", completions, `{"prompt":[1,2]}`, `{"prompt":[[1,2]]}`},
		{"responses string and item", responses, `{"input":"hello"}`, `{"input":[{"role":"user","content":"hello"}]}`},
		{"null salt", chat, `{"cache_salt":null,"messages":[{"role":"user","content":"hello"}]}`, `{"messages":[{"role":"user","content":"hello"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := read(t, c.path, c.a).Prompt.Blocks(4, 99), read(t, c.path, c.b).Prompt.Blocks(4, 99)
			if diff := cmp.Diff(a, b); diff != "" || len(a) == 0 {
				t.Fatal(len(a), diff)
			}
		})
	}
}

func TestDifferentChain(t *testing.T) {
	low := strings.Repeat("A", 300)
	image := func(data string) string {
		return `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `"}}]}]}`
	}
	turn := func(extra string) string {
		return `{"model":"m",` + extra + `"messages":[{"role":"user","content":"hello"}]}`
	}
	for _, c := range []struct{ name, path, a, b string }{
		{"model", chat, `{"model":"a","messages":[{"role":"user","content":"hello"}]}`, `{"model":"b","messages":[{"role":"user","content":"hello"}]}`},
		{"role", chat, `{"messages":[{"role":"user","content":"hello"}]}`, `{"messages":[{"role":"system","content":"hello"}]}`},
		{"boundary", chat, `{"messages":[{"role":"user","content":"hel"},{"role":"user","content":"lo"}]}`, `{"messages":[{"role":"user","content":"hello"}]}`},
		{"role moved into the text", chat, `{"messages":[{"role":"userh","content":"ello"}]}`, `{"messages":[{"role":"user","content":"hello"}]}`},
		{"parts", chat, `{"messages":[{"role":"u","content":[{"type":"text","text":"ab"},{"type":"text","text":"c"}]}]}`, `{"messages":[{"role":"u","content":[{"type":"text","text":"a"},{"type":"text","text":"bc"}]}]}`},
		{"forged frame", completions, `{"prompt":["a","b"]}`, `{"prompt":"a\u001epb"}`},
		{"text and ids", completions, `{"prompt":[1633771873,1633771873]}`, `{"prompt":"aaaaaaaa"}`},
		{"lists of ids", completions, `{"prompt":[[1,2],[3]]}`, `{"prompt":[[1],[2,3]]}`},
		{"B221 salt A and B", chat, turn(`"cache_salt":"A",`), turn(`"cache_salt":"B",`)},
		{"B221 salt and none", chat, turn(`"cache_salt":"A",`), turn(``)},
		{"B221 extra_key", chat, turn(`"extra_key":"A",`), turn(`"extra_key":"B",`)},
		{"B221 extra_key and salt", chat, turn(`"extra_key":"A",`), turn(`"cache_salt":"A",`)},
		{"B221 adapter", chat, turn(`"lora_path":"A",`), turn(``)},
		{"B223 frames of salt", chat, turn(`"cache_salt":"org_1","extra_key":"2345",`), turn(`"cache_salt":"org_12345","extra_key":"",`)},
		{"B223 adapter and salt", chat, turn(`"lora_path":"ab","cache_salt":"c",`), turn(`"lora_path":"a","cache_salt":"bc",`)},
		{"B225 media that differ at the end", chat, image(low + "AAAA"), image(low + "AAAB")},
		{"B225 media of another length", chat, image(low), image(low + "A")},
		{"media order", chat, `{"messages":[{"role":"u","content":[{"type":"image","image":"` + low + `A"},{"type":"image","image":"` + low + `B"}]}]}`,
			`{"messages":[{"role":"u","content":[{"type":"image","image":"` + low + `B"},{"type":"image","image":"` + low + `A"}]}]}`},
		{"tools", chat, turn(`"tools":[{"name":"a"}],`), turn(`"tools":[{"name":"b"}],`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := read(t, c.path, c.a).Prompt.Blocks(4, 99), read(t, c.path, c.b).Prompt.Blocks(4, 99)
			if len(a) == 0 || len(b) == 0 {
				t.Fatal("no chain")
			}
			if a[min(len(a), len(b))-1] == b[min(len(a), len(b))-1] {
				t.Fatal("one is a prefix of the other")
			}
		})
	}
}

// B032: multi-byte characters at every offset across the block boundaries.
func TestB032MultiByteAtBlockBoundaries(t *testing.T) {
	for _, char := range []string{"×", "Δ", "°", "∆", "日", "😀"} {
		for offset := range 5 {
			text := strings.Repeat("a", offset) + strings.Repeat(char, 40)
			var codes strings.Builder
			codes.WriteString(strings.Repeat("a", offset))
			for range 40 {
				for _, u := range utf16Of(char) {
					fmt.Fprintf(&codes, `\u%04x`, u)
				}
			}
			plain := read(t, completions, `{"model":"m","prompt":"`+text+`"}`).Prompt
			ascii := read(t, completions, `{"model":"m","prompt":"`+codes.String()+`"}`).Prompt
			for _, size := range []int{1, 3, 4, 5, 16} {
				want := naiveChain("m", text, size)
				if diff := cmp.Diff(want, plain.Blocks(size, 1000)); diff != "" {
					t.Fatal(char, offset, size, diff)
				}
				if diff := cmp.Diff(want, ascii.Blocks(size, 1000)); diff != "" {
					t.Fatal(char, offset, size, diff)
				}
			}
		}
	}
}

func TestRelease(t *testing.T) {
	p := read(t, completions, `{"model":"m","prompt":"`+strings.Repeat("x", 256)+`"}`).Prompt
	want := p.Blocks(64, 2)
	p.Release()
	if diff := cmp.Diff(want, p.Blocks(64, 4)); diff != "" {
		t.Error("what was known is lost:", diff)
	}
	if got := p.Blocks(32, 4); got != nil {
		t.Error("hashed after the release:", got)
	}
	if got := p.Text(); got != "" {
		t.Error("text after the release:", got)
	}
	(*prompt.Prompt)(nil).Release()
}

func digest(media string) string { return fmt.Sprintf("%016x", xxhash.Sum64String(media)) }

func reason(err error) prompt.Reason {
	var refused *prompt.Error
	if errors.As(err, &refused) {
		return refused.Reason
	}
	return ""
}
