package system

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// sidecar is a sidecar and the simulated server that it stands before. Requests may name
// anybody.
type sidecar struct {
	*cluster.Process
	decode *modelserver.Server
	url    string
	client *http.Client
}

func modelServer(t *testing.T, change func(cfg *modelserver.Config)) *modelserver.Server {
	t.Helper()
	cfg := modelserver.DefaultConfig()
	cfg.TimeScale = 10
	change(&cfg)
	s, err := modelserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Kill(); err != nil {
			t.Errorf("kill the model server: %v", err)
		}
	})
	return s
}

func startSidecar(t *testing.T, decode *modelserver.Server, flags ...string) *sidecar {
	t.Helper()
	front := fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t))
	args := append([]string{"--enable-ssrf-protection=false", "--set", "admin.address=" + fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t)),
		"--set", "listen.address=" + front, "--set", "decode.address=" + decode.Address()}, flags...)
	p := cluster.NewProcess(t, "disagg-sidecar", cluster.Binary(t, "disagg-sidecar"), 2, args...)
	p.Start(t)
	return &sidecar{p, decode, "http://" + front, newClient(t)}
}

// chat sends a chat and returns its answer.
func (b *sidecar) chat(t *testing.T, url, body string, headers ...string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%v after %s", err, raw)
	}
	return resp.StatusCode, string(raw)
}

// chatted is what is compared of two answers.
type chatted struct {
	Choices []struct {
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		Reason string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Total      int `json:"total_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
}

func readChat(t *testing.T, text string) (c chatted) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &c); err != nil || len(c.Choices) > 1 {
		t.Fatalf("%v in %s", err, text)
	}
	return c
}

// An answer that is decoded in rounds is the one that is decoded at once: its text, its end
// and its usage, whole and streamed; and only the first round has the prompt from elsewhere.
func TestSidecarDecodesInRounds(t *testing.T) {
	server := func() *modelserver.Server {
		return modelServer(t, func(cfg *modelserver.Config) {
			cfg.Transfer.Connector, cfg.MinAnswer, cfg.MaxAnswer = modelserver.NIXL, 50, 50
		})
	}
	prefill, decode := server(), server()
	b := startSidecar(t, decode, "--configuration={decode-chunk-size: 16, kv-connector: nixlv2}")
	const rounds, legs = "pointsman_disagg_sidecar_decode_rounds_total", "pointsman_disagg_sidecar_prefill_legs_total"
	counted := 0.0
	for i, limits := range []string{"", `,"max_tokens":40`} {
		for _, streamed := range []bool{false, true} {
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Story %d, %v: %s"}]%s`, i, streamed, strings.Repeat("once more ", 100), limits)
			status, text := b.chat(t, decode.URL(), body+"}")
			want := readChat(t, text)
			if status != http.StatusOK || len(want.Choices[0].Message.Content) < 160 {
				t.Fatalf("status %d: %s", status, text)
			}
			decode.ResetPrefixCache()
			if streamed {
				body += `,"stream":true,"stream_options":{"include_usage":true}`
			}
			status, text = b.chat(t, b.url, body+"}", "X-Prefiller-Host-Port", prefill.Address())
			if status != http.StatusOK {
				t.Fatalf("status %d: %s", status, text)
			}
			got, events := readEvents(t, text, streamed)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("streamed %v (-at once +in rounds):\n%s", streamed, diff)
			}
			made := b.Metric(t, rounds, `reason="ok"`) - counted
			counted += made
			if n := float64(len(want.Choices[0].Message.Content)/4+15) / 16; made != float64(int(n)) || streamed && events != int(made) {
				t.Errorf("%v rounds, %d events, for %d tokens", made, events, want.Usage.Completion)
			}
		}
	}
	if n := b.Metric(t, legs, `reason="ok"`); n != 4 || prefill.Transfers().Served != 4 || decode.Transfers().Fetched != 4 {
		t.Errorf("%v prefill legs, %+v served, %+v fetched", n, prefill.Transfers(), decode.Transfers())
	}
	if status, text := b.chat(t, b.url, `{"messages":[{"role":"user","content":"Hello"}],"max_tokens":8}`); status != http.StatusOK || b.Metric(t, "pointsman_disagg_sidecar_unchunked_total", `reason="within-chunk"`) != 1 {
		t.Errorf("F20: status %d: %s", status, text)
	}
}

// readEvents puts together what a stream says, and counts the events with text in them.
func readEvents(t *testing.T, text string, streamed bool) (out chatted, events int) {
	t.Helper()
	if !streamed {
		return readChat(t, text), 0
	}
	if !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Fatalf("the stream does not end: %s", text)
	}
	for data := range strings.SplitSeq(strings.TrimSuffix(text, "data: [DONE]\n\n"), "\n\n") {
		if data == "" {
			continue
		}
		c := readChat(t, strings.TrimPrefix(data, "data: "))
		if len(c.Choices) == 0 {
			out.Usage = c.Usage
			continue
		}
		events++
		if out.Choices == nil {
			out.Choices = c.Choices
			out.Choices[0].Delta.Content, out.Choices[0].Message.Content = "", c.Choices[0].Delta.Content
			continue
		}
		out.Choices[0].Message.Content += c.Choices[0].Delta.Content
		out.Choices[0].Reason = c.Choices[0].Reason
	}
	return out, events
}

// With ec-nixl the server that decodes, which has no encoder, fetches what the encoders have
// encoded, each part from where it is.
func TestSidecarHandsOverWhatWasEncoded(t *testing.T) {
	producer := func() *modelserver.Server {
		return modelServer(t, func(cfg *modelserver.Config) { cfg.MediaRole = modelserver.MediaProducer })
	}
	one, two := producer(), producer()
	decode := modelServer(t, func(cfg *modelserver.Config) { cfg.MediaRole = modelserver.MediaConsumer })
	b := startSidecar(t, decode, "--ec-connector=ec-nixl")
	const body = `{"messages":[{"role":"user","content":[{"type":"text","text":"Compare"},{"type":"image_url","image_url":{"url":"a"}}, {"type":"image_url","image_url":{"url":"b"}},{"type":"image_url","image_url":{"url":"a"}}]}],"max_tokens":4}`
	named := []string{"X-Encoder-Hosts-Ports", one.Address() + "," + two.Address()}
	const calls = "pointsman_disagg_sidecar_encode_calls_total"
	if status, text := b.chat(t, b.url, body, named...); status != http.StatusOK || b.Metric(t, calls, `reason="ok"`) != 2 {
		t.Errorf("status %d: %s", status, text)
	}
	if one.Transfers().MediaServed != 1 || two.Transfers().MediaServed != 1 || decode.Transfers().MediaFetched != 2 {
		t.Errorf("served %+v and %+v, fetched %+v", one.Transfers(), two.Transfers(), decode.Transfers())
	}
	if status, text := b.chat(t, b.url, body); status != http.StatusBadRequest || !strings.Contains(text, "ec_transfer_params") {
		t.Errorf("nobody encodes: status %d: %s", status, text)
	}
	// B214: a client cannot say where to fetch from.
	evil := strings.Replace(body, `"max_tokens":4`, `"max_tokens":4,"ec_transfer_params":{"x":{"peer_host":"169.254.169.254","peer_port":80}}`, 1)
	if status, text := b.chat(t, b.url, evil, named...); status != http.StatusOK {
		t.Errorf("a client names a place: status %d: %s", status, text)
	}
	if err := two.SetFaults(modelserver.Faults{ErrorProbability: 1}); err != nil {
		t.Fatal(err)
	}
	if status, text := b.chat(t, b.url, body, named...); status != http.StatusBadGateway || !strings.Contains(text, "encode-failed") || b.Metric(t, calls, `reason="bad-status"`) != 1 {
		t.Errorf("F19: an encoder fails: status %d: %s", status, text)
	}
}
