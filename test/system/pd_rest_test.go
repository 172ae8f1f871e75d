package system

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// B158: the last server that decodes is lost, and with it all of the service, although
// those that prefill could serve requests by themselves. With a fall-back profile they do,
// nobody is told to prefill for anybody, and it ends by itself when one decodes again.
func TestPDFallback(t *testing.T) {
	const policy = "models: []\n"
	config := strings.Replace(fmt.Sprintf(pdConfig, byPrefix, ", profiles: {decode: decode, prefill: prefill, fallback: whole}"),
		"- name: prefill\n", "- name: whole\n  plugins:\n  - pluginRef: prefill-filter\n  - {pluginRef: active-request-scorer, weight: 1}\n- name: prefill\n", 1)
	p := startPD(t, 3, 1, cluster.Options{ConfigText: config, Policy: policy})
	if a := p.ask(t, 0, p.cold()); a.status != http.StatusOK || !a.is(p.decode) || requests(p.prefill) != 1 {
		t.Fatalf("with all: status %d, %d prefilled: %s", a.status, requests(p.prefill), a.body)
	}

	p.Announce(t, policy, p.prefill...)
	kittest.Eventually(t, "the server that decodes to be gone", func() bool {
		a := p.ask(t, 0, p.cold())
		if a.status != http.StatusOK {
			t.Fatalf("meanwhile: status %d: %s", a.status, a.body)
		}
		return a.is(p.prefill)
	})
	before, whole, legs := p.Metric(t, 0, decodeOnly, `reason="fallback-profile"`), requests(p.prefill), p.Metric(t, 0, legsOf, "")
	for range 4 {
		if a := p.ask(t, 0, p.cold(), "x-prefiller-host-port", "127.0.0.1:1"); a.status != http.StatusOK || !a.is(p.prefill) || a.text == "" {
			t.Errorf("nobody decodes: status %d from %s: %s", a.status, a.header.Get("x-sim-server"), a.body)
		}
	}
	if got := p.Metric(t, 0, decodeOnly, `reason="fallback-profile"`) - before; got != 4 || requests(p.prefill)-whole != 4 || p.Metric(t, 0, legsOf, "") != legs {
		t.Errorf("%v requests are counted to have fallen back, %d were served, want 4; %v prefill legs", got, requests(p.prefill)-whole, p.Metric(t, 0, legsOf, "")-legs)
	}
	m, err := p.Router(t, 0).Pick(t.Context(), &routerv1.PickRequest{Request: &routerv1.RequestDescription{Path: "/v1/completions", Body: p.body(p.cold(), false)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range m.GetRequestHeaders() {
		if strings.Contains(strings.ToLower(h.GetName()), "prefiller") {
			t.Errorf("somebody is named to prefill: %v", h)
		}
	}
	if !slices.Contains(m.GetRemovedRequestHeaders(), "x-prefiller-host-port") || len(m.GetStages()) != 0 {
		t.Errorf("removed are %v, stages %v", m.GetRemovedRequestHeaders(), m.GetStages())
	}
	if _, err := p.Router(t, 0).Release(t.Context(), &routerv1.ReleaseRequest{PickId: m.GetPickId()}); err != nil {
		t.Error(err)
	}

	p.Announce(t, policy, p.Servers...)
	kittest.Eventually(t, "it to decode again", func() bool {
		a := p.ask(t, 0, p.cold())
		if a.status != http.StatusOK {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
		return a.is(p.decode) && p.Metric(t, 0, legsOf, `reason="ok"`) > legs
	})
	p.nothingLeft(t)
}

// Servers with a common storage: the prefill leg writes to it, and the decode leg reads. A
// client that says how much must be cached is decoded first, and only if that declines is
// its prompt prefilled elsewhere (F4 to F6, from outside).
func TestPDSharedStorage(t *testing.T) {
	store := modelserver.NewStore(10_000)
	p := startPD(t, 1, 2, cluster.Options{
		ConfigText: fmt.Sprintf(pdConfig, "always-disagg-pd-decider", ", connector: shared-storage, prefillTimeout: 600ms, prefillBudget: 1s"),
		Server: func(_ int, cfg *modelserver.Config) {
			cfg.Transfer.Connector, cfg.Transfer.Store = modelserver.SharedStorage, store
		},
	})
	ask := func(prompt string, threshold float64) completion {
		t.Helper()
		var body map[string]any
		if err := json.Unmarshal(p.body(prompt, false), &body); err != nil {
			t.Fatal(err)
		}
		body["cache_hit_threshold"] = threshold
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := p.client.Post(p.URL(0)+"/v1/completions", "application/json", strings.NewReader(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		out := completion{status: resp.StatusCode, header: resp.Header}
		if out.body, err = io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		return out
	}
	fetched := func() (n uint64) {
		for _, s := range p.decode {
			n += s.Transfers().FetchedTokens
		}
		return n
	}

	if a := p.ask(t, 0, p.cold()); a.status != http.StatusOK || !a.is(p.decode) || requests(p.prefill) != 1 || requests(p.decode) != 1 {
		t.Fatalf("status %d, %d prefilled, %d decoded: %s", a.status, requests(p.prefill), requests(p.decode), a.body)
	}
	if n := fetched(); n < 1000 {
		t.Errorf("%d tokens came from the storage", n)
	}
	if p.Metric(t, 0, decided, `type="prefill-decode"`) != 1 || p.Metric(t, 0, legsOf, `reason="ok"`) != 1 || p.Metric(t, 0, decodeOnly, "") != 0 {
		t.Error("metrics do not say that it was prefilled elsewhere")
	}

	prompt := p.cold() // nothing of it is anywhere: it is declined, prefilled, and decoded
	if a := ask(prompt, 0.5); a.status != http.StatusOK || !a.is(p.decode) || strings.Contains(string(a.body), "cache_threshold") || requests(p.prefill) != 2 {
		t.Errorf("F5: status %d, %d prefilled: %s", a.status, requests(p.prefill), a.body)
	}
	if n := p.Metric(t, 0, decodeOnly, `reason="cached"`); n != 0 || requests(p.decode) != 3 {
		t.Errorf("F5: %v are counted as cached, %d requests at decode servers", n, requests(p.decode))
	}
	if a := ask(prompt, 0.5); a.status != http.StatusOK || !a.is(p.decode) || requests(p.prefill) != 2 || requests(p.decode) != 4 {
		t.Errorf("F4: status %d, %d prefilled, %d at decode servers: %s", a.status, requests(p.prefill), requests(p.decode), a.body)
	}
	if n := p.Metric(t, 0, decodeOnly, `reason="cached"`); n != 1 {
		t.Errorf("F4: %v are counted as cached", n)
	}

	fault(t, p.prefill, modelserver.Faults{ErrorProbability: 1})
	if a := ask(p.cold(), 0.5); a.status != http.StatusOK || !a.is(p.decode) || strings.Contains(string(a.body), "cache_threshold") {
		t.Errorf("nobody prefills: status %d: %s", a.status, a.body)
	}
	if n := p.Metric(t, 0, decodeOnly, `reason="stage-failed"`); n != 1 {
		t.Errorf("nobody prefills: %v are counted as decoded only", n)
	}
	fault(t, p.prefill, modelserver.Faults{})
	p.nothingLeft(t)
}

// A router beside prefill and decode servers ends as soon as it has nothing to do, also
// when clients have connections over which they have never sent anything.
func TestPDRouterStops(t *testing.T) {
	p := startPD(t, 1, 1, cluster.Options{ConfigText: fmt.Sprintf(pdConfig, byPrefix, ""), RouterSets: []string{"drainDelay=0s", "listen.http.drainTimeout=1h"}})
	for range 3 {
		if a := p.ask(t, 0, p.cold()); a.status != http.StatusOK {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
	}
	for _, listener := range []string{"http", "admin"} {
		conn, err := net.Dial("tcp", p.Routers[0].Addr(listener))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	began := time.Now()
	p.Routers[0].Stop(t)
	t.Logf("it took %v", time.Since(began)) // 5 s, were these waited for
}
