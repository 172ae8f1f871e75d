package modelserver

import (
	"fmt"
	"testing"
)

type mediaAnswer struct {
	Params map[string]mediaParams `json:"ec_transfer_params"`
}

// What a producer has encoded a consumer fetches; it refuses what it is not told the place of.
func TestMediaElsewhere(t *testing.T) {
	producer := start(t, func(c *Config) { c.MediaRole = MediaProducer })
	consumer := start(t, func(c *Config) { c.MediaRole = MediaConsumer })
	const image, audio = `{"type":"image_url","image_url":{"url":"a"}}`, `{"type":"input_audio","input_audio":{"data":"b"}}`
	chat := func(parts, more string) string {
		return `{"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},` + parts + `]}],"max_tokens":2` + more + `}`
	}
	a := post[mediaAnswer](producer, "/v1/chat/completions", chat(image+","+image, ""), 200)
	if len(a.Params) != 1 {
		t.Fatalf("%+v", a)
	}
	params := func(p map[string]mediaParams) string { return `,"ec_transfer_params":` + string(mustJSON(p)) }
	post[wholeBody](consumer, "/v1/chat/completions", chat(image, params(a.Params)), 200)
	post[errorBody](consumer, "/v1/chat/completions", chat(image, ""), 400)
	post[errorBody](consumer, "/v1/chat/completions", chat(image+","+audio, params(a.Params)), 400)
	post[wholeBody](consumer, "/v1/chat/completions", hello, 200)
	if p := post[mediaAnswer](producer, "/v1/chat/completions", hello, 200); p.Params != nil {
		t.Errorf("nothing was encoded: %+v", p)
	}
	if p := post[mediaAnswer](start(t, nil), "/v1/chat/completions", chat(image, ""), 200); p.Params != nil {
		t.Errorf("a server without a role says %+v", p)
	}

	// The producer has forgotten, or somebody names another one.
	if err := producer.SetFaults(Faults{TransferRefuseProbability: 1}); err != nil {
		t.Fatal(err)
	}
	post[errorBody](consumer, "/v1/chat/completions", chat(image, params(a.Params)), 500)
	if err := producer.SetFaults(Faults{}); err != nil {
		t.Fatal(err)
	}
	for h, at := range a.Params {
		a.Params[h] = mediaParams{at.PeerHost, 1, 1}
	}
	post[errorBody](consumer, "/v1/chat/completions", chat(image, params(a.Params)), 500)
	if p, c := producer.Transfers(), consumer.Transfers(); p.MediaServed != 1 || p.Refused != 1 || c.MediaFetched != 1 || c.MediaFailed != 2 {
		t.Errorf("served %+v, fetched %+v", p, c)
	}
	// What was computed elsewhere has no media to encode.
	decode := start(t, func(c *Config) { c.MediaRole, c.Transfer.Connector = MediaConsumer, NIXL })
	prefill := start(t, func(c *Config) { c.Transfer.Connector = NIXL })
	leg := post[legAnswer](prefill, "/v1/chat/completions", chat(image, `,"kv_transfer_params":{"do_remote_decode":true},"ignore_eos":true`), 200)
	post[wholeBody](decode, "/v1/chat/completions", chat(image, fmt.Sprintf(`,"kv_transfer_params":%s`, leg.KVTransferParams)), 200)
}
