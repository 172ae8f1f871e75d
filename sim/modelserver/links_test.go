package modelserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// linked is a prefill and a decode server whose legs an id links. Others find the first one at a port of its own.
func linked(t *testing.T, k Connector, change func(*Config)) (prefill, decode *started, host, port string) {
	t.Helper()
	made := func(address string) *started {
		return start(t, func(c *Config) {
			c.Transfer.Connector, c.Transfer.BootstrapAddress = k, address
			c.Transfer.MeetFor = 20 * time.Second // 0.2 s on the wall
			if change != nil {
				change(c)
			}
		})
	}
	prefill, decode = made("127.0.0.1:0"), made("")
	host, port, err := net.SplitHostPort(prefill.BootstrapAddress())
	if err != nil {
		t.Fatal(err)
	}
	return prefill, decode, host, port
}

// legBody is a request with kv_transfer_params.
func legBody(prompt string, tokens int, params string, args ...any) string {
	return fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"ignore_eos":true,"kv_transfer_params":%s}`, prompt, tokens, fmt.Sprintf(params, args...))
}

// sends posts in the background, as a data-parallel rank if one is named.
func sends(ctx context.Context, x *started, body, rank string) <-chan outcome {
	return tells(func() outcome {
		var header []string
		if rank != "" {
			header = []string{"X-Data-Parallel-Rank", rank}
		}
		resp, err := x.do(ctx, "POST", "/v1/completions", body, header...)
		if err != nil {
			return outcome{body: err.Error()}
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return outcome{resp.StatusCode, err.Error()}
		}
		return outcome{resp.StatusCode, string(text)}
	})
}

func TestMooncake(t *testing.T) {
	prefill, decode, host, port := linked(t, Mooncake, func(c *Config) { c.Transfer.Ranks = 2 })
	var engines map[string]struct {
		EngineID string `json:"engine_id"`
	}
	resp, err := prefill.client.Get("http://" + net.JoinHostPort(host, port) + "/query")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&engines); err != nil || len(engines) != 2 || engines["0"].EngineID == "" || engines["0"].EngineID == engines["1"].EngineID {
		t.Fatalf("engines %v, %v", engines, err)
	}
	fetch := func(id, engine string) string {
		return legBody(longPrompt+id, 4, `{"do_remote_prefill":true,"do_remote_decode":false,"transfer_id":%q,"remote_bootstrap_addr":"http://%s:%s","remote_engine_id":%q}`, id, host, port, engine)
	}
	hand := func(id string) string {
		return legBody(longPrompt+id, 1, `{"do_remote_prefill":false,"do_remote_decode":true,"transfer_id":%q}`, id)
	}
	t.Run("the decode leg waits for the prefill leg", func(t *testing.T) {
		d := sends(t.Context(), decode, fetch("xfer-1", engines["1"].EngineID), "")
		eventually(t, "the decode leg to have come", func() bool { return decode.Stats().Running+decode.Stats().Waiting > 0 })
		p := <-sends(t.Context(), prefill, hand("xfer-1"), "1")
		if got := <-d; p.status != 200 || got.status != 200 || !strings.Contains(got.body, `"completion_tokens":4`) {
			t.Errorf("%+v, %+v", p, got)
		}
		if s, f := prefill.Transfers().Served, decode.Transfers().Fetched; s != 1 || f != 1 {
			t.Errorf("%d served, %d fetched", s, f)
		}
	})
	t.Run("the engine of another rank", func(t *testing.T) {
		p := <-sends(t.Context(), prefill, hand("xfer-2"), "0")
		if got := <-sends(t.Context(), decode, fetch("xfer-2", engines["1"].EngineID), ""); p.status != 200 || got.status != 500 {
			t.Errorf("%+v, %+v", p, got)
		}
	})
	t.Run("no such rank", func(t *testing.T) {
		if got := <-sends(t.Context(), prefill, hand("xfer-3"), "2"); got.status != 400 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("the bootstrap server fails", func(t *testing.T) {
		prefill.set(`{"bootstrapStatus":503}`)
		defer prefill.set(`{"bootstrapStatus":0}`)
		if resp, _ := prefill.call("GET", "/query", ""); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

func TestOffloading(t *testing.T) {
	prefill, decode, host, port := linked(t, Offloading, nil)
	hand := legBody(longPrompt, 1, `{"remote_decoder":{"kv_request_id":"u"}}`)
	fetch := func(id, prompt string) string {
		return legBody(prompt, 4, `{"remote_prefiller":{"kv_request_id":%q,"remote_host":%q,"remote_port":%s}}`, id, host, port)
	}
	if got := <-sends(t.Context(), prefill, hand, ""); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	t.Run("another prompt", func(t *testing.T) {
		if got := <-sends(t.Context(), decode, fetch("u", "x"+longPrompt), ""); got.status != 500 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("another id", func(t *testing.T) {
		if got := <-sends(t.Context(), decode, fetch("v", longPrompt), ""); got.status != 500 {
			t.Errorf("%+v", got)
		}
	})
	if got := <-sends(t.Context(), decode, fetch("u", longPrompt), ""); got.status != 200 || decode.Transfers().Fetched != 1 {
		t.Errorf("%+v, %+v", got, decode.Transfers())
	}
	t.Run("once", func(t *testing.T) {
		decode.ResetPrefixCache()
		if got := <-sends(t.Context(), decode, fetch("u", longPrompt), ""); got.status != 500 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("an id that is used again", func(t *testing.T) {
		for range 2 {
			if got := <-sends(t.Context(), prefill, hand, ""); got.status != 200 {
				t.Errorf("%+v", got)
			}
		}
		if got := <-sends(t.Context(), decode, fetch("u", longPrompt), ""); got.status != 200 {
			t.Errorf("%+v", got)
		}
		idle(t, prefill, decode)
	})
	t.Run("pulled from a peer", func(t *testing.T) {
		decode.ResetPrefixCache()
		before, served := decode.Transfers().FetchedTokens, prefill.Transfers().Served
		pull := legBody(longPrompt, 4, `{"remote_kv_source":{"kv_request_id":"w","remote_host":%q,"remote_port":%s}}`, host, port)
		if got := <-sends(t.Context(), decode, pull, ""); got.status != 200 || decode.Transfers().FetchedTokens <= before || prefill.Transfers().Served != served+1 {
			t.Errorf("%+v, %+v", got, decode.Transfers())
		}
		decode.ResetPrefixCache()
		prefill.set(`{"transferRefuseProbability":1}`) // it is computed here
		before = decode.Transfers().FetchedTokens
		if got := <-sends(t.Context(), decode, pull, ""); got.status != 200 || decode.Transfers().FetchedTokens != before {
			t.Errorf("%+v, %+v", got, decode.Transfers())
		}
	})
}

func TestMoRIIO(t *testing.T) {
	prefill, decode, host, port := linked(t, MoRIIO, nil)
	hand := func(id string) string {
		return legBody(longPrompt+id, 1, `{"do_remote_decode":true,"transfer_id":%q,"remote_host":"127.0.0.1","remote_handshake_port":1,"remote_notify_port":2}`, id)
	}
	fetch := func(id string) string {
		return legBody(longPrompt+id, 4, `{"do_remote_prefill":true,"transfer_id":%q,"remote_host":%q,"remote_handshake_port":%s,"remote_notify_port":1}`, id, host, port)
	}
	got := <-sends(t.Context(), prefill, hand("tx1"), "0")
	if got.status != 200 || !strings.Contains(got.body, `"transfer_id":"tx1"`) || !strings.Contains(got.body, `"remote_dp_rank":0`) {
		t.Errorf("%+v", got)
	}
	if got := <-sends(t.Context(), decode, fetch("tx1"), ""); got.status != 200 || decode.Transfers().Fetched != 1 {
		t.Errorf("%+v, %+v", got, decode.Transfers())
	}
	for name, body := range map[string]string{
		"an id without tx":   hand("1"),
		"nowhere to write":   legBody(longPrompt, 1, `{"do_remote_decode":true,"transfer_id":"tx2"}`),
		"nobody to be asked": legBody(longPrompt, 1, `{"do_remote_prefill":true,"transfer_id":"tx3","remote_handshake_port":1,"remote_notify_port":1}`),
	} {
		if got := <-sends(t.Context(), prefill, body, ""); got.status != 400 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := <-sends(t.Context(), decode, fetch("tx9"), ""); got.status != 500 { // nobody has it
		t.Errorf("%+v", got)
	}
	idle(t, prefill, decode)
}

// A server that stops does not wait for prompts that nobody computes.
func TestStopsWhileSomebodyWaits(t *testing.T) {
	prefill, decode, host, port := linked(t, Offloading, func(c *Config) { c.Transfer.MeetFor = time.Hour })
	_ = sends(t.Context(), decode, legBody(longPrompt, 4, `{"remote_prefiller":{"kv_request_id":"u","remote_host":%q,"remote_port":%s}}`, host, port), "")
	eventually(t, "it waits", func() bool {
		prefill.driver.mu.Lock()
		defer prefill.driver.mu.Unlock()
		return len(prefill.driver.awaited) == 1
	})
}
