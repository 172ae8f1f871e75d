package envoy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// apart has a profile for each role, and sidecars carry it out.
const apart = `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: disagg-profile-handler
  parameters: {deciders: {prefill: prefix-based-pd-decider}, connector: sidecar}
- type: prefix-based-pd-decider
  parameters: {nonCachedTokens: 512}
- type: decode-filter
- type: prefill-filter
- type: prefix-cache-scorer
- type: active-request-scorer
- type: token-load-scorer
schedulingProfiles:
- name: decode
  plugins:
  - pluginRef: decode-filter
  - {pluginRef: prefix-cache-scorer, weight: 2}
  - {pluginRef: active-request-scorer, weight: 1}
- name: prefill
  plugins:
  - pluginRef: prefill-filter
  - {pluginRef: token-load-scorer, weight: 1}
`

// completion is a request to /v1/completions with a prompt of some 1,500 tokens that
// nobody has seen, or a short one.
func completion(t testing.TB, n int, long, stream bool, tokens int) request {
	t.Helper()
	prompt := fmt.Sprintf("story %d: ", n)
	if long {
		prompt += strings.Repeat(fmt.Sprintf("chapter %d of it. ", n), 350)
	}
	body, err := json.Marshal(map[string]any{"model": "sim-model", "prompt": prompt, "max_tokens": tokens, "ignore_eos": true, "stream": stream})
	if err != nil {
		t.Fatal(err)
	}
	return request{path: "/v1/completions", body: body, headers: map[string]string{"X-Request-Id": fmt.Sprintf("pd-%d", n)}}
}

// TestDisaggregation goes all the way (B162): the picker behind Envoy names a server to
// prefill, the sidecar of the server that decodes is told by a header, and both legs run.
// What clients say of where to goes nowhere (B214), decisions and metrics show both picks,
// and the tokens of a prompt count where it is prefilled until it should be done.
func TestDisaggregation(t *testing.T) {
	const legs, releases = "pointsman_disagg_sidecar_prefill_legs_total", "pointsman_router_prefill_releases_total"
	bus := kittest.StartNATS(t, 0)
	free := func() string { return fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t)) }
	sidecars := map[*modelserver.Server]*cluster.Process{}
	addresses := map[*modelserver.Server]string{}
	r := newRig(t, options{
		file: overrideHost,
		cluster: cluster.Options{
			NATS: bus, Servers: 3, ConfigText: apart,
			Labels: func(i int) string { return "{llm-d.ai/role: " + []string{"prefill", "decode", "decode"}[i] + "}" },
			Server: func(_ int, cfg *modelserver.Config) { cfg.TimeScale, cfg.Transfer.Connector = 25, modelserver.NIXL },
		},
		beside: func(s *modelserver.Server, front string) string {
			if len(addresses) > 0 { // the first one prefills
				p := cluster.NewProcess(t, fmt.Sprintf("disagg-sidecar-%d", len(addresses)), cluster.Binary(t, "disagg-sidecar"), 2,
					"--set", "nats.url="+bus.URL, "--set", "admin.address="+free(), "--set", "listen.address="+free(), "--set", "decode.address="+front)
				p.Start(t)
				sidecars[s], front = p, p.Addr("http")
			}
			addresses[s] = front
			return front
		},
	})
	prefill := r.Servers[0]
	for _, p := range sidecars {
		kittest.Eventually(t, "the sidecars to know whom they may call", func() bool {
			resp, err := http.Get("http://" + p.Addr("admin") + "/readyz")
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	}
	ran := func() (n float64) {
		for _, p := range sidecars {
			n += p.Metric(t, legs, "")
		}
		return n
	}
	decoy := r.decoy(t)
	n := 0
	// ask sends a request and asserts that what the router decided is what was done.
	ask := func(long, stream bool, tokens int, headers map[string]string) answer {
		t.Helper()
		n++
		q := completion(t, n, long, stream, tokens)
		for name, value := range headers {
			q.headers[name] = value
		}
		kind := "decode-only"
		if long {
			kind = "prefill-decode"
		}
		decided, before, prefilled := r.counter("pointsman_router_disaggregation_total", `type="`+kind+`"`), ran(), len(r.servers.all[0].heard())
		a := r.send(t, "openai", q)
		if a.status != http.StatusOK {
			t.Fatalf("status %d: %.300s", a.status, a.body)
		}
		decided.rose(t, 1)
		want := 0
		if long {
			want = 1
		}
		if got := ran() - before; got != float64(want) || len(r.servers.all[0].heard())-prefilled != want {
			t.Errorf("%v prefill legs, %d came to the server that prefills, want %d", got, len(r.servers.all[0].heard())-prefilled, want)
		}
		d := r.decisions.of(t, q.headers["X-Request-Id"])
		by := ""
		for s, address := range addresses {
			if s != prefill && s.Address() == a.headers.Get("X-Sim-Server") {
				by = address
			}
		}
		if d.GetEndpoint().GetAddress() != by {
			t.Errorf("%s was picked to decode, and %q has, behind the sidecar at %q", d.GetEndpoint().GetAddress(), a.headers.Get("X-Sim-Server"), by)
		}
		if stages := d.GetStages(); len(stages) != want || want == 1 && stages[0].GetEndpoints()[0].GetAddress() != addresses[prefill] {
			t.Errorf("stages %v, want the one that prefills, %s", stages, addresses[prefill])
		}
		return a
	}

	fetched := func() (n uint64) {
		for _, s := range r.Servers[1:] {
			n += s.Transfers().Fetched
		}
		return n
	}
	ask(true, false, 8, nil)
	if fetched() != 1 {
		t.Errorf("%d prompts were handed over, want 1", fetched())
	}
	ask(false, false, 8, nil)
	first := r.counter(releases, `by="first-token"`)
	if a := ask(true, true, 8, nil); !strings.HasSuffix(string(a.body), "data: [DONE]\n\n") {
		t.Errorf("B171: the stream ends with %.100q", a.body[max(0, len(a.body)-100):])
	}
	first.rose(t, 1)

	for _, headers := range spoofs(decoy.address) {
		ask(n%2 == 0, false, 2, headers)
	}
	for _, s := range r.servers.all {
		for _, h := range s.heard() {
			for name, values := range h {
				if strings.Contains(strings.Join(values, " "), decoy.address) || strings.Contains(strings.ToLower(name), "prefiller") {
					t.Errorf("the engine at %s was told %s: %v", s.address, name, values)
				}
			}
		}
	}
	if got := decoy.heard(); len(got) != 0 {
		t.Errorf("clients have sent %d requests to where they liked", len(got))
	}

	// Streams teach how long prefilling takes; with other answers the prompt counts no longer.
	for range 10 {
		ask(true, true, 2, nil)
	}
	kittest.Eventually(t, "a prompt to count as prefilled before its answer begins", func() bool {
		ask(true, false, 2000, nil)
		return r.Metric(t, 0, releases, `by="estimate"`) > 0
	})
	r.idle(t)
	r.content(t, "openai")
}
