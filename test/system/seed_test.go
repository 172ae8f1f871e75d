package system

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/test/cluster"
)

// seedExample is the complete example of the Inference Gateway's page: the picker
// stands before the scorer, and blocks have five bytes.
const seedExample = `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: prefix-cache-scorer
  parameters:
    hashBlockSize: 5
    maxPrefixBlocksToMatch: 256
    lruCapacityPerServer: 31250
- type: max-score-picker
- type: single-profile-handler
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: max-score-picker
  - pluginRef: prefix-cache-scorer
    weight: 50
`

// seedAll is every plug-in of that page and the decision tree that its chart ships.
const seedAll = `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: low-queue-filter, parameters: {threshold: 128}}
- {type: lora-affinity-filter, parameters: {threshold: 0.999}}
- {type: least-queue-filter}
- {type: least-kv-cache-filter}
- type: decision-tree-filter
  name: low-latency-filter
  parameters:
    current: {pluginRef: low-queue-filter}
    nextOnSuccess:
      decisionTree:
        current: {pluginRef: lora-affinity-filter}
        nextOnSuccessOrFailure:
          decisionTree:
            current: {pluginRef: least-queue-filter}
            nextOnSuccessOrFailure:
              decisionTree:
                current: {pluginRef: least-kv-cache-filter}
    nextOnFailure:
      decisionTree:
        current: {pluginRef: least-queue-filter}
        nextOnSuccessOrFailure:
          decisionTree:
            current: {pluginRef: lora-affinity-filter}
            nextOnSuccessOrFailure:
              decisionTree:
                current: {pluginRef: least-kv-cache-filter}
- {type: queue-scorer}
- {type: kv-cache-scorer}
- {type: prefix-cache-scorer}
- {type: max-score-picker}
- {type: random-picker, parameters: {maxNumOfEndpoints: 1}}
- {type: single-profile-handler}
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: low-latency-filter
  - {pluginRef: queue-scorer, weight: 1}
  - {pluginRef: kv-cache-scorer, weight: 1}
  - {pluginRef: prefix-cache-scorer, weight: 1}
  - pluginRef: max-score-picker
`

// A user's configuration works here unchanged.
func TestConfigurationsOfTheSeed(t *testing.T) {
	body := []byte(`{"model":"sim-model","max_tokens":4,"messages":[{"role":"user","content":"The same long question as before, asked once more, word by word, with a preamble that is longer than a block of sixty-four bytes."}]}`)
	for name, tc := range map[string]struct {
		text    string
		scorers []string
	}{
		"the complete example":             {seedExample, []string{"prefix-cache-scorer"}},
		"all plug-ins, and the tree of it": {seedAll, []string{"queue-scorer", "kv-cache-scorer", "prefix-cache-scorer"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster.Start(t, cluster.Options{Servers: 3, Server: fast, ConfigText: tc.text, RouterSets: patient})
			client := newClient(t)
			first := ""
			for i := range 5 {
				a, err := cluster.Post(context.Background(), client, c.URL(0)+"/v1/chat/completions", body)
				if err != nil || a.Status != http.StatusOK {
					t.Fatalf("status %d, error %v: %.300s", a.Status, err, a.Body)
				}
				c.AwaitIdle(t)
				if i == 0 {
					first = a.Endpoint
					if tc.text == seedExample {
						awaitBest(t, c, body, 50)
					}
				} else if tc.text == seedExample && a.Endpoint != first {
					t.Errorf("request %d went to %s, the prompt is on %s", i, a.Endpoint, first)
				}
			}
			m := explained(t, c, body)
			p := m.GetDecision().GetProfiles()[0]
			var scored []string
			for _, s := range p.GetScorers() {
				if s.GetVerdict() != routerv1.ScorerVerdict_SCORER_VERDICT_SCORED {
					t.Errorf("%s: %v %s", s.GetPlugin(), s.GetVerdict(), s.GetReason())
				}
				scored = append(scored, s.GetPlugin())
			}
			if !slices.Equal(scored, tc.scorers) || p.GetPicker() != "max-score-picker" || m.GetDecision().GetError() != "" {
				t.Errorf("scorers %v, picker %s, error %q", scored, p.GetPicker(), m.GetDecision().GetError())
			}
			if tc.text == seedExample && p.GetTotal() != 50 {
				t.Errorf("total %v, want the whole weight of 50 for a prompt that is held", p.GetTotal())
			}
		})
	}
}

// awaitBest waits until the endpoint that would be picked has a total: indexers hear of
// a prompt a moment after it was sent.
func awaitBest(t *testing.T, c *cluster.Cluster, body []byte, total float64) {
	t.Helper()
	kittest.Eventually(t, fmt.Sprintf("the best endpoint has %v points", total), func() bool {
		return explained(t, c, body).GetDecision().GetProfiles()[0].GetTotal() == total
	})
}

func explained(t *testing.T, c *cluster.Cluster, body []byte) *routerv1.ExplainResponse {
	t.Helper()
	m, err := c.Router(t, 0).Explain(t.Context(), &routerv1.ExplainRequest{Request: &routerv1.RequestDescription{Path: "/v1/chat/completions", Body: body}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
