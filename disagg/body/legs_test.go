package body_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/disagg/body"
	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

const (
	ask   = `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`
	given = `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1,2,3]],"remote_engine_id":"e-1","remote_host":"10.0.0.5","remote_port":5600,"remote_num_tokens":9007199254740993}`
)

func readBytes(raw []byte) (*body.Outline, error) { return body.Read(raw) }

func read(t *testing.T, raw string) *body.Outline {
	t.Helper()
	o, err := readBytes([]byte(raw))
	if err != nil {
		t.Fatalf("read %s: %v", raw, err)
	}
	return o
}

// The bodies of the two legs, byte for byte: the client's own, but for what must differ.
func TestNIXLBodies(t *testing.T) {
	tests := []struct {
		name            string
		api             body.API
		client          string
		prefill, decode string
	}{
		{
			"E1 limit", body.Chat,
			`{"model":"m","messages":[{"role":"user","content":"a<b & c"}],"max_tokens":50,"seed":7}`,
			`{"model":"m","messages":[{"role":"user","content":"a<b & c"}],"max_tokens":1,"seed":7,"max_completion_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":` + ask + `}`,
			`{"model":"m","messages":[{"role":"user","content":"a<b & c"}],"max_tokens":50,"seed":7,"kv_transfer_params":` + given + `}`,
		}, {
			"E2 stream", body.Completions,
			`{ "prompt" : "p" , "stream" : true , "stream_options" : {"include_usage":true} , "min_tokens" : 4 }`,
			`{ "prompt" : "p" , "stream" : false , "min_tokens" : 1 ,"max_tokens":1,"max_completion_tokens":1,"kv_transfer_params":` + ask + `}`,
			`{ "prompt" : "p" , "stream" : true , "stream_options" : {"include_usage":true} , "min_tokens" : 4 ,"kv_transfer_params":` + given + `}`,
		}, {
			"B164 stream options last", body.Chat,
			`{"stream":true,"messages":[],"stream_options":{"include_usage":true}}`,
			`{"stream":false,"messages":[],"max_tokens":1,"max_completion_tokens":1,"min_tokens":1,"kv_transfer_params":` + ask + `}`,
			`{"stream":true,"messages":[],"stream_options":{"include_usage":true},"kv_transfer_params":` + given + `}`,
		}, {
			"E4 B163 no limits", body.Completions,
			`{"prompt":"p"}`,
			`{"prompt":"p","max_tokens":1,"max_completion_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":` + ask + `}`,
			`{"prompt":"p","kv_transfer_params":` + given + `}`,
		}, {
			"E5 B167 max_completion_tokens", body.Chat,
			`{"messages":[],"max_completion_tokens":500}`,
			`{"messages":[],"max_completion_tokens":1,"max_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":` + ask + `}`,
			`{"messages":[],"max_completion_tokens":500,"kv_transfer_params":` + given + `}`,
		}, {
			"null limit", body.Chat,
			`{"messages":[],"max_tokens":null}`,
			`{"messages":[],"max_tokens":1,"max_completion_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":` + ask + `}`,
			`{"messages":[],"max_tokens":null,"kv_transfer_params":` + given + `}`,
		}, {
			"E7 responses", body.Responses,
			`{"input":"p"}`,
			`{"input":"p","max_output_tokens":1,"stream":false,"kv_transfer_params":` + ask + `}`,
			`{"input":"p","kv_transfer_params":` + given + `}`,
		}, {
			"E8 generate without sampling_params", body.Generate,
			`{"token_ids":[1,2,3]}`,
			`{"token_ids":[1,2,3],"sampling_params":{"max_tokens":1,"min_tokens":1},"stream":false,"kv_transfer_params":` + ask + `}`,
			`{"token_ids":[1,2,3],"kv_transfer_params":` + given + `}`,
		}, {
			"generate with sampling_params", body.Generate,
			`{"sampling_params":{"seed":1,"max_tokens":9,"x":{"max_tokens":3}},"token_ids":[1]}`,
			`{"sampling_params":{"seed":1,"max_tokens":1,"x":{"max_tokens":3},"min_tokens":1},"token_ids":[1],"stream":false,"kv_transfer_params":` + ask + `}`,
			`{"sampling_params":{"seed":1,"max_tokens":9,"x":{"max_tokens":3}},"token_ids":[1],"kv_transfer_params":` + given + `}`,
		}, {
			"generate with null sampling_params", body.Generate,
			`{"sampling_params":null}`,
			`{"sampling_params":{"max_tokens":1,"min_tokens":1},"stream":false,"kv_transfer_params":` + ask + `}`,
			`{"sampling_params":null,"kv_transfer_params":` + given + `}`,
		}, {
			"E31 messages", body.Messages,
			`{"model":"m","max_tokens":100,"messages":[],"stream":true}`,
			`{"model":"m","max_tokens":1,"messages":[],"stream":false,"kv_transfer_params":` + ask + `}`,
			`{"model":"m","max_tokens":100,"messages":[],"stream":true,"kv_transfer_params":` + given + `}`,
		}, {
			"E20 numbers as written", body.Chat,
			`{"seed":9007199254740993,"temperature":1.0,"top_p":1e2,"logit_bias":{"5":-1E+2},"user":"\u2028\u003c"}`,
			`{"seed":9007199254740993,"temperature":1.0,"top_p":1e2,"logit_bias":{"5":-1E+2},"user":"\u2028\u003c","max_tokens":1,"max_completion_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":` + ask + `}`,
			`{"seed":9007199254740993,"temperature":1.0,"top_p":1e2,"logit_bias":{"5":-1E+2},"user":"\u2028\u003c","kv_transfer_params":` + given + `}`,
		}, {
			"B029 keys twice, one escaped", body.Chat,
			`{"max_tokens":5,"max\u005ftokens":6,"stream_options":{},"stream_options":{},"kv_transfer_params":{"remote_host":"evil"}}`,
			`{"max_tokens":1,"max\u005ftokens":1,"kv_transfer_params":` + ask + `,"max_completion_tokens":1,"min_tokens":1,"stream":false}`,
			`{"max_tokens":5,"max\u005ftokens":6,"stream_options":{},"stream_options":{},"kv_transfer_params":` + given + `}`,
		}, {
			"nothing but what is dropped", body.Responses,
			`{"stream_options":{"a":[1]}}`,
			`{"max_output_tokens":1,"stream":false,"kv_transfer_params":` + ask + `}`,
			`{"stream_options":{"a":[1]},"kv_transfer_params":` + given + `}`,
		}, {
			"empty", body.Responses, ` {} `,
			` {"max_output_tokens":1,"stream":false,"kv_transfer_params":` + ask + `} `,
			` {"kv_transfer_params":` + given + `} `,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := read(t, tt.client)
			if diff := cmp.Diff(tt.prefill, string(o.NIXLPrefill(tt.api).Bytes())); diff != "" {
				t.Errorf("prefill (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.decode, string(o.NIXLDecode([]byte(given)).Bytes())); diff != "" {
				t.Errorf("decode (-want +got):\n%s", diff)
			}
			if b, changed := o.Alone(); !changed && string(b.Bytes()) != tt.client {
				t.Errorf("the client's own body has become %s", b.Bytes())
			}
		})
	}
}

// The prefill body as the reference sends it, but for the order of keys, which is the
// client's here.
func TestGoldenPrefillBody(t *testing.T) {
	o := read(t, `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":50,"seed":7}`)
	golden := `{"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_block_ids":null,"remote_engine_id":null,"remote_host":null,"remote_port":null},` +
		`"max_completion_tokens":1,"max_tokens":1,"messages":[{"role":"user","content":"hi"}],"min_tokens":1,"model":"m","seed":7,"stream":false}`
	if diff := cmp.Diff(decoded(t, golden), decoded(t, string(o.NIXLPrefill(body.Chat).Bytes()))); diff != "" {
		t.Error(diff)
	}
}

func decoded(t *testing.T, raw string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return m
}

// F1: the reference sends both legs the same body. Here the prefill leg is limited to one
// token as with every connector (B167), which SGLang's prefill engine does by itself too.
func TestF1SGLangBodies(t *testing.T) {
	b := body.Bootstrap{Host: "::1", Port: 8998, Room: 9223372036854775807}
	const meet = `"bootstrap_host":"::1","bootstrap_port":8998,"bootstrap_room":9223372036854775807`
	tests := []struct {
		name, client, prefill, decode string
		api                           body.API
	}{
		{
			"limit and stream", `{"messages":[],"max_tokens":50,"stream":true}`,
			`{"messages":[],"max_tokens":1,"stream":true,` + meet + `}`,
			`{"messages":[],"max_tokens":50,"stream":true,` + meet + `}`, body.Chat,
		},
		{"no limit", `{"messages":[]}`, `{"messages":[],"max_tokens":1,` + meet + `}`, `{"messages":[],` + meet + `}`, body.Chat},
		{
			"B167 the other limit", `{"max_completion_tokens":500,"min_tokens":3}`,
			`{"max_completion_tokens":1,"min_tokens":1,` + meet + `}`,
			`{"max_completion_tokens":500,"min_tokens":3,` + meet + `}`, body.Chat,
		},
		{
			"a client that meets by itself", `{"bootstrap_room":1,"bootstrap_host":"evil","prompt":"p"}`,
			`{"bootstrap_room":9223372036854775807,"bootstrap_host":"::1","prompt":"p","max_tokens":1,"bootstrap_port":8998}`,
			`{"bootstrap_room":9223372036854775807,"bootstrap_host":"::1","prompt":"p","bootstrap_port":8998}`, body.Completions,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := read(t, tt.client)
			if diff := cmp.Diff(tt.prefill, string(o.SGLangPrefill(tt.api, b).Bytes())); diff != "" {
				t.Errorf("prefill (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.decode, string(o.SGLangDecode(b).Bytes())); diff != "" {
				t.Errorf("decode (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSharedStorageBodies(t *testing.T) {
	o := read(t, `{"prompt":"p","cache_hit_threshold":0.5,"stream":true,"max_tokens":9}`)
	if want, got := `{"prompt":"p","cache_hit_threshold":0,"stream":false,"max_tokens":1,"max_completion_tokens":1,"min_tokens":1}`, string(o.SharedPrefill(body.Completions).Bytes()); want != got {
		t.Errorf("prefill %s", cmp.Diff(want, got))
	}
	if want, got := `{"prompt":"p","cache_hit_threshold":0,"stream":true,"max_tokens":9}`, string(o.SharedDecode().Bytes()); want != got {
		t.Errorf("decode %s", cmp.Diff(want, got))
	}
	for raw, want := range map[string]bool{
		`{"cache_hit_threshold":0.5}`: true, `{"cache_hit_threshold":1e-3}`: true, `{"cache_hit_threshold":0}`: false,
		`{"cache_hit_threshold":0.0e9}`: false, `{"cache_hit_threshold":null}`: false, `{"a":{"cache_hit_threshold":1}}`: false, `{}`: false,
	} {
		if got := read(t, raw).Threshold(); got != want {
			t.Errorf("%s: a threshold %v", raw, got)
		}
	}
	if !o.Streams() || read(t, `{"stream":false}`).Streams() || read(t, `{"stream":"true"}`).Streams() {
		t.Error("what streams is not seen")
	}
}

func TestBodiesThatCannotBeRead(t *testing.T) {
	var syntax *jsonscan.SyntaxError
	for raw, want := range map[string]error{
		`[1]`: body.ErrNotObject, `"a"`: body.ErrNotObject, `17`: body.ErrNotObject, `null`: body.ErrNotObject,
		`{"a":` + strings.Repeat("[", 2000):             jsonscan.ErrTooDeep,
		`{` + strings.Repeat(`"a":1,`, 2000) + `"b":1}`: body.ErrTooMany,
	} {
		if _, err := body.Read([]byte(raw)); !errors.Is(err, want) {
			t.Errorf("%.20s: %v, want %v", raw, err, want)
		}
	}
	for _, raw := range []string{``, `{`, `{"a"}`, `{"a":1}x`, `{"a":01}`, "\x1f\x8b\x08"} {
		if _, err := body.Read([]byte(raw)); !errors.As(err, &syntax) {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func TestAPIs(t *testing.T) {
	for path, want := range map[string]body.API{
		"/v1/chat/completions": body.Chat, "/v1/completions": body.Completions, "/v1/responses": body.Responses,
		"/v1/messages": body.Messages, "/inference/v1/generate": body.Generate, "/v1/embeddings": body.Other, "/v1/messages/count_tokens": body.Other,
	} {
		if got := body.APIOf(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}
