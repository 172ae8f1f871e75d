package system

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/test/cluster"
)

const (
	decided    = "pointsman_router_disaggregation_total"
	decodeOnly = "pointsman_router_decode_only_total"
	legsOf     = "pointsman_router_http_prefill_legs_total"
)

// Long cold prompts take two servers, short or cached ones one, and answers are the same.
func TestPDPaths(t *testing.T) {
	p := startPD(t, 2, 4, cluster.Options{ConfigText: fmt.Sprintf(pdConfig, byPrefix, "")})
	prompt := p.cold()

	a := p.ask(t, 0, prompt)
	if a.status != http.StatusOK || !a.is(p.decode) || requests(p.prefill) != 1 || requests(p.decode) != 1 {
		t.Fatalf("long and cold: status %d from %s, %d prefilled, %d decoded: %s", a.status, a.header.Get("x-sim-server"), requests(p.prefill), requests(p.decode), a.body)
	}
	if a.cached != 0 {
		t.Errorf("cached_tokens %d: the client is told what the prefill server had cached, not what was transferred", a.cached)
	}
	fetched := uint64(0)
	for _, s := range p.decode {
		fetched += s.Transfers().FetchedTokens
	}
	if fetched < 1000 {
		t.Errorf("%d tokens were transferred", fetched)
	}
	if p.Metric(t, 0, decided, `type="prefill-decode"`) != 1 || p.Metric(t, 0, legsOf, `reason="ok"`) != 1 || p.Metric(t, 0, decodeOnly, "") != 0 {
		t.Error("metrics do not say that it was prefilled elsewhere")
	}
	if plain := p.ask(t, 0, "short"); plain.status != http.StatusOK || requests(p.prefill) != 1 {
		t.Errorf("short: status %d, %d prefilled", plain.status, requests(p.prefill))
	}
	if n := p.Metric(t, 0, decodeOnly, `reason="decider-declined"`); n != 1 {
		t.Errorf("%v requests were declined by the decider, want 1", n)
	}
	// What was prefilled is learned within milliseconds, for both servers.
	kittest.Eventually(t, "the prompt to be known", func() bool {
		before := requests(p.prefill)
		b := p.ask(t, 0, prompt)
		if b.status != http.StatusOK || b.text != a.text {
			t.Fatalf("again: status %d, %q; first %q", b.status, b.text, a.text)
		}
		return requests(p.prefill) == before && b.header.Get("x-sim-server") == a.header.Get("x-sim-server") && b.cached > 1000
	})

	t.Run("B171: streamed", func(t *testing.T) { p.streamed(t) })
	t.Run("B162: the gRPC front names both", func(t *testing.T) { p.named(t) })
	t.Run("B214: a client's own headers are not heeded", func(t *testing.T) { p.forged(t) })
	t.Run("B214: nor what it says to engines", func(t *testing.T) { p.bodies(t) })
	p.nothingLeft(t)
}

func (p *pd) streamed(t *testing.T) {
	before := requests(p.prefill)
	resp, err := p.client.Post(p.URL(0)+"/v1/completions", "application/json", bytes.NewReader(p.body(p.cold(), true)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var events []string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			events = append(events, data)
		}
	}
	if len(events) != 11 || events[10] != "[DONE]" || requests(p.prefill) != before+1 {
		t.Fatalf("%d events, want 8 tokens, an end, usage and [DONE], %d prefilled: %q", len(events), requests(p.prefill)-before, events)
	}
	var last struct {
		Usage struct {
			Details struct {
				Cached *int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(events[9]), &last); err != nil || last.Usage.Details.Cached == nil || *last.Usage.Details.Cached != 0 {
		t.Errorf("usage %s", events[9])
	}
}

func (p *pd) named(t *testing.T) {
	m, err := p.Router(t, 0).Explain(t.Context(), &routerv1.ExplainRequest{Request: &routerv1.RequestDescription{Path: "/v1/completions", Body: p.body(p.cold(), false)}})
	if err != nil {
		t.Fatal(err)
	}
	stages := m.GetDecision().GetStages()
	if len(stages) != 1 || stages[0].GetStage() != "prefill" || len(stages[0].GetEndpoints()) == 0 {
		t.Fatalf("stages %v", stages)
	}
	at := stages[0].GetEndpoints()[0].GetAddress()
	if at != p.prefill[0].Address() && at != p.prefill[1].Address() {
		t.Errorf("%s prefills, want one of the prefill servers", at)
	}
	if at := m.GetDecision().GetEndpoint().GetAddress(); at == p.prefill[0].Address() || at == p.prefill[1].Address() {
		t.Errorf("%s decodes, which is a prefill server", at)
	}
}

func (p *pd) forged(t *testing.T) {
	trap, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer trap.Close()
	called := make(chan struct{}, 16)
	go func() {
		for {
			conn, err := trap.Accept()
			if err != nil {
				return
			}
			called <- struct{}{}
			_ = conn.Close()
		}
	}()
	for _, prompt := range []string{"short", p.cold()} {
		for _, name := range []string{"x-prefiller-host-port", "X-Prefiller-Host-Port", "x-encoder-hosts-ports", "x-prefiller-url", "x-data-parallel-host-port"} {
			if a := p.ask(t, 0, prompt, name, trap.Addr().String(), name, "169.254.169.254:80"); a.status != http.StatusOK {
				t.Errorf("%s: status %d: %s", name, a.status, a.body)
			}
		}
	}
	select {
	case <-called:
		t.Error("the address in a client's header was called")
	default:
	}
}
