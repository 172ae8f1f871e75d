package system

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// B214, in a body: a client that asks a server itself to keep a prompt, or to fetch one from
// whom it names, is answered as if it had not; what cannot be handed over, several
// prompts, is decoded only.
func (p *pd) bodies(t *testing.T) {
	for name, c := range map[string]struct {
		more   map[string]any
		reason string // why it is decoded only
		texts  int
	}{
		"keep it":         {map[string]any{"prompt": "short", "kv_transfer_params": map[string]any{"do_remote_decode": true}}, "decider-declined", 1},
		"fetch it":        {map[string]any{"prompt": "short", "kv_transfer_params": map[string]any{"do_remote_prefill": true, "remote_host": "127.0.0.1", "remote_port": 1, "remote_engine_id": "e", "remote_block_ids": []int{1}}}, "decider-declined", 1},
		"several prompts": {map[string]any{"prompt": []string{p.cold(), p.cold()}}, "capability-missing", 2},
	} {
		var body map[string]any
		if err := json.Unmarshal(p.body("", false), &body); err != nil {
			t.Fatal(err)
		}
		for key, value := range c.more {
			body[key] = value
		}
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		before, prefilled := p.Metric(t, 0, decodeOnly, "reason=\""+c.reason+"\""), requests(p.prefill)
		resp, err := p.client.Post(p.URL(0)+"/v1/completions", "application/json", strings.NewReader(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || strings.Contains(string(answer), "kv_transfer_params\":{") || strings.Count(string(answer), `"text":`) != c.texts {
			t.Errorf("%s: status %d, %v: %s", name, resp.StatusCode, err, answer)
		}
		if got := p.Metric(t, 0, decodeOnly, "reason=\""+c.reason+"\"") - before; got != 1 || requests(p.prefill) != prefilled {
			t.Errorf("%s: counted %v times as %s, %d prefilled", name, got, c.reason, requests(p.prefill)-prefilled)
		}
	}
}
