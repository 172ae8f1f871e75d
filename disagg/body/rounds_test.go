package body_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/disagg/body"
)

func rounds(t *testing.T, client string, chunk int64) (*body.Rounds, body.Obstacle) {
	t.Helper()
	o, err := body.Read([]byte(client))
	if err != nil {
		t.Fatal(err)
	}
	return o.Rounds(body.Chat, chunk)
}

// What each round sends is the client's body but for what must differ.
func TestRoundBodies(t *testing.T) {
	const client = `{ "model":"m", "messages":[ {"role":"user","content":"a\u00e9"} ] ,"seed":9007199254740993, "max_tokens" : 50,"min_tokens":15,"stream":true,` +
		`"stream_options":{"include_usage":true},"cache_hit_threshold":0.5,"kv_transfer_params":{"x":1},"continue_final_message":false,"temperature":1.0}`
	r, why := rounds(t, client, 10)
	if why != "" || r.Budget != 50 || !r.Streams || !r.Usage {
		t.Fatalf("%+v, %s", r, why)
	}
	for _, tt := range []struct {
		name, want string
		got        body.Body
	}{
		{"first", `{ "model":"m", "messages":[ {"role":"user","content":"a\u00e9"} ] ,"seed":9007199254740993, "max_tokens" : 10,"min_tokens":10,"stream":false,` +
			`"cache_hit_threshold":0.5,"kv_transfer_params":{"x":1},"continue_final_message":false,"temperature":1.0,"max_completion_tokens":10}`, r.First(10)},
		{"second", `{ "model":"m", "messages":[ {"role":"user","content":"a\u00e9"},{"role":"assistant","content":"b\n\u00e9"}] ,"seed":9007199254740993, "max_tokens" : 10,"min_tokens":5,"stream":false,` +
			`"cache_hit_threshold":0,"continue_final_message":true,"temperature":1.0,"max_completion_tokens":10,"add_generation_prompt":false}`, r.Next(10, 10, []byte(`b\n\u00e9`))},
		{"third", `{ "model":"m", "messages":[ {"role":"user","content":"a\u00e9"},{"role":"assistant","content":"c"}] ,"seed":9007199254740993, "max_tokens" : 7,"min_tokens":0,"stream":false,` +
			`"cache_hit_threshold":0,"continue_final_message":true,"temperature":1.0,"max_completion_tokens":7,"add_generation_prompt":false}`, r.Next(7, 20, []byte(`c`))},
		{"without a limit", `{ "model":"m", "messages":[ {"role":"user","content":"a\u00e9"},{"role":"assistant","content":"c"}] ,"seed":9007199254740993, "min_tokens":15,"stream":false,` +
			`"cache_hit_threshold":0,"continue_final_message":true,"temperature":1.0,"add_generation_prompt":false}`, r.Next(0, 20, []byte(`c`))},
		{"at once", strings.NewReplacer(`"kv_transfer_params":{"x":1},`, "", "0.5", "0").Replace(client), r.Whole()},
	} {
		if diff := cmp.Diff(tt.want, string(tt.got.Bytes())); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestObstacles(t *testing.T) {
	with := func(more string) string {
		return `{"messages":[{"role":"user","content":"x"}],"max_tokens":50` + more + `}`
	}
	seen := make(map[body.Obstacle]bool)
	for _, tt := range []struct {
		name, client string
		want         body.Obstacle
	}{
		{"nothing", with(``), ""},
		{"no limit", `{"messages":[1]}`, ""},
		{"null limits", `{"messages":[1],"max_tokens":null,"max_completion_tokens":null}`, ""},
		{"the newer limit counts", `{"messages":[1],"max_tokens":5,"max_completion_tokens":50}`, ""},
		{"F20 within a chunk", `{"messages":[1],"max_tokens":10}`, body.WithinChunk},
		{"F20 the newer limit counts", `{"messages":[1],"max_tokens":50,"max_completion_tokens":9}`, body.WithinChunk},
		{"limit 0", `{"messages":[1],"max_tokens":0}`, body.BadLimit},
		{"limit of text", `{"messages":[1],"max_tokens":"50"}`, body.BadLimit},
		{"limit with a fraction", `{"messages":[1],"max_completion_tokens":50.5}`, body.BadLimit},
		{"huge limit", `{"messages":[1],"max_tokens":99999999999999999999}`, body.BadLimit},
		{"least below 0", with(`,"min_tokens":-1`), body.BadLimit},
		{"no messages", `{"max_tokens":50}`, body.Continuation},
		{"empty messages", `{"messages":[ ]}`, body.Continuation},
		{"one answer", with(`,"n":1,"best_of":null`), ""},
		{"several", with(`,"n":2`), body.SeveralAnswers},
		{"beams", with(`,"use_beam_search":true`), body.SeveralAnswers},
		{"logprobs", with(`,"logprobs":true,"top_logprobs":2`), body.Logprobs},
		{"no logprobs", with(`,"logprobs":false,"top_logprobs":0`), ""},
		{"tools", with(`,"tools":[{"type":"function"}]`), body.Tools},
		{"tools, never called", with(`,"tool_choice":"none","tools":[{"type":"function"}]`), ""},
		{"no tools", with(`,"tools":[ ]`), ""},
		{"JSON", with(`,"response_format":{"type":"json_object"}`), body.Structured},
		{"text", with(`,"response_format":{"type": "text"}`), ""},
		{"a grammar", with(`,"guided_regex":"a+"`), body.Structured},
		{"stop", with(`,"stop":["x"]`), body.StopStrings},
		{"no stop", with(`,"stop":[]`), ""},
		{"a key in escapes", with(`,"sto\u0070":"x"`), body.StopStrings},
		{"a key with a colon", with(`,"a:b" : "stop"`), ""},
		{"penalty", with(`,"presence_penalty":0.1`), body.Penalties},
		{"no penalty", with(`,"presence_penalty":0.0,"frequency_penalty":0`), ""},
		{"goes on", with(`,"continue_final_message":true`), body.Continuation},
		{"as always", with(`,"continue_final_message":false,"add_generation_prompt":true`), ""},
		{"no role", with(`,"add_generation_prompt":false`), body.Continuation},
		{"spoken", with(`,"modalities":["text","audio"]`), body.Modalities},
		{"written", with(`,"modalities":[ "text" ]`), ""},
	} {
		r, why := rounds(t, tt.client, 10)
		if why != tt.want || (r == nil) != (why != "") {
			t.Errorf("%s: %q, want %q", tt.name, why, tt.want)
		}
		seen[why] = true
	}
	o, err := body.Read([]byte(`{"prompt":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, why := o.Rounds(body.Completions, 10); why != body.NotChat {
		t.Errorf("completions: %q", why)
	}
	seen[body.NotChat] = true
	for _, why := range body.Obstacles() {
		if !seen[why] {
			t.Errorf("nothing is in the way by %s", why)
		}
	}
}

// The body of a round is JSON, has one message more, and of the rest nothing is another but
// for what rounds are about.
func FuzzRounds(f *testing.F) {
	for _, s := range []string{
		`{"messages":[{"role":"user","content":"hi"}],"max_tokens":50,"seed":9007199254740993}`, `{"messages":[1 ] , "stream":true,"stream_options":{"include_usage":true}}`,
		`{"messages":[1],"messages":[{},[]],"min_tokens":4,"cache_hit_threshold":1,"continue_final_message":null}`, `{"a:b" : ":","sto\u0070":null,"messages":["]"]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := body.Read(raw)
		if err != nil {
			return
		}
		r, why := o.Rounds(body.Chat, 10)
		if (r == nil) != (why != "") {
			t.Fatalf("%q: %v, %q", raw, r, why)
		}
		if r == nil {
			return
		}
		client := members(t, raw)
		var before []json.RawMessage
		if json.Unmarshal(client["messages"], &before) != nil {
			return // it is stricter in strings
		}
		own := whole{
			"messages": nil, "max_tokens": nil, "max_completion_tokens": nil, "min_tokens": nil, "stream": nil, "stream_options": nil, "cache_hit_threshold": nil,
			"continue_final_message": nil, "add_generation_prompt": nil, "kv_transfer_params": nil, "ec_transfer_params": nil, "bootstrap_host": nil, "bootstrap_port": nil, "bootstrap_room": nil,
			"bootstrap_pair_key": nil, "disagg_prefill_dp_rank": nil, "disaggregated_params": nil, "vllm_xargs": nil, "sampling_params": nil,
		}
		for more, b := range map[int]body.Body{0: r.First(10), 1: r.Next(10, 10, []byte(`x\"y`))} {
			got := members(t, b.Bytes())
			var after []json.RawMessage
			if err := json.Unmarshal(got["messages"], &after); err != nil || len(after) != len(before)+more {
				t.Fatalf("%q has become %q: %v", raw, b.Bytes(), err)
			}
			for key, value := range client {
				if _, ok := own[key]; !ok && !bytes.Equal(got[key], value) {
					t.Errorf("%s is %s in %q", key, got[key], b.Bytes())
				}
			}
		}
		if b := r.Whole().Bytes(); !json.Valid(b) {
			t.Errorf("%q has become %q", raw, b)
		}
	})
}

// What others have encoded all legs are told, and what the client says of it none.
func TestEncoded(t *testing.T) {
	const client = `{"model":"m","ec_transfer_params":{"evil":1},"max_tokens":5}`
	read, err := body.Read([]byte(client))
	if err != nil {
		t.Fatal(err)
	}
	o := read.Encoded([]byte(`{"h":{"peer_port":1}}`))
	alone, changed := o.Alone()
	for name, b := range map[string]body.Body{
		"alone": alone, "prefill": o.NIXLPrefill(body.Chat), "decode": o.NIXLDecode([]byte(`{}`)), "shared": o.SharedDecode(), "sglang": o.SGLangDecode(body.Bootstrap{}),
	} {
		if s := string(b.Bytes()); strings.Count(s, "ec_transfer_params") != 1 || !strings.Contains(s, `"ec_transfer_params":{"h":{"peer_port":1}}`) {
			t.Errorf("%s: %s", name, s)
		}
	}
	if !changed {
		t.Error("the body is said to be the client's")
	}
	if b, _ := read.Encoded(nil).Alone(); string(b.Bytes()) != `{"model":"m","max_tokens":5}` {
		t.Errorf("nothing encoded: %s", b.Bytes())
	}
}
