package prompt_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
)

// common is how many leading hashes two chains share.
func common(a, b []uint64) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// blocks is the chain of a completion, in blocks of 4 bytes as the rows have them.
func blocks(t *testing.T, model, prompt string) []uint64 {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": model, "prompt": prompt})
	if err != nil {
		t.Fatal(err)
	}
	return read(t, completions, string(body)).Prompt.Blocks(4, 50000)
}

// The rows count the model as a block of its own; here it is the chain's seed, so each
// count is one less, and another model shares nothing.
func TestPrefixCases(t *testing.T) {
	a, b := blocks(t, "m1", "aaaaaa"), blocks(t, "m1", "aaaabbbb")
	for id, c := range map[string]struct{ got, want int }{
		"F30 blocks":                 {len(a), 1},
		"F32 blocks":                 {len(b), 2},
		"F32 shared with F30":        {common(a, b), 1},
		"F33 shared by other models": {common(b, blocks(t, "m-new", "aaaabbbb")), 0},
		"F40 blocks of one token":    {len(blocks(t, "m", "aaaabbbb")), 2},
		"M26 hello":                  {common(blocks(t, "m", "hello world abcde"), blocks(t, "m", "helloXXXXXYYYYYZ")), 1},
		"M26 jello":                  {common(blocks(t, "m", "hello world abcde"), blocks(t, "m", "jello world abcde")), 0},
		"M26 hi":                     {len(blocks(t, "m", "hi")), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", id, c.got, c.want)
		}
	}
}

// F35: as many blocks as fit, up to the limit, and every longer prompt goes on where
// the shorter ended.
func TestF35GrowingPrompts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's
	prompt, before := "", []uint64(nil)
	for range 40 {
		for range rng.IntN(200) {
			prompt += string(rune('a' + rng.IntN(26)))
		}
		now := blocks(t, "m", prompt)
		if len(now) != len(prompt)/4 || common(before, now) != len(before) {
			t.Fatalf("%d bytes have %d blocks, of which %d of %d are as before", len(prompt), len(now), common(before, now), len(before))
		}
		before = now
	}
}

// F38: the hash, the seed of a plain request, and that of one with adapter or salt.
func TestF38Seeds(t *testing.T) {
	if got := xxhash.Sum64String(""); got != 0xef46db3751d8e999 {
		t.Errorf("XXH64(\"\") = %016x", got)
	}
	if got := xxhash.Sum64String("m"); got != 0xba2e567083a2b2e8 {
		t.Errorf("XXH64(\"m\") = %016x", got)
	}
	le8 := func(n int) string { return string([]byte{byte(n), 0, 0, 0, 0, 0, 0, 0}) }
	for _, c := range []struct{ body, seed string }{
		{`{"model":"m","prompt":"aaaa"}`, "m"},
		{`{"model":"m","prompt":"aaaa","lora_path":"ad"}`, le8(1) + "m" + le8(2) + "ad" + le8(0)},
		{`{"model":"m","prompt":"aaaa","cache_salt":"pepper"}`, le8(1) + "m" + le8(0) + le8(6) + "pepper"},
		{`{"model":"m","prompt":"aaaa","lora_path":"ad","cache_salt":"pepper"}`, le8(1) + "m" + le8(2) + "ad" + le8(6) + "pepper"},
	} {
		if diff := cmp.Diff(naiveChain(c.seed, "aaaa", 4), read(t, completions, c.body).Prompt.Blocks(4, 9)); diff != "" {
			t.Errorf("%s: %s", c.body, diff)
		}
	}
}

// F48: a conversation that grows by two messages keeps its chain.
func TestF48ChatGrows(t *testing.T) {
	const first = `{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"What is a pointsman?"}`
	const more = `,{"role":"assistant","content":"The railwayman who sets the points."},{"role":"user","content":"And a signalman?"}`
	chain := func(messages string) []uint64 {
		return read(t, chat, `{"model":"m","messages":[`+messages+`]}`).Prompt.Blocks(4, 999)
	}
	a, b := chain(first), chain(first+more)
	if len(b) <= len(a) || common(a, b) != len(a) || len(a) == 0 {
		t.Errorf("%d blocks, then %d, of which %d are as before", len(a), len(b), common(a, b))
	}
	tools := read(t, chat, `{"model":"m","tools":[{"type":"function","function":{"name":"f"}}],"messages":[`+first+`]}`).Prompt.Blocks(4, 999)
	if common(a, tools) != 0 {
		t.Error("tools, which stand before the messages, share blocks with none")
	}
}

// F49: media are part of the prompt, as links and as data, to the last byte.
func TestF49Media(t *testing.T) {
	chain := func(url string) []uint64 {
		return read(t, chat, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"look at this picture"},{"type":"image_url","image_url":{"url":"`+url+`"}},{"type":"text","text":"what is it?"}]}]}`).Prompt.Blocks(4, 9999)
	}
	data := "data:image/png;base64," + strings.Repeat("iVBORw0KGgo", 500)
	for name, c := range map[string]struct{ same, other string }{
		"links":                         {"https://example.com/a.png", "https://example.com/b.png"},
		"data that differ at their end": {data + "A", data + "B"},
	} {
		a, again, b := chain(c.same), chain(c.same), chain(c.other)
		if common(a, again) != len(a) || len(a) == 0 {
			t.Errorf("%s: the same twice shares %d of %d blocks", name, common(a, again), len(a))
		}
		if n := common(a, b); n == 0 || n == len(a) {
			t.Errorf("%s: others share %d of %d blocks, want the text before them alone", name, n, len(a))
		}
	}
	if n := len(chain(data)); n > 100 {
		t.Errorf("an image of %d bytes makes %d blocks", len(data), n)
	}
}
