package body_test

import (
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
