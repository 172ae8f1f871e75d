package body_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/disagg/body"
)

// B214, in a body: a client cannot have an engine fetch from whomever it names, nor keep a
// cache for nobody, whichever leg the engine gets.
func TestB214BetweenEngines(t *testing.T) {
	const evil = `{"kv_transfer_params":{"do_remote_prefill":true,"remote_host":"169.254.169.254","remote_port":80},"prompt":"p","bootstrap_host":"10.0.0.1",` +
		`"bootstrap\u005fport":1,"bootstrap_room":2,"ec_transfer_params":{"a":[1]},"max_tokens":5,"kv_transfer\u005fparams":{"do_remote_decode":true}}`
	const ask = `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`
	meet := body.Bootstrap{Host: "h", Port: 8998, Room: 7}
	o := read(t, evil)
	alone, changed := o.Alone()
	if !changed {
		t.Error("the body is said to be as it came")
	}
	for name, tt := range map[string]struct {
		got  body.Body
		want string
	}{
		"alone":          {alone, `{"prompt":"p","max_tokens":5}`},
		"NIXL, prefill":  {o.NIXLPrefill(body.Completions), `{"kv_transfer_params":` + ask + `,"prompt":"p","max_tokens":1,"kv_transfer\u005fparams":` + ask + `,"max_completion_tokens":1,"min_tokens":1,"stream":false}`},
		"NIXL, decode":   {o.NIXLDecode([]byte(`{"x":1}`)), `{"kv_transfer_params":{"x":1},"prompt":"p","max_tokens":5,"kv_transfer\u005fparams":{"x":1}}`},
		"SGLang, decode": {o.SGLangDecode(meet), `{"prompt":"p","bootstrap_host":"h","bootstrap\u005fport":8998,"bootstrap_room":7,"max_tokens":5}`},
		"shared, decode": {o.SharedDecode(), `{"prompt":"p","max_tokens":5,"cache_hit_threshold":0}`},
	} {
		if diff := cmp.Diff(tt.want, string(tt.got.Bytes())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	const plain = `{"prompt":"kv_transfer_params","max_tokens":5,"metadata":{"kv_transfer_params":1}}`
	if b, changed := read(t, plain).Alone(); changed || string(b.Bytes()) != plain {
		t.Errorf("a body with nothing of the kind has become %s", b.Bytes())
	}
}

// B214, where vLLM reads it too: what a request to generate has in sampling_params.extra_args
// and the OpenAI APIs in vllm_xargs ends up in the same place. And what other engines
// tell each other.
func TestB214FreeArguments(t *testing.T) {
	const fetch = `"kv_transfer_params":{"do_remote_prefill":true,"remote_host":"169.254.169.254"}`
	many := `"a":1` + strings.Repeat(`,"a":1`, 2000)
	for _, tt := range []struct {
		name, client string
		want         string // of who does it alone; empty: as it came
	}{
		{"generate", `{"token_ids":[1],"sampling_params":{"temperature":1e0, "extra_args":{` + fetch + `, "mine":[1.0]}},"x":9007199254740993}`, `{"token_ids":[1],"sampling_params":{"temperature":1e0, "extra_args":{"mine":[1.0]}},"x":9007199254740993}`},
		{"chat", `{"vllm_xargs":{"a":1,"ec_transfer_params":{"b":[2]}}}`, `{"vllm_xargs":{"a":1}}`},
		{"nothing else in it", `{"vllm_xargs":{` + fetch + `}}`, `{"vllm_xargs":{}}`},
		{"keys in escapes", `{"sampling\u005fparams":{"extra\u005fargs":{"kv\u005ftransfer_params":1}}}`, `{"sampling\u005fparams":{"extra\u005fargs":{}}}`},
		{"twice", `{"sampling_params":{"extra_args":{` + fetch + `}},"sampling_params":{"n":1,"extra_args":{` + fetch + `},"extra_args":{` + fetch + `}}}`, `{"sampling_params":{"extra_args":{}},"sampling_params":{"n":1,"extra_args":{},"extra_args":{}}}`},
		{"in both places", `{` + fetch + `,"vllm_xargs":{"bootstrap_host":"10.0.0.1"},"p":1}`, `{"vllm_xargs":{},"p":1}`},
		{"SGLang's others", `{"bootstrap_pair_key":"k","p":1,"disagg_prefill_dp_rank":2}`, `{"p":1}`},
		{"TensorRT-LLM", `{"p":1,"disaggregated_params":{"request_type":"generation_only","encoded_opaque_state":"AA=="}}`, `{"p":1}`},
		{"nothing of the kind", `{"vllm_xargs":{"a":"kv_transfer_params"},"sampling_params":{"extra_args":null}}`, ""},
		{"somewhere else", `{"metadata":{"vllm_xargs":{` + fetch + `}},"sampling_params":{"logits":{"extra_args":{` + fetch + `}}}}`, ""},
		{"no object", `{"vllm_xargs":[{` + fetch + `}],"sampling_params":[{"extra_args":{` + fetch + `}}]}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, changed := read(t, tt.client).Alone()
			want := tt.want
			if want == "" {
				want = tt.client
			}
			if diff := cmp.Diff(want, string(b.Bytes())); diff != "" || changed != (tt.want != "") {
				t.Errorf("changed %v (-want +got):\n%s", changed, diff)
			}
		})
	}
	o := read(t, `{"token_ids":[1],"sampling_params":{"max_tokens":9,"extra_args":{"a":1,`+fetch+`}}}`)
	if want, got := `{"token_ids":[1],"sampling_params":{"max_tokens":1,"extra_args":{"a":1},"min_tokens":1},"stream":false,"kv_transfer_params":`+ask+`}`, string(o.NIXLPrefill(body.Generate).Bytes()); got != want {
		t.Errorf("prefill leg %s\nwant %s", got, want)
	}
	if want, got := `{"token_ids":[1],"sampling_params":{"max_tokens":9,"extra_args":{"a":1}},"kv_transfer_params":{"x":1}}`, string(o.NIXLDecode([]byte(`{"x":1}`)).Bytes()); got != want {
		t.Errorf("decode leg %s\nwant %s", got, want)
	}
	if _, err := body.Read([]byte(`{"vllm_xargs":{` + many + `}}`)); !errors.Is(err, body.ErrTooMany) {
		t.Errorf("thousands of arguments: %v", err)
	}
}

func TestSeveral(t *testing.T) {
	for _, tt := range []struct {
		client string
		api    body.API
		want   bool
	}{
		{`{"prompt":"p"}`, body.Completions, false},
		{`{"prompt":"p","n":1,"best_of":1}`, body.Completions, false},
		{`{"prompt":"p","n":null}`, body.Completions, false},
		{`{"n":3}`, body.Chat, true},
		{`{"n":"3"}`, body.Chat, true},
		{`{"n":1,"\u006e":2}`, body.Chat, true},
		{`{"best_of":2}`, body.Completions, true},
		{`{"prompt":["p"]}`, body.Completions, false},
		{`{"prompt":["p","q"]}`, body.Completions, true},
		{`{"prompt":[1,2,3]}`, body.Completions, false},
		{`{"prompt":[ [1,2,3] ]}`, body.Completions, false},
		{`{"prompt":[[1,[2]],[3]]}`, body.Completions, true},
		{`{"prompt":[]}`, body.Completions, false},
		{`{"token_ids":[1,2],"sampling_params":{"n":2}}`, body.Generate, true},
		{`{"token_ids":[1,2],"n":2,"sampling_params":{"n":1}}`, body.Generate, false},
	} {
		if got := read(t, tt.client).Several(tt.api); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.client, got, tt.want)
		}
	}
}

// A body that is said to be compressed is, unless an engine could read it as it is.
func TestCompressed(t *testing.T) {
	for _, raw := range []string{"", "{", "\x1f\x8b\x08\x00\x00", "x\x9c{", "(\xb5\x2f\xfd", "{\x01\x02", "[1]", "  ", "\xff\xfe"} {
		if err := body.Compressed([]byte(raw)); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
	for _, raw := range []string{
		`{"a":1}`, " \n{ \t}", "\xef\xbb\xbf{\"a\":1}", "{\x00\"\x00", "\x00{\x00\"", "\xff\xfe{\x00\"\x00", "\xfe\xff\x00{\x00\"",
		"\xff\xfe\x00\x00{\x00\x00\x00\"\x00\x00\x00", "\x00\x00\xfe\xff\x00\x00\x00{\x00\x00\x00\"", " \x00{\x00}\x00",
	} {
		if err := body.Compressed([]byte(raw)); err == nil {
			t.Errorf("%q is taken", raw)
		}
	}
}
