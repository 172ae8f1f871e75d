package app

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Higress D13, D14: waiting 0, 3, 10, whose scores by queue are 1, .7, 0. The reference
// picks anybody within the best third of the range, so 3 as often as 0, which is why it is
// said to send to busy endpoints; here least is the least and most the most.
func TestHigressMetricPolicies(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		want         int32
	}{{"D13 least", "least", 0}, {"D14 most", "most", 2}} {
		t.Run(c.name, func(t *testing.T) {
			l, err := load("lb.yaml", fmt.Appendf(nil, "{lb_policy: endpoint_metrics, lb_config: {metric_policy: %s, target_metric: 'vllm:num_requests_waiting'}}", c.policy), servesAll{})
			if err != nil {
				t.Fatal(err)
			}
			p := l.Config.Profiles[0]
			if len(p.Scorers) != 1 || p.Scorers[0].Type != "queue-scorer" || len(p.Filters) != 0 {
				t.Fatalf("%+v", p)
			}
			w := p.Scorers[0].Weight
			for range 100 {
				cycle := &route.Cycle{Request: &route.Request{}, Rand: rand.IntN}
				got, tie := p.Picker.Pick(cycle, []int32{0, 1, 2}, []float64{w * 1, w * .7, 0}, make([]int64, 3), 1, nil)
				if d := cmp.Diff([]int32{c.want}, got); d != "" || tie != "" {
					t.Fatalf("tie %q: %s", tie, d)
				}
			}
		})
	}
}

// Higress H1: its ai-endpoint-picker goes by 2 queue, 2 KV cache, 3 prefix unless told
// otherwise, and so does a router without a configuration.
func TestHigressH1DefaultWeights(t *testing.T) {
	l, err := load("", nil, servesAll{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, s := range l.Config.Profiles[0].Scorers {
		got[s.Type] = s.Weight
	}
	if d := cmp.Diff(map[string]float64{"queue-scorer": 2, "kv-cache-scorer": 2, "prefix-cache-scorer": 3}, got); d != "" || len(l.Config.Profiles) != 1 {
		t.Error(d)
	}
}

// Higress H2: what its ai-endpoint-picker refuses. It has no lb_policy and its form is not
// read here, so it is a fault whatever stands in it (H1's {} too); nothing of it is
// silently taken for the default. What takes its place refuses the same mistakes.
func TestHigressH2WhatIsRefused(t *testing.T) {
	const form = `
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: queue-scorer}, {type: %s}, {type: single-profile-handler}]
schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer, weight: %s}, {pluginRef: %s}]
`
	ours := func(weight, picker string) string { return fmt.Sprintf(form, picker, weight, picker) }
	if _, err := load("epp.yaml", []byte(ours("1", "max-score-picker")), servesAll{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"H1 {}":                 {"{}", "apiVersion: is missing"},
		"profile latency":       {"{profile: latency}", "profile: unknown field"},
		"weights that are none": {"{weights: [1]}", "weights: unknown field"},
		"a weight of -1":        {"{weights: {queue: -1}}", "weights: unknown field"},
		"all weights 0":         {"{weights: {queue: 0}}", "weights: unknown field"},
		"alpha 1.1":             {"{failure: {alpha: 1.1}}", "failure: unknown field"},
		"sample 1.1":            {"{log: {sample: 1.1}}", "log: unknown field"},
		"picker random":         {ours("1", "random"), "random"},
		"a weight as a text":    {ours(`"x"`, "max-score-picker"), "weight: must be a finite number"},
		"a weight of infinity":  {ours(".inf", "max-score-picker"), "weight: must be a finite number"},
		"a weight as a mapping": {ours("{}", "max-score-picker"), "weight: must be"},
	} {
		t.Run(name, func(t *testing.T) {
			if l, err := load("epp.yaml", []byte(c.text), servesAll{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v; want %q", l, err, c.want)
			}
		})
	}
}
