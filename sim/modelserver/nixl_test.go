package modelserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/sim/engine"
)

// leg is a server with vLLM's connector.
func leg(t testing.TB, change func(*Transfer)) *started {
	return start(t, func(c *Config) {
		c.Transfer.Connector = NIXL
		if change != nil {
			change(&c.Transfer)
		}
	})
}

// longPrompt is of 50 tokens.
var longPrompt = strings.Repeat("abcd", 50)

const askPrefill = `"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_block_ids":null,"remote_engine_id":null,"remote_host":null,"remote_port":null}`

func prefillBody(prompt string) string {
	return fmt.Sprintf(`{"prompt":%q,"max_tokens":1,"min_tokens":1,"stream":false,%s}`, prompt, askPrefill)
}

func decodeBody(prompt, params string, more string) string {
	return fmt.Sprintf(`{"prompt":%q,"max_tokens":4,"ignore_eos":true,"kv_transfer_params":%s%s}`, prompt, params, more)
}

type legAnswer struct {
	Choices []struct {
		Text         string `json:"text"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage            usage           `json:"usage"`
	KVTransferParams json.RawMessage `json:"kv_transfer_params"`
}

// prefilled runs a prefill leg and returns its kv_transfer_params.
func prefilled(x *started, prompt string) string {
	x.t.Helper()
	a := post[legAnswer](x, "/v1/completions", prefillBody(prompt), 200)
	if len(a.KVTransferParams) == 0 || a.Choices[0].FinishReason != "length" || a.Usage.CompletionTokens != 1 {
		x.t.Fatalf("prefill leg: %+v", a)
	}
	return string(a.KVTransferParams)
}

func TestPrefillThenDecode(t *testing.T) {
	prefill, decode := leg(t, nil), leg(t, nil)
	params := prefilled(prefill, longPrompt)
	var p map[string]any
	if err := json.Unmarshal([]byte(params), &p); err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(prefill.Address(), ":")
	want := map[string]any{
		"do_remote_prefill": true, "do_remote_decode": false, "remote_engine_id": prefill.engineID, "remote_host": host,
		"remote_port": p["remote_port"], "remote_request_id": p["remote_request_id"], "remote_block_ids": p["remote_block_ids"], "tp_size": 1.0, "remote_num_tokens": 50.0,
	}
	if diff := cmp.Diff(want, p); diff != "" || fmt.Sprint(p["remote_port"]) != port {
		t.Errorf("kv_transfer_params (-want +got):\n%s", diff)
	}
	if groups, ok := p["remote_block_ids"].([]any); !ok || len(groups) != 1 || len(groups[0].([]any)) != 4 {
		t.Errorf("remote_block_ids %v, want one group of 4 blocks", p["remote_block_ids"])
	}
	if s := prefill.Stats(); s.Held != 1 || s.BlocksUsed != 4 {
		t.Errorf("the prefill server holds %+v", s)
	}

	a := post[legAnswer](decode, "/v1/completions", decodeBody(longPrompt, params, ""), 200)
	alone := leg(t, nil)
	whole := post[legAnswer](alone, "/v1/completions", decodeBody(longPrompt, "null", ""), 200)
	if a.Choices[0] != whole.Choices[0] {
		t.Errorf("answer %+v, one server alone says %+v", a.Choices[0], whole.Choices[0])
	}
	// E22: vLLM's decode leg calls cached all that it fetched, but the last token, which it computes.
	if a.Usage.PromptTokensDetails.CachedTokens != 49 || a.Usage.PromptTokens != 50 || whole.Usage.PromptTokensDetails.CachedTokens != 0 {
		t.Errorf("usage %+v", a.Usage)
	}
	if s := decode.Stats(); s.PrefillTokens != 1 || s.RemoteHits != 50 {
		t.Errorf("the decode server computed the prompt: %+v", s)
	}
	eventually(t, "the blocks to be given up", func() bool { return prefill.Stats().BlocksUsed == 0 })
	if diff := cmp.Diff([]Transfers{{Served: 1}, {Fetched: 1, FetchedTokens: 50}}, []Transfers{prefill.Transfers(), decode.Transfers()}); diff != "" {
		t.Errorf("transfers (-want +got):\n%s", diff)
	}

	// The same blocks a second time are not there any more.
	post[errorBody](decode, "/v1/completions", decodeBody(longPrompt+"other", params, ""), 500)
	if got := prefill.Transfers().Refused; got != 1 {
		t.Errorf("%d refused, want 1", got)
	}
}

func TestTransferPages(t *testing.T) {
	prefill, decode, forgotten := leg(t, nil), leg(t, nil), leg(t, func(c *Transfer) { c.HoldFor = time.Millisecond })
	post[legAnswer](decode, "/v1/completions", decodeBody(longPrompt, prefilled(prefill, longPrompt), ""), 200)
	prefilled(forgotten, longPrompt)
	for _, c := range []struct {
		x    *started
		line string
	}{
		{decode, `vllm:external_prefix_cache_hits_total{model_name="sim-model"} 50`},
		{decode, `vllm:nixl_xfer_time_seconds_count{model_name="sim-model"} 1`},
		{decode, `vllm:nixl_bytes_transferred_sum{model_name="sim-model"} 6.5536e+06`},
		{decode, `vllm:nixl_num_failed_transfers_total{model_name="sim-model"} 0`},
		{forgotten, `vllm:nixl_num_kv_expired_reqs_total{model_name="sim-model"} 1`},
		{prefill, `vllm:nixl_num_kv_expired_reqs_total{model_name="sim-model"} 0`},
		{prefill, `vllm:request_success_total{finish_reason="length",model_name="sim-model"} 1`},
	} {
		eventually(t, c.line, func() bool {
			_, page := c.x.call("GET", "/metrics", "")
			return strings.Contains(page, c.line+"\n")
		})
	}
	if s := forgotten.Stats(); s.Held != 0 || s.BlocksUsed != 0 {
		t.Errorf("blocks nobody came for are held: %+v", s)
	}
}

// What is wrong with the prefill leg, and what the decode leg makes of it under each policy.
func TestPromptsThatAreLost(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(prefill *started, params string) string
		served Transfers
	}{
		{"unknown request", func(_ *started, p string) string {
			return strings.Replace(p, `"remote_request_id":"`, `"remote_request_id":"x`, 1)
		}, Transfers{Refused: 1}},
		{"another engine, as after a restart", func(_ *started, p string) string {
			return strings.Replace(p, `"remote_engine_id":"`, `"remote_engine_id":"x`, 1)
		}, Transfers{Refused: 1}},
		{"other blocks", func(_ *started, p string) string {
			return strings.Replace(p, `"remote_block_ids":[[`, `"remote_block_ids":[[77,`, 1)
		}, Transfers{Refused: 1}},
		{"refused", func(x *started, p string) string { x.set(`{"transferRefuseProbability":1}`); return p }, Transfers{Refused: 1}},
		{"dropped half-way", func(x *started, p string) string { x.set(`{"transferDropProbability":1}`); return p }, Transfers{Broken: 1}},
		{"the server is gone", func(x *started, p string) string { x.RefuseFor(time.Hour); return p }, Transfers{}},
	} {
		for _, policy := range []LoadFailure{FailRequest, Recompute} {
			t.Run(c.name+", "+string(policy), func(t *testing.T) {
				prefill, decode := leg(t, nil), leg(t, func(c *Transfer) { c.OnLoadFailure = policy })
				params := c.spoil(prefill, prefilled(prefill, longPrompt))
				if policy == Recompute {
					a := post[legAnswer](decode, "/v1/completions", decodeBody(longPrompt, params, ""), 200)
					if a.Usage.CompletionTokens != 4 || a.Usage.PromptTokensDetails.CachedTokens != 0 || decode.Stats().PrefillTokens != 50 {
						t.Errorf("usage %+v, stats %+v: want the prompt to be computed", a.Usage, decode.Stats())
					}
				} else {
					e := post[errorBody](decode, "/v1/completions", decodeBody(longPrompt, params, ""), 500)
					if e.Error.Type != "InternalServerError" || e.Error.Code != 500 {
						t.Errorf("error %+v", e.Error)
					}
				}
				if got := prefill.Transfers(); got != c.served {
					t.Errorf("prefill server %+v, want %+v", got, c.served)
				}
				if got := decode.Transfers(); got.Failed != 1 || got.Fetched != 0 {
					t.Errorf("decode server %+v", got)
				}
				if s := decode.Stats(); s.BlocksUsed != 0 || s.Waiting != 0 {
					t.Errorf("left behind: %+v", s)
				}
			})
		}
	}
}

// A stream has begun when the prompt is lost: vLLM puts the error into it.
func TestLostPromptInAStream(t *testing.T) {
	prefill, decode := leg(t, nil), leg(t, nil)
	params := prefilled(prefill, longPrompt)
	prefill.set(`{"transferDropProbability":1}`)
	resp, err := decode.do(t.Context(), "POST", "/v1/completions", decodeBody(longPrompt, params, `,"stream":true`))
	if err != nil {
		t.Fatal(err)
	}
	data, err := events(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || len(data) != 2 || !strings.Contains(data[0], `"code":500`) || data[1] != "[DONE]" {
		t.Errorf("status %d, events %q, %v", resp.StatusCode, data, err)
	}
}

// The legs must be of one prompt: an orchestrator that changes it is found out.
func TestDifferentPrompts(t *testing.T) {
	prefill, decode := leg(t, nil), leg(t, nil)
	params := prefilled(prefill, longPrompt)
	other := strings.Repeat("abcd", 49) + "efgh"
	post[errorBody](decode, "/v1/completions", decodeBody(other, params, ""), 500)
	if got := prefill.Transfers(); got.Refused != 1 || got.Served != 0 {
		t.Errorf("transfers %+v", got)
	}
}

func TestClientGoesDuringATransfer(t *testing.T) {
	prefill, decode := leg(t, nil), leg(t, nil)
	params := prefilled(prefill, longPrompt)
	prefill.set(`{"transferHangProbability":1}`)
	ctx, cancel := context.WithCancel(t.Context())
	ended := tells(func() error {
		_, err := decode.do(ctx, "POST", "/v1/completions", decodeBody(longPrompt, params, ""))
		return err
	})
	eventually(t, "the transfer to hang", func() bool { s := decode.Stats(); return s.Fetching == 1 && s.BlocksUsed == 4 })
	cancel()
	if err := <-ended; err == nil {
		t.Error("answered")
	}
	eventually(t, "the decode server to let go", func() bool {
		s := decode.Stats()
		return s.BlocksUsed == 0 && s.Waiting == 0 && s.Ended[engine.Aborted] == 1
	})
	eventually(t, "the prefill server to see it", func() bool { return prefill.Transfers().Broken == 1 })
	if s := prefill.Stats(); s.Held != 1 {
		t.Errorf("%d held: as in vLLM, blocks stay until they expire", s.Held)
	}
}

func TestPrefillServerDiesInATransfer(t *testing.T) {
	prefill, decode := leg(t, nil), leg(t, nil)
	params := prefilled(prefill, longPrompt)
	prefill.set(`{"transferHangProbability":1}`)
	answer := tells(func() int {
		resp, err := decode.do(t.Context(), "POST", "/v1/completions", decodeBody(longPrompt, params, ""))
		if err != nil {
			return 0
		}
		return resp.StatusCode
	})
	eventually(t, "the transfer to be under way", func() bool { return decode.Stats().Fetching == 1 })
	if err := prefill.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != http.StatusInternalServerError {
		t.Errorf("status %d, want 500", got)
	}
}

// What a prefill leg is answered that is not as it should be.
func TestOddPrefillLegs(t *testing.T) {
	x := leg(t, nil)
	t.Run("B164: streamed, no one learns where the blocks are", func(t *testing.T) {
		body := strings.Replace(prefillBody(longPrompt), `"stream":false`, `"stream":true`, 1)
		for _, c := range x.streamed("/v1/completions", body) {
			if text := fmt.Sprint(c); strings.Contains(text, "remote_engine_id") {
				t.Errorf("chunk %s", text)
			}
		}
		if x.Stats().Held != 1 {
			t.Error("nothing is held")
		}
	})
	t.Run("B167: without a cap on its tokens", func(t *testing.T) {
		body := strings.Replace(prefillBody("short"), `"max_tokens":1,`, "", 1)
		if a := post[legAnswer](x, "/v1/completions", body, 200); a.KVTransferParams != nil || a.Choices[0].FinishReason != "stop" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("B173: failed within an answer of status 200", func(t *testing.T) {
		x.set(`{"emptyPrefillProbability":1}`)
		a := post[legAnswer](x, "/v1/completions", prefillBody("a failing prompt"), 200)
		if a.KVTransferParams != nil || a.Choices[0].FinishReason != "error" || x.Stats().Held != 1 {
			t.Errorf("%+v", a)
		}
		if a := post[legAnswer](x, "/v1/completions", `{"prompt":"x","max_tokens":1}`, 200); a.Choices[0].FinishReason != "length" {
			t.Errorf("a request for one server alone fails: %+v", a)
		}
		x.set(`{"emptyPrefillProbability":0}`)
	})
	t.Run("params that name nothing are served as if there were none", func(t *testing.T) {
		for _, params := range []string{"null", "{}", `{"do_remote_prefill":true}`, `{"do_remote_prefill":true,"remote_engine_id":"e","remote_host":"h","remote_port":1}`} {
			a := post[legAnswer](x, "/v1/completions", decodeBody("unheard of "+params, params, ""), 200)
			if a.Usage.PromptTokensDetails.CachedTokens != 0 {
				t.Errorf("%s: %+v", params, a.Usage)
			}
		}
	})
	t.Run("params of another type", func(t *testing.T) {
		for _, params := range []string{`"x"`, `[1]`, `{"remote_block_ids":["DUMMY"]}`, `{"remote_block_ids":[[1],[2]]}`} {
			post[errorBody](x, "/v1/completions", decodeBody("x", params, ""), 400)
		}
	})
	t.Run("a server without a connector ignores them", func(t *testing.T) {
		if a := post[legAnswer](start(t, nil), "/v1/completions", prefillBody(longPrompt), 200); a.KVTransferParams != nil {
			t.Errorf("%+v", a)
		}
	})
}

func FuzzTransferParams(f *testing.F) {
	f.Add([]byte(`{"remote_block_ids":[[1,2]]}`))
	f.Add([]byte(`{"remote_block_ids":[1,2],"do_remote_prefill":true}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, again transferParams
		if json.Unmarshal(b, &p) != nil {
			return
		}
		if len(p.RemoteBlockIDs) == 0 {
			p.RemoteBlockIDs = nil // null, [] and [[]] are one
		}
		if err := json.Unmarshal(mustJSON(p), &again); err != nil {
			t.Fatal(err)
		}
		if len(again.RemoteBlockIDs) == 0 {
			again.RemoteBlockIDs = nil
		}
		if diff := cmp.Diff(p, again, cmp.AllowUnexported(transferParams{})); diff != "" {
			t.Errorf("read again (-first +second):\n%s", diff)
		}
	})
}
