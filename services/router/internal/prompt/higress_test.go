package prompt_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

// Rows V of Higress's prefix_cache: what of a conversation is hashed. There it is SHA-1 of
// whole turns, chained by exclusive or, of roles and contents alone; its hashes are not
// ours and are not repeated here. These tests have what takes their place: the canonical
// prompt in blocks of bytes, each hashed over the one before, of a model.

// turns is the canonical prompt of messages, and its chain in blocks of 4 bytes.
func turns(t *testing.T, list string) (text string, chain []uint64) {
	t.Helper()
	p := read(t, chat, `{"model":"m","messages":[`+list+`]}`).Prompt
	if p == nil {
		return "none", nil
	}
	return canonical(p), p.Blocks(4, 9999)
}

func TestHigressVCanonicalTurns(t *testing.T) {
	for _, c := range []struct{ name, messages, want string }{
		{"V1", `{"role":"user","content":"hi"}`, "<m>user<c>hi"},
		{"V2", `{"role":"user","content":"hi"},{"role":"assistant","content":"Hi! How can I assist you today? 😊"},{"role":"user","content":"write a short story aboud 100 words"}`,
			"<m>user<c>hi<m>assistant<c>Hi! How can I assist you today? 😊<m>user<c>write a short story aboud 100 words"},
		{"V4", `{"role":"system","content":"You are helpful."},{"role":"user","content":"bye"}`, "<m>system<c>You are helpful.<m>user<c>bye"},
		{"V5 twice the same", `{"role":"user","content":"a"},{"role":"user","content":"a"}`, "<m>user<c>a<m>user<c>a"},
		{"V7 null content, and a tool's", `{"role":"user","content":"x"},{"role":"assistant","content":null},{"role":"tool","content":"{\"t\":1}"}`, `<m>user<c>x<m>assistant<m>tool<c>{"t":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, chain := turns(t, c.messages)
			if d := cmp.Diff(c.want, got); d != "" || len(chain) == 0 {
				t.Errorf("%d blocks; %s", len(chain), d)
			}
		})
	}
}

// Which conversations share how much of their chains.
func TestHigressVSharedBlocks(t *testing.T) {
	const (
		hi     = `{"role":"user","content":"hi"}`
		answer = `,{"role":"assistant","content":"Hi! How can I assist you today? 😊"}`
		story  = `,{"role":"user","content":"write a short story aboud 100 words"}`
		system = `{"role":"system","content":"You are helpful."}`
		ok     = `,{"role":"assistant","content":"ok"},{"role":"user","content":"hi"}`
	)
	const all = -1
	for _, c := range []struct {
		name, first, then string
		want              int // blocks of the first that the second has; all: every one
	}{
		{"V1 V2 a conversation that goes on", hi, hi + answer + story, all},
		{"V2 and on", hi + answer, hi + answer + story, all},
		// The reference's first block is the system prompt with the first turn, so that a
		// shared system prompt matches nothing. Here what is the same is shared: "<m>system"
		// and so on, 26 bytes up to the end of the prompt and 8 of the frames of "user".
		{"V4 a shared system prompt", system + `,{"role":"user","content":"bye"}`, system + `,{"role":"user","content":"hello"}`, 8},
		{"V7 with and without a turn without content", `{"role":"user","content":"xxxx"},{"role":"tool","content":"t"}`, `{"role":"user","content":"xxxx"},{"role":"assistant","content":null},{"role":"tool","content":"t"}`, 3},
		{"V8 repeated turns go on", hi + ok, hi + ok + ok, all},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, first := turns(t, c.first)
			_, then := turns(t, c.then)
			want := c.want
			if want == all {
				want = len(first)
			}
			if got := common(first, then); got != want || len(then) < len(first) && c.want == all || len(first) == 0 {
				t.Errorf("%d of %d blocks are shared with %d, want %d", got, len(first), len(then), want)
			}
		})
	}
	// V5, V8: by exclusive or a repeated turn undoes itself. Here no two blocks of a chain
	// are the same, however often its turns repeat.
	_, chain := turns(t, hi+ok+ok+ok+ok)
	seen := map[uint64]int{0: -1}
	for i, h := range chain {
		if at, twice := seen[h]; twice {
			t.Errorf("block %d is as block %d", i, at)
		}
		seen[h] = i
	}
}

// V10: nothing to hash is no error, and the request goes by load. A completion's prompt,
// which the reference does not read, is hashed.
func TestHigressV10NothingToHash(t *testing.T) {
	for _, c := range []struct{ name, path, body, want string }{
		{"no messages", chat, `{"model":"m"}`, "none"},
		{"empty messages", chat, `{"model":"m","messages":[]}`, "none"},
		{"only a prompt, for chat", chat, `{"model":"m","prompt":"hi"}`, "none"},
		{"only a prompt, for completions", completions, `{"model":"m","prompt":"hi"}`, "hi"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := parser(t).Read(prompt.Input{Path: c.path, Body: []byte(c.body)})
			if err != nil || out.Model != "m" || out.Opaque != "" || canonical(out.Prompt) != c.want {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
}

// V11: the reference hashes the text of a content list as it is written, so that white
// space makes it another prompt. Here the texts of its parts count.
func TestHigressV11ContentLists(t *testing.T) {
	const content = `{"role":"user","content":[{"type":"text","text":"look at this"},{"type":"text","text":"and that"}]}`
	_, want := turns(t, content)
	for name, c := range map[string]struct {
		messages string
		same     bool
	}{
		"other white space":   {"{\"role\": \"user\",\n \"content\": [ {\"type\":\"text\", \"text\":\"look at this\"},\t{\"type\":\"text\",\"text\":\"and that\"} ]}", true},
		"other order of keys": {`{"content":[{"text":"look at this","type":"text"},{"text":"and that","type":"text"}],"role":"user"}`, true},
		"other text":          {`{"role":"user","content":[{"type":"text","text":"look at this"},{"type":"text","text":"nor that"}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := turns(t, c.messages); cmp.Equal(want, got) != c.same || len(got) != len(want) {
				t.Errorf("%d blocks, %d of them shared", len(got), common(want, got))
			}
		})
	}
}
