package modelserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What llm-d's simulator does. K2 and K4 are not what the engine does: it says "length", and
// [[1,2,3]] is how it writes block ids.
func TestDialect(t *testing.T) {
	llmd := func(t *testing.T, change func(*Config)) *started {
		return start(t, func(c *Config) {
			c.Dialect, c.Transfer.Connector = LLMDSim, NIXL
			if change != nil {
				change(c)
			}
		})
	}
	prompt70 := strings.Repeat("abcd", 70)
	t.Run("K1_the_same_prompt_twice", func(t *testing.T) {
		x := start(t, nil)
		for i, want := range []int{0, 64} {
			a := post[legAnswer](x, "/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":4}`, prompt70), 200)
			if a.Usage.PromptTokens != 70 || a.Usage.PromptTokensDetails.CachedTokens != want {
				t.Errorf("request %d: %+v, want %d cached", i+1, a.Usage, want)
			}
		}
	})
	t.Run("K2_do_remote_decode", func(t *testing.T) {
		prefill, decode := llmd(t, nil), llmd(t, nil)
		a := post[legAnswer](prefill, "/v1/completions", prefillBody(longPrompt), 200)
		var params map[string]any
		if err := json.Unmarshal(a.KVTransferParams, &params); err != nil || a.Choices[0].FinishReason != "remote_decode" {
			t.Fatalf("%+v, %v", a, err)
		}
		blocks, ok := params["remote_block_ids"].([]any)
		if !ok || len(blocks) != 4 {
			t.Fatalf("remote_block_ids %v", params["remote_block_ids"])
		}
		for _, b := range blocks {
			if _, ok := b.(string); !ok {
				t.Errorf("a block id is %v", b)
			}
		}
		b := post[legAnswer](decode, "/v1/completions", decodeBody(longPrompt, string(a.KVTransferParams), ""), 200)
		if b.Choices[0].FinishReason != "length" || decode.Transfers().Fetched != 1 {
			t.Errorf("decode leg: %+v, %+v", b, decode.Transfers())
		}
		post[errorBody](prefill, "/v1/completions", fmt.Sprintf(`{"prompt":"x","stream":true,%s}`, askPrefill), 400)
	})
	t.Run("K4_block_ids_in_groups", func(t *testing.T) {
		body := decodeBody(longPrompt, `{"do_remote_prefill":true,"remote_block_ids":[[1,2,3]]}`, "")
		post[errorBody](llmd(t, nil), "/v1/completions", body, 400)
		post[legAnswer](leg(t, nil), "/v1/completions", body, 200)
	})
	t.Run("K5_too_little_is_cached", func(t *testing.T) {
		a := post[legAnswer](llmd(t, nil), "/v1/completions", fmt.Sprintf(`{"prompt":%q,"cache_hit_threshold":0.8}`, longPrompt), 200)
		if a.Choices[0].FinishReason != "cache_threshold" || a.Choices[0].Text != "" || a.Usage.CompletionTokens != 0 {
			t.Errorf("%+v", a)
		}
	})
	t.Run("K7_a_prompt_that_the_cache_does_not_hold", func(t *testing.T) {
		small := func(c *Config) { c.Engine.NumBlocks, c.Engine.MaxModelLen = 8, 0 }
		body := fmt.Sprintf(`{"prompt":%q}`, strings.Repeat("abcd", 160))
		if e := post[errorBody](llmd(t, small), "/v1/completions", body, 500); !strings.Contains(e.Error.Message, "128 tokens, the prompt has 160") {
			t.Errorf("%+v", e)
		}
		post[errorBody](start(t, small), "/v1/completions", body, 400) // as the engine
	})
	t.Run("K10_startup_duration", func(t *testing.T) {
		x := start(t, func(c *Config) { c.StartupDuration = 4 * time.Second })
		status := func(path string) int { resp, _ := x.call("GET", path, ""); return resp.StatusCode }
		if health, ready := status("/health"), status("/health/ready"); health != http.StatusOK || ready != http.StatusServiceUnavailable {
			t.Errorf("health %d, ready %d", health, ready)
		}
		post[wholeBody](x, "/v1/chat/completions", hello, 200)
		eventually(t, "it is ready", func() bool { return status("/health/ready") == http.StatusOK })
	})
	_, err := New(Config{Dialect: "x", MediaRole: "y", StartupDuration: -1})
	for _, want := range []string{`Dialect "x"`, `MediaRole "y"`, "StartupDuration"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in %v", want, err)
		}
	}
}

// An answer can be gone on with by a request that has its beginning: together they say what
// one request says.
func TestContinueFinalMessage(t *testing.T) {
	x := start(t, func(c *Config) { c.MinAnswer, c.MaxAnswer = 40, 40 })
	const question = `{"role":"user","content":"Tell me."}`
	ask := func(messages, more string) (text, reason string, u usage) {
		a := post[wholeBody](x, "/v1/chat/completions", `{"messages":[`+messages+`]`+more+`}`, 200)
		return a.Choices[0].Message.Content, a.Choices[0].FinishReason, a.Usage
	}
	whole, reason, _ := ask(question, "")
	if reason != "stop" || len(whole) != 160 {
		t.Fatalf("%q, %s", whole, reason)
	}
	const goOn = `,"continue_final_message":true,"add_generation_prompt":false,"max_tokens":15`
	said, rounds := "", 0
	for reason = "length"; reason == "length"; rounds++ {
		var text string
		var u usage
		text, reason, u = ask(question+`,{"role":"assistant","content":`+string(quote(said))+`}`, goOn)
		said += text
		if u.CompletionTokens != len(text)/4 {
			t.Errorf("usage %+v for %q", u, text)
		}
	}
	if diff := cmp.Diff(whole, said); diff != "" || rounds != 3 {
		t.Errorf("in %d rounds (-at once +in rounds):\n%s", rounds, diff)
	}
	if text, reason, u := ask(question+`,{"role":"assistant","content":`+string(quote(whole))+`}`, goOn); text != "" || reason != "stop" || u.CompletionTokens != 0 {
		t.Errorf("after its end: %q, %s, %+v", text, reason, u)
	}
	streamed := ""
	for _, c := range x.streamed("/v1/chat/completions", `{"messages":[`+question+`,{"role":"assistant","content":`+string(quote(whole[:60]))+`}],"continue_final_message":true,"add_generation_prompt":false,"stream":true}`) {
		if len(c.Choices) > 0 && c.Choices[0].Delta.Content != nil {
			streamed += *c.Choices[0].Delta.Content
		}
	}
	if streamed != whole[60:] {
		t.Errorf("streamed %q, want %q", streamed, whole[60:])
	}
	for _, wrong := range []string{
		`{"messages":[` + question + `,{"role":"assistant","content":"x"}],"continue_final_message":true}`,
		`{"messages":[` + question + `],"continue_final_message":true,"add_generation_prompt":false}`,
		`{"messages":[{"role":"assistant","content":null}],"continue_final_message":true,"add_generation_prompt":false}`,
	} {
		post[errorBody](x, "/v1/chat/completions", wrong, 400)
	}
}
