package system

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// Behind a gateway the sidecar of the server that decodes has prompts prefilled: the
// router names the endpoint in a header, and the sidecar calls whom NATS says is of the
// pool, and nobody else.
func TestPDSidecar(t *testing.T) {
	const legs, only = "pointsman_disagg_sidecar_prefill_legs_total", "pointsman_disagg_sidecar_decode_only_total"
	bus := kittest.StartNATS(t, 0)
	free := func() string { return fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t)) }
	behind, front := free(), free()
	sidecar := cluster.NewProcess(t, "disagg-sidecar", cluster.Binary(t, "disagg-sidecar"), 2, "--set", "nats.url="+bus.URL, "--set", "admin.address="+free(),
		"--set", "listen.address="+front, "--set", "decode.address="+behind, "--set", "prefill.onFailure=[RetryOther, LocalPrefill]")
	sidecar.Start(t)
	p := startPD(t, 1, 1, cluster.Options{
		NATS: bus, ConfigText: fmt.Sprintf(pdConfig, byPrefix, ", connector: sidecar"),
		Server: func(i int, cfg *modelserver.Config) {
			if i == 1 {
				cfg.Address = behind
			}
		},
		Address: func(s *modelserver.Server) string { // where the pool knows it
			if s.Address() == behind {
				return front
			}
			return s.Address()
		},
	})

	a := p.ask(t, 0, p.cold())
	if a.status != http.StatusOK || !a.is(p.decode) || requests(p.prefill) != 1 || a.cached != 0 {
		t.Errorf("long and cold: status %d, %d prefilled, %d cached: %s", a.status, requests(p.prefill), a.cached, a.body)
	}
	if p.decode[0].Transfers().Fetched != 1 || sidecar.Metric(t, legs, `reason="ok"`) != 1 || p.Metric(t, 0, legsOf, "") != 0 {
		t.Error("the sidecar did not have it prefilled, or the router did")
	}
	if a := p.ask(t, 0, "short"); a.status != http.StatusOK || requests(p.prefill) != 1 {
		t.Errorf("short: status %d, %d prefilled", a.status, requests(p.prefill))
	}

	fault(t, p.prefill, modelserver.Faults{ErrorProbability: 1})
	if a := p.ask(t, 0, p.cold()); a.status != http.StatusOK || sidecar.Metric(t, legs, `reason="bad-status"`) != 1 || sidecar.Metric(t, only, "") < 1 {
		t.Errorf("the prefill server fails: status %d: %s", a.status, a.body)
	}
	fault(t, p.prefill, modelserver.Faults{})

	// B214: whoever reaches the sidecar without the router can name nobody but the pool's.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+front+"/v1/completions", bytes.NewReader(p.body(p.cold(), false)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-prefiller-host-port", behind)
	resp, err := p.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a target that is not of the pool: status %d", resp.StatusCode)
	}
	p.nothingLeft(t)
}

// SGLang's legs are sent at once and meet at the prefill server. When the prefill leg
// fails the client hears of it at once, and the decode leg, which would wait for minutes,
// is ended: by default nobody has it prefill, which it could not.
func TestPDSGLang(t *testing.T) {
	port := kittest.FreePort(t)
	p := startPD(t, 1, 1, cluster.Options{
		ConfigText: fmt.Sprintf(pdConfig, "always-disagg-pd-decider", fmt.Sprintf(", connector: sglang, bootstrapPort: %d", port)),
		Server: func(i int, cfg *modelserver.Config) {
			cfg.Page = "sglang"
			cfg.Transfer.Connector, cfg.Transfer.Mode = modelserver.SGLang, modelserver.DecodeMode
			if i == 0 {
				cfg.Transfer.Mode, cfg.Transfer.BootstrapAddress = modelserver.PrefillMode, fmt.Sprintf("127.0.0.1:%d", port)
			}
		},
	})
	for _, prompt := range []string{p.cold(), "short"} {
		if a := p.ask(t, 0, prompt); a.status != http.StatusOK || !a.is(p.decode) {
			t.Errorf("status %d: %s", a.status, a.body)
		}
	}
	if served, fetched := p.prefill[0].Transfers().Served, p.decode[0].Transfers().Fetched; served != 2 || fetched != 2 {
		t.Errorf("%d prompts handed over, %d fetched, want 2", served, fetched)
	}
	t.Run("B169: the prefill leg fails", func(t *testing.T) {
		fault(t, p.prefill, modelserver.Faults{ErrorProbability: 1})
		defer fault(t, p.prefill, modelserver.Faults{})
		if a := p.ask(t, 0, p.cold()); a.status != http.StatusInternalServerError && a.status != http.StatusBadGateway {
			t.Errorf("status %d: %s", a.status, a.body)
		}
		p.nothingLeft(t)
	})
	t.Run("the decode server fails", func(t *testing.T) {
		fault(t, p.decode, modelserver.Faults{ErrorProbability: 1})
		defer fault(t, p.decode, modelserver.Faults{})
		if a := p.ask(t, 0, p.cold()); a.status < 500 {
			t.Errorf("status %d: %s", a.status, a.body)
		}
		p.nothingLeft(t)
	})
	if rooms := p.prefill[0].Transfers().Rooms; rooms != 0 {
		t.Errorf("%d bootstrap rooms are open", rooms)
	}
}
