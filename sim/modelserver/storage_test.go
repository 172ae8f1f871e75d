package modelserver

import (
	"fmt"
	"strings"
	"testing"
)

func TestSharedStorage(t *testing.T) {
	store := NewStore(1000)
	server := func() *started {
		return start(t, func(c *Config) { c.Transfer.Connector, c.Transfer.Store = SharedStorage, store })
	}
	prefill, decode := server(), server()
	ask := func(x *started, threshold string) legAnswer {
		return post[legAnswer](x, "/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":4,"ignore_eos":true%s}`, longPrompt, threshold), 200)
	}
	// F5, K5: too little is cached.
	a := ask(decode, `,"cache_hit_threshold":0.8`)
	if a.Choices[0].FinishReason != "cache_threshold" || a.Choices[0].Text != "" || a.Usage.CompletionTokens != 0 || decode.Stats().PrefillTokens != 0 {
		t.Errorf("cold: %+v", a)
	}
	// F6: the prefill leg computes and stores, the decode leg loads.
	if a := ask(prefill, `,"cache_hit_threshold":0`); a.Usage.PromptTokensDetails.CachedTokens != 0 {
		t.Errorf("prefill leg: %+v", a)
	}
	a = ask(decode, `,"cache_hit_threshold":0.8`)
	if a.Choices[0].FinishReason != "length" || a.Usage.PromptTokensDetails.CachedTokens != 48 || decode.Stats().PrefillTokens != 2 || decode.Transfers().FetchedTokens != 48 {
		t.Errorf("warm: %+v, %+v", a, decode.Transfers())
	}
	// F4: enough is cached here.
	if a := ask(decode, `,"cache_hit_threshold":0.8`); a.Choices[0].FinishReason != "length" || decode.Transfers().Fetched != 1 {
		t.Errorf("hot: %+v, %+v", a, decode.Transfers())
	}
	for _, wrong := range []string{"-0.1", "1.1", `"x"`} {
		post[errorBody](decode, "/v1/completions", fmt.Sprintf(`{"prompt":"x","cache_hit_threshold":%s}`, wrong), 400)
	}
	resp, err := decode.do(t.Context(), "POST", "/v1/completions", fmt.Sprintf(`{"prompt":%q,"cache_hit_threshold":1,"stream":true}`, strings.ToUpper(longPrompt)))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := events(resp.Body); err != nil || len(data) != 2 || !strings.Contains(data[0], `"finish_reason":"cache_threshold"`) {
		t.Errorf("streamed: %q, %v", data, err)
	}
}

func TestStoreForgetsTheOldest(t *testing.T) {
	s := NewStore(3)
	s.put([]uint64{1, 2})
	s.put([]uint64{1, 2, 3})
	if got := s.match([]uint64{1, 2, 3, 4}); got != 3 {
		t.Errorf("%d blocks match, want 3", got)
	}
	s.put([]uint64{4})
	if got := s.match([]uint64{2, 3, 4}); got != 3 || s.match([]uint64{1}) != 0 {
		t.Errorf("%d blocks match, want 3 and the first gone", got)
	}
	var none *Store
	none.put([]uint64{1})
	if none.match([]uint64{1}) != 0 {
		t.Error("no store has something")
	}
}
