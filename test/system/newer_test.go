package system

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/test/cluster"
)

// newerText uses every filter and scorer that newer endpoint pickers have added.
const newerText = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: label-selector-filter
  parameters: {matchExpressions: [{key: retired, operator: DoesNotExist}]}
- type: by-label
  parameters: {label: retired, allowsNoLabel: true}
- type: decode-filter
- type: approx-prefix-cache-producer
- type: inflight-load-producer
- type: prefix-cache-affinity-filter
- type: context-length-aware
  parameters: {enableFiltering: true}
- type: queue-scorer
- type: running-requests-size-scorer
- type: load-aware-scorer
- type: active-request-scorer
- type: token-load-scorer
- type: kv-cache-utilization-scorer
- type: lora-affinity-scorer
- type: prefix-cache-scorer
- type: no-hit-lru-scorer
- type: session-affinity-scorer
- type: weighted-random-picker
  parameters: {maxNumOfEndpoints: 2}
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: label-selector-filter
  - pluginRef: by-label
  - pluginRef: decode-filter
  - pluginRef: prefix-cache-affinity-filter
  - {pluginRef: context-length-aware, weight: 0.5}
  - {pluginRef: queue-scorer, weight: 1}
  - {pluginRef: running-requests-size-scorer, weight: 0.5}
  - {pluginRef: load-aware-scorer, weight: 0.5}
  - {pluginRef: active-request-scorer, weight: 0.5}
  - {pluginRef: token-load-scorer, weight: 0.5}
  - {pluginRef: kv-cache-utilization-scorer, weight: 0.5}
  - {pluginRef: lora-affinity-scorer, weight: 0.5}
  - {pluginRef: prefix-cache-scorer, weight: 1.5}
  - {pluginRef: no-hit-lru-scorer, weight: 0.5}
  - {pluginRef: session-affinity-scorer, weight: 100}
  - pluginRef: max-score-picker
`

// A configuration of everything new runs on the real processes: every scorer answers,
// none breaks the contract, and a client that sends its token back to any router comes
// to the server that gave it.
func TestNewerPluginsOverTheServices(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Servers: 4, Routers: 2, Server: fast, Plain: true, RouterSets: patient, ConfigText: newerText})
	client := newClient(t)
	ask := func(router, n int, token string) *http.Response {
		t.Helper()
		body := fmt.Sprintf(`{"model":"sim-model","max_tokens":4,"messages":[{"role":"user","content":"%s question %d"}]}`, strings.Repeat(fmt.Sprintf("word%d ", n*7919), 60), n)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL(router)+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("X-Session-Token", token)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d", resp.StatusCode)
		}
		return resp
	}
	for session := range 4 {
		first := ask(session%2, session, "")
		token, endpoint := first.Header.Get("X-Session-Token"), first.Header.Get("X-Pointsman-Endpoint")
		if text, err := base64.StdEncoding.DecodeString(token); err != nil || !strings.HasPrefix(string(text), "default/") {
			t.Fatalf("token %q is %q, %v", token, text, err)
		}
		for i := range 8 {
			next := ask(i%2, 1000*session+i, token)
			if got := next.Header.Get("X-Pointsman-Endpoint"); got != endpoint || next.Header.Get("X-Session-Token") != token {
				t.Errorf("session %d, request %d: went to %s, want %s", session, i, got, endpoint)
			}
		}
	}

	d, err := c.Router(t, 0).Explain(t.Context(), &routerv1.ExplainRequest{Request: &routerv1.RequestDescription{
		Path: "/v1/chat/completions", Body: fmt.Appendf(nil, `{"model":"sim-model","messages":[{"role":"user","content":"%s"}]}`, strings.Repeat("quite new ", 60)),
	}})
	if err != nil || len(d.GetDecision().GetProfiles()) != 1 {
		t.Fatalf("explain: %v, %v", d, err)
	}
	scorers := d.GetDecision().GetProfiles()[0].GetScorers()
	if len(scorers) != 11 {
		t.Errorf("%d scorers were asked", len(scorers))
	}
	for _, s := range scorers {
		want := routerv1.ScorerVerdict_SCORER_VERDICT_SCORED
		switch s.GetScorerType() {
		case "session-affinity-scorer": // without a token
			want = routerv1.ScorerVerdict_SCORER_VERDICT_ABSTAINED
		case "lora-affinity-scorer": // as the servers tell of adapters or not
			want = s.GetVerdict()
		}
		if s.GetVerdict() != want || s.GetVerdict() > routerv1.ScorerVerdict_SCORER_VERDICT_ABSTAINED {
			t.Errorf("%s: %v: %s", s.GetScorerType(), s.GetVerdict(), s.GetReason())
		}
	}
	for i := range c.Routers {
		for _, name := range []string{"pointsman_router_scorer_contract_breaches_total", "pointsman_router_scorer_refusals_total"} {
			if n := c.Metric(t, i, name, ""); n != 0 {
				t.Errorf("router %d: %s is %v", i, name, n)
			}
		}
	}
	kittest.Eventually(t, "everything to end", func() bool { return c.Metric(t, 0, "pointsman_router_reservations", "") == 0 })
}
