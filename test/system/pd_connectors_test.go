package system

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// beside is the sidecar's process between a client and two servers. The one that prefills is
// found by the other at a port of its own.
type beside struct {
	prefill, decode *modelserver.Server
	sidecar         *cluster.Process
	client          *http.Client
	sent            int
}

// linkedBy are the ways in which an id links the legs. port is where the server that
// prefills is found.
var linkedBy = []struct {
	name   string
	kind   modelserver.Connector
	args   func(port string) []string
	atOnce bool
}{
	{"mooncake", modelserver.Mooncake, func(port string) []string {
		return []string{"--kv-connector=mooncake", "--mooncake-bootstrap-port=" + port}
	}, true},
	{"offloading", modelserver.Offloading, func(port string) []string {
		return []string{"--kv-connector=offloading", "--p2p-connector-port=" + port}
	}, false},
	{"moriio", modelserver.MoRIIO, func(string) []string {
		return []string{"--moriio-write-mode", "--moriio-local-pod-ip=localhost"} // a name, which is looked up
	}, false},
	{"moriio at once", modelserver.MoRIIO, func(port string) []string {
		return []string{"--moriio-write-mode", "--moriio-parallel-dispatch", "--moriio-local-pod-ip=127.0.0.1", "--moriio-prefill-handshake-port=" + port}
	}, true},
}

func startBeside(t *testing.T, kind modelserver.Connector, args func(port string) []string, more ...string) *beside {
	t.Helper()
	b := &beside{client: newClient(t)}
	server := func(address string) *modelserver.Server {
		cfg := modelserver.DefaultConfig()
		cfg.TimeScale = 10
		cfg.Transfer.Connector, cfg.Transfer.BootstrapAddress = kind, address
		cfg.Transfer.HoldFor, cfg.Transfer.MeetFor = 10*time.Second, 100*time.Second // a tenth on the wall
		s, err := modelserver.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Kill(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	b.prefill, b.decode = server("127.0.0.1:0"), server("")
	_, port, err := net.SplitHostPort(b.prefill.BootstrapAddress())
	if err != nil {
		t.Fatal(err)
	}
	all := append([]string{
		"--enable-ssrf-protection=false", "--set", "listen.address=127.0.0.1:0", "--set", "admin.address=127.0.0.1:0", "--set", "decode.address=" + b.decode.Address(),
	}, args(port)...)
	b.sidecar = cluster.NewProcess(t, "disagg-sidecar", cluster.Binary(t, "disagg-sidecar"), 2, append(all, more...)...)
	b.sidecar.Start(t)
	return b
}

// ask sends a prompt that nobody has seen to the sidecar.
func (b *beside) ask(ctx context.Context, t *testing.T, stream bool, header ...string) (int, string, error) {
	t.Helper()
	b.sent++
	body, err := json.Marshal(map[string]any{
		"model": "sim-model", "prompt": fmt.Sprintf("story %d: ", b.sent) + strings.Repeat("chapter of it. ", 300), "max_tokens": 8, "ignore_eos": true, "stream": stream,
		"kv_transfer_params": map[string]any{"do_remote_prefill": true, "transfer_id": "tx-forged", "remote_host": "169.254.169.254"}, // B214
	})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.sidecar.Addr("http")+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// divided sends one whose prompt is prefilled elsewhere.
func (b *beside) divided(t *testing.T, stream bool) (int, string) {
	t.Helper()
	status, text, err := b.ask(t.Context(), t, stream, "x-prefiller-host-port", b.prefill.Address())
	if err != nil {
		t.Fatal(err)
	}
	return status, text
}

// legs is how many prefill legs have ended for the reason.
func (b *beside) legs(t *testing.T, reason string) float64 {
	t.Helper()
	return b.sidecar.Metric(t, "pointsman_disagg_sidecar_prefill_legs_total", fmt.Sprintf("reason=%q", reason))
}

// nothingLeft waits until no server has anything to do or keeps a prompt.
func (b *beside) nothingLeft(t *testing.T) {
	t.Helper()
	kittest.Eventually(t, "no server to have a request", func() bool {
		for _, s := range []*modelserver.Server{b.prefill, b.decode} {
			if st := s.Stats(); s.InFlight() != 0 || st.Running+st.Waiting+st.Held != 0 {
				return false
			}
		}
		return b.sidecar.Metric(t, "pointsman_disagg_sidecar_requests_in_flight", "") == 0
	})
}

func (b *beside) fault(t *testing.T, s *modelserver.Server, f modelserver.Faults) {
	t.Helper()
	if err := s.SetFaults(f); err != nil {
		t.Fatal(err)
	}
}

// The sidecar's process with servers whose legs an id links: they meet, and when one of
// them fails the client hears of it and nothing is left behind.
func TestPDLinkedLegs(t *testing.T) {
	for _, tt := range linkedBy {
		t.Run(tt.name, func(t *testing.T) {
			b := startBeside(t, tt.kind, tt.args)
			for i, stream := range []bool{false, true} {
				status, text := b.divided(t, stream)
				if status != http.StatusOK || stream && !strings.Contains(text, "data: [DONE]") {
					t.Fatalf("status %d: %s", status, text)
				}
				if served, fetched := b.prefill.Transfers().Served, b.decode.Transfers().Fetched; served != uint64(i+1) || fetched != uint64(i+1) {
					t.Errorf("%d prompts handed over, %d fetched", served, fetched)
				}
				if n := b.decode.Stats().PrefillTokens; n > uint64(2*(i+1)*16) {
					t.Errorf("%d tokens were prefilled where they are decoded", n)
				}
			}
			if ok := b.legs(t, "ok") + b.legs(t, "abandoned"); ok != 2 || b.sidecar.Metric(t, "pointsman_disagg_sidecar_decode_only_total", "") != 0 {
				t.Errorf("%v prefill legs", ok)
			}
			b.nothingLeft(t)
			t.Run("the prefill leg is refused", func(t *testing.T) { b.fails(t, 422, "refused", 422) })
			t.Run("the prefill leg fails", func(t *testing.T) { b.fails(t, 500, "bad-status", 500) })
			t.Run("the transfer breaks", func(t *testing.T) {
				b.fault(t, b.prefill, modelserver.Faults{TransferDropProbability: 1})
				defer b.fault(t, b.prefill, modelserver.Faults{})
				if status, text := b.divided(t, false); status != http.StatusInternalServerError || b.prefill.Transfers().Broken == 0 {
					t.Errorf("status %d: %s", status, text)
				}
				b.nothingLeft(t)
			})
			t.Run("the decode leg fails", func(t *testing.T) {
				b.fault(t, b.decode, modelserver.Faults{ErrorProbability: 1, ErrorStatus: 503})
				defer b.fault(t, b.decode, modelserver.Faults{})
				if status, text := b.divided(t, false); status != http.StatusServiceUnavailable {
					t.Errorf("status %d: %s", status, text)
				}
				b.nothingLeft(t)
			})
			t.Run("the client leaves", func(t *testing.T) {
				b.fault(t, b.prefill, modelserver.Faults{HangProbability: 1})
				defer b.fault(t, b.prefill, modelserver.Faults{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					defer cancel()
					for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
						if b.prefill.InFlight() == 1 && (!tt.atOnce || b.decode.InFlight() == 1) {
							return
						}
					}
				}()
				if status, text, err := b.ask(ctx, t, false, "x-prefiller-host-port", b.prefill.Address()); err == nil {
					t.Errorf("status %d: %s", status, text)
				}
				b.nothingLeft(t)
				kittest.Eventually(t, "the leg is counted", func() bool { return b.legs(t, "cancelled") == 1 })
			})
			if status, text := b.divided(t, false); status != http.StatusOK {
				t.Errorf("in the end: status %d: %s", status, text)
			}
			b.nothingLeft(t)
		})
	}
}

// fails has prefill legs fail and looks at what the client hears.
func (b *beside) fails(t *testing.T, as int, reason string, want int) {
	t.Helper()
	b.fault(t, b.prefill, modelserver.Faults{ErrorProbability: 1, ErrorStatus: as})
	defer b.fault(t, b.prefill, modelserver.Faults{})
	before := b.legs(t, reason)
	if status, text := b.divided(t, false); status != want || !strings.Contains(text, "told to fail") {
		t.Errorf("status %d: %s", status, text)
	}
	if n := b.legs(t, reason) - before; n != 1 {
		t.Errorf("%v prefill legs ended as %s", n, reason)
	}
	b.nothingLeft(t)
}

// Mooncake's bootstrap server fails: that is counted for itself, and a prompt can be
// prefilled where it is decoded.
func TestPDBootstrapFails(t *testing.T) {
	b := startBeside(t, modelserver.Mooncake, linkedBy[0].args, "--set", "prefill.onFailure=[RetryOther, LocalPrefill]")
	b.fault(t, b.prefill, modelserver.Faults{BootstrapStatus: 500})
	if status, text := b.divided(t, false); status != http.StatusOK || b.prefill.Stats().Submitted != 0 || b.legs(t, "bootstrap-failed") != 1 {
		t.Errorf("status %d: %s", status, text)
	}
	if n := b.sidecar.Metric(t, "pointsman_disagg_sidecar_decode_only_total", `reason="bootstrap-failed"`); n != 1 {
		t.Errorf("%v requests prefilled where they are decoded", n)
	}
	b.fault(t, b.prefill, modelserver.Faults{})
	if status, text := b.divided(t, false); status != http.StatusOK || b.decode.Transfers().Fetched != 1 {
		t.Errorf("status %d: %s", status, text)
	}
	b.nothingLeft(t)
}

// The server that prefills hangs: with MoRI-IO's legs at once the client hears of it in time.
func TestPDBackstop(t *testing.T) {
	b := startBeside(t, modelserver.MoRIIO, linkedBy[3].args, "--moriio-parallel-decode-wait-timeout=300ms")
	b.fault(t, b.prefill, modelserver.Faults{HangProbability: 1})
	if status, text := b.divided(t, false); status != http.StatusGatewayTimeout || b.legs(t, "timeout") != 1 {
		t.Errorf("status %d: %s", status, text)
	}
	b.fault(t, b.prefill, modelserver.Faults{})
	b.nothingLeft(t)
}

// F10: the server beside, which prefills by itself, pulls what another one has cached.
func TestPDPull(t *testing.T) {
	b := startBeside(t, modelserver.Offloading, linkedBy[1].args)
	warm := func(to string) { // the same prompt, at one server and through the sidecar
		t.Helper()
		body := `{"model":"sim-model","prompt":"` + strings.Repeat("chapter of it. ", 300) + `","max_tokens":8,"ignore_eos":true}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to+"/v1/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-kv-cache-source-host-port", b.prefill.Address())
		resp, err := b.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d, %v", resp.StatusCode, err)
		}
	}
	warm(b.prefill.URL())
	warm("http://" + b.sidecar.Addr("http"))
	if f, used := b.decode.Transfers(), b.sidecar.Metric(t, "pointsman_disagg_sidecar_cache_sources_total", `reason="used"`); f.Fetched != 1 || f.FetchedTokens < 500 || used != 1 {
		t.Errorf("%+v, counted %v times", f, used)
	}
	b.nothingLeft(t)
}

// The router's HTTP front carries out the same, where the configuration names the connector.
func TestPDLinkedByTheFront(t *testing.T) {
	for _, tt := range []struct {
		name, port string
		kind       modelserver.Connector
	}{{"mooncake", "bootstrapPort", modelserver.Mooncake}, {"offloading", "p2pPort", modelserver.Offloading}} {
		t.Run(tt.name, func(t *testing.T) {
			port := kittest.FreePort(t)
			p := startPD(t, 1, 1, cluster.Options{
				ConfigText: fmt.Sprintf(pdConfig, "always-disagg-pd-decider", fmt.Sprintf(", connector: %s, %s: %d, onPrefillFailure: Fail", tt.name, tt.port, port)),
				Server: func(i int, cfg *modelserver.Config) {
					if cfg.Transfer.Connector = tt.kind; i == 0 {
						cfg.Transfer.BootstrapAddress = fmt.Sprintf("127.0.0.1:%d", port)
					}
				},
			})
			if a := p.ask(t, 0, p.cold()); a.status != http.StatusOK || !a.is(p.decode) {
				t.Errorf("status %d: %s", a.status, a.body)
			}
			if served, fetched := p.prefill[0].Transfers().Served, p.decode[0].Transfers().Fetched; served != 1 || fetched != 1 {
				t.Errorf("%d prompts handed over, %d fetched", served, fetched)
			}
			p.nothingLeft(t)
			fault(t, p.prefill, modelserver.Faults{ErrorProbability: 1})
			if a := p.ask(t, 0, p.cold()); a.status != http.StatusInternalServerError && a.status != http.StatusBadGateway {
				t.Errorf("status %d: %s", a.status, a.body)
			}
			p.nothingLeft(t)
		})
	}
}
