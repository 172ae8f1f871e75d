package prompt_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"pgregory.net/rapid"
)

// FuzzRead compares what is accepted and what is read with encoding/json, and a body
// that comes in two chunks with one that comes whole.
func FuzzRead(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":5}`,
		`{"model":"m\u00e9","prompt":["a","b"],"max_tokens":-5}`, `{"prompt":[[1,2],[3]]}`, `{"input":[{"role":"u","content":[{"type":"text","text":"\ud83d\ude00"}]}]}`,
		`{"tools":[{"a" : [1, 2]}],"messages":[{"content":null,"tool_calls":[ ]}]}`, `{"model":"a","model":"b"}`, `{"stream":tru}`, `[]`, ``,
		`{"messages":[{"role":"u","content":[{"type":"image","image":"` + strings.Repeat("A", 300) + `"}]}]}`,
		`{"system":[{"text":"x"}],"messages":[[],{"content":{"x":"\\"}}]}`, "{\"model\":\"\xff\"}",
	} {
		f.Add(body, uint(len(body)/2), uint8(0))
	}
	paths := []string{chat, completions, embeddings, responses, messages, "/rerank", "/generate", "/tokenize", "", "/v1/other"}
	f.Fuzz(func(t *testing.T, body string, cut uint, which uint8) {
		path := paths[int(which)%len(paths)]
		compareWithEncodingJSON(t, path, body)
		compareChunks(t, path, body, int(cut%uint(len(body)+1)))
	})
}

func compareWithEncodingJSON(t *testing.T, path, body string) {
	t.Helper()
	out, err := parser(t).Read(prompt.Input{Path: path, Body: []byte(body)})
	valid := json.Valid([]byte(body))
	switch reason(err) {
	case "":
		if err != nil {
			t.Fatalf("error of type %T", err)
		}
		if prompt.KindOf(path).NeedsJSON() && !valid {
			t.Fatalf("accepted %q", body)
		}
	case prompt.BadJSON:
		if valid {
			t.Fatalf("refused %q: %v", body, err)
		}
		return
	default: // found before the end
		return
	}
	if out.Opaque != "" || !valid {
		return
	}
	var want struct {
		Model  any `json:"model"`
		Stream any `json:"stream"`
	}
	var keys map[string]json.RawMessage // exact keys, unlike a struct
	if json.Unmarshal([]byte(body), &keys) != nil {
		return
	}
	if raw, ok := keys["model"]; ok {
		if err := json.Unmarshal(raw, &want.Model); err != nil {
			t.Fatal(err)
		}
	}
	if raw, ok := keys["stream"]; ok {
		if err := json.Unmarshal(raw, &want.Stream); err != nil {
			t.Fatal(err)
		}
	}
	model, _ := want.Model.(string)
	stream, _ := want.Stream.(bool)
	// encoding/json replaces each invalid byte, we each run of them.
	if strings.ReplaceAll(out.Model, "\uFFFD", "") != strings.ReplaceAll(model, "\uFFFD", "") || out.Stream != stream {
		t.Fatalf("%q: model %q, stream %v; encoding/json reads %q, %v", body, out.Model, out.Stream, model, stream)
	}
}

func compareChunks(t *testing.T, path, body string, cut int) {
	t.Helper()
	in := func(chunks ...string) (*prompt.Reading, error) {
		r := prompt.NewReader(prompt.KindOf(path), 128)
		for _, c := range chunks {
			if err := r.Write([]byte(c)); err != nil {
				return nil, err
			}
		}
		return r.Close()
	}
	whole, err := in(body)
	parts, partsErr := in(body[:cut], body[cut:])
	if fmt.Sprint(err) != fmt.Sprint(partsErr) {
		t.Fatalf("%q cut at %d: %v, whole: %v", body, cut, partsErr, err)
	}
	if err != nil {
		return
	}
	if diff := cmp.Diff(whole, parts, cmpopts.IgnoreFields(prompt.Reading{}, "Prompt"), cmpopts.IgnoreUnexported(prompt.Reading{})); diff != "" {
		t.Fatalf("%q cut at %d: %s", body, cut, diff)
	}
	if (whole.Prompt == nil) != (parts.Prompt == nil) {
		t.Fatalf("%q cut at %d: one prompt is missing", body, cut)
	}
	if whole.Prompt == nil {
		return
	}
	if diff := cmp.Diff(whole.Prompt.Text(), parts.Prompt.Text()); diff != "" {
		t.Fatalf("%q cut at %d: %s", body, cut, diff)
	}
	if diff := cmp.Diff(whole.Prompt.Blocks(3, 1000), parts.Prompt.Blocks(3, 1000)); diff != "" {
		t.Fatalf("%q cut at %d: %s", body, cut, diff)
	}
}

// TestEveryCut cuts bodies of every kind at every byte.
func TestEveryCut(t *testing.T) {
	for path, body := range map[string]string{
		chat:        `{"mod\u0065l":"m\ud83d\ude00","tools":[ {"a": "b"} ],"messages":[{"role":"us\u0065r","name":"n","content":[{"type":"te\u0078t","text":"h\u00e9\n"},{"type":"image","image":"` + strings.Repeat("A", 300) + `"}]},{"role":"assistant","tool_calls":[1, 2]}],"user":"u","max_tokens":12}`,
		completions: `{"prompt":[[1,22],[ 333 ]],"cache_salt":"s","stream":true}`,
		responses:   `{"input":[{"type":"function_call","x":[{}]},{"role":"user","content":"plain text that is cut"}],"instructions":"do"}`,
	} {
		for cut := range len(body) + 1 {
			compareChunks(t, path, body, cut)
		}
	}
}

type turn struct{ Role, Content string }

// TestModel compares random chats with a canonical form made from a decoded body.
func TestModel(t *testing.T) {
	p := parser(t)
	rapid.Check(t, func(t *rapid.T) {
		turns := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) turn {
			return turn{rapid.StringN(1, 8, -1).Draw(t, "role"), rapid.StringN(0, 200, -1).Draw(t, "content")}
		}), 1, 6).Draw(t, "turns")
		body := func(turns []turn) []byte {
			list := make([]any, 0, len(turns))
			for _, m := range turns {
				if rapid.Bool().Draw(t, "as parts") {
					list = append(list, map[string]any{"role": m.Role, "content": []any{map[string]any{"type": "text", "text": m.Content}}})
				} else {
					list = append(list, map[string]any{"role": m.Role, "content": m.Content})
				}
			}
			doc := map[string]any{"model": "m", "messages": list, "temperature": rapid.Float64Range(0, 2).Draw(t, "temperature")}
			var raw []byte
			var err error
			if rapid.Bool().Draw(t, "indent") {
				raw, err = json.MarshalIndent(doc, "", "  ")
			} else {
				raw, err = json.Marshal(doc)
			}
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}
		var want strings.Builder
		for _, m := range turns {
			want.WriteString("\x1em" + strings.ReplaceAll(m.Role, "\x1e", "\x1e\x1e"))
			if m.Content != "" {
				want.WriteString("\x1ec" + strings.ReplaceAll(m.Content, "\x1e", "\x1e\x1e"))
			}
		}
		out, err := p.Read(prompt.Input{Path: chat, Body: body(turns)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), out.Prompt.Text()); diff != "" {
			t.Fatal(diff)
		}
		size := rapid.IntRange(1, 80).Draw(t, "size")
		chain := out.Prompt.Blocks(size, 1<<20)
		if diff := cmp.Diff(naiveChain("m", want.String(), size), chain, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		// A conversation that grows keeps its chain.
		grown, err := p.Read(prompt.Input{Path: chat, Body: body(append(turns, turn{"assistant", "yes"}, turn{"user", "why?"}))})
		if err != nil {
			t.Fatal(err)
		}
		longer := grown.Prompt.Blocks(size, 1<<20)
		if len(longer) < len(chain) {
			t.Fatal("the chain has shrunk")
		}
		if diff := cmp.Diff(chain, longer[:len(chain)], cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}
