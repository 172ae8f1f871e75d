package higress

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func imported(t *testing.T, text string) *Imported {
	t.Helper()
	in, err := Import([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func paths(list []Notice) []string {
	var out []string
	for _, n := range list {
		out = append(out, n.Path)
	}
	return out
}

// A18: the reference cleans its counts every 60 minutes, or as many as it is told. Here
// counts are leases and nothing is cleaned: whatever is given comes to the same, and says so.
func TestA18CleanInterval(t *testing.T) {
	const text = "{lb_policy: global_least_request, lb_config: {" + where + "%s}}"
	absent := imported(t, fmt.Sprintf(text, ""))
	for _, given := range []string{"0", "5"} {
		in := imported(t, fmt.Sprintf(text, ", cleanInterval: "+given))
		if d := cmp.Diff(string(absent.Text), string(in.Text)); d != "" {
			t.Errorf("cleanInterval %s: %s", given, d)
		}
		told := 0
		for _, n := range in.Infos {
			if n.Path == "lb_config.cleanInterval" && strings.Contains(n.Message, "has no effect") {
				told++
			}
		}
		if told != 1 || len(in.Infos) != len(absent.Infos)+1 {
			t.Errorf("cleanInterval %s: told %v", given, in.Infos)
		}
	}
}

// C9: endpoint_metrics without fields is metric_policy default, no metric, and a rate of 1.
func TestC9DefaultsOfEndpointMetrics(t *testing.T) {
	bare := imported(t, "{lb_policy: endpoint_metrics, lb_config: {}}")
	full := imported(t, `{lb_policy: endpoint_metrics, lb_config: {metric_policy: default, target_metric: "", rate_limit: 1.0}}`)
	if d := cmp.Diff(bare, full); d != "" {
		t.Error(d)
	}
	if len(bare.Warnings) != 0 || bare.Redis != nil {
		t.Errorf("warnings %v, redis %v", bare.Warnings, bare.Redis)
	}
}

// D13, D14, D16, D17: one metric. The reference picks anybody within the best n-th part of
// the range; here it is a scorer, whose greatest total wins (what then is picked: the
// router's TestHigressMetricPolicies). A share of picks is not limited, and that is told if
// it would have been.
func TestD13D14D16D17OneMetric(t *testing.T) {
	const text = "{lb_policy: endpoint_metrics, lb_config: {metric_policy: %s, target_metric: 'vllm:num_requests_waiting', rate_limit: %s}}"
	for _, c := range []struct{ id, policy, rate, weight, warned string }{
		{"D13 D17", "least", "1.0", "weight: 1\n", ""},
		{"D14 D17", "most", "1.0", "weight: -1\n", ""},
		{"D16", "least", ".6", "weight: 1\n", "lb_config.rate_limit"},
	} {
		in := imported(t, fmt.Sprintf(text, c.policy, c.rate))
		if !strings.Contains(string(in.Text), "pluginRef: queue-scorer\n    "+c.weight) || strings.Join(paths(in.Warnings), " ") != c.warned {
			t.Errorf("%s: warnings %v\n%s", c.id, in.Warnings, in.Text)
		}
	}
}

// The proposed windows of endpoint_metrics (sliding, or a ring of the last picks) bound
// shares of picks too: they are told to have no effect, and change nothing.
func TestWindowsHaveNoEffect(t *testing.T) {
	bare := imported(t, "{lb_policy: endpoint_metrics, lb_config: {}}")
	in := imported(t, "{lb_policy: endpoint_metrics, lb_config: {window_seconds: 60, window_size: 100}}")
	if d := cmp.Diff([]string{"lb_config.window_seconds", "lb_config.window_size"}, paths(in.Infos)); d != "" || string(in.Text) != string(bare.Text) {
		t.Error(d)
	}
}

// E, F, G: what chooses among services, or is in no released plug-in, is refused as a
// whole, with the reason once. So no default of it (F1), fault in it (F2) or unknown word
// (F4) matters, and nothing of it is silently taken for something else.
func TestEFGPoliciesThatAreNotHere(t *testing.T) {
	for _, c := range []struct{ name, policy, fields, want string }{
		{"E one cluster", "cluster_hash", "clusters: [{cluster: a, weight: 100}]", "chooses among services"},
		{"E weights of 90", "cluster_hash", "clusters: [{cluster: a, weight: 60}, {cluster: b, weight: 30}]", "chooses among services"},
		{"F1 defaults", "cluster_metrics", "mode: AdaptiveScore, service_list: [a, b]", "chooses among services"},
		{"F2 beta 1.2", "cluster_metrics", "mode: AdaptiveScore, service_list: [a], ewma_beta: 1.2", "chooses among services"},
		{"F2 weights of 0", "cluster_metrics", "mode: AdaptiveScore, service_list: [a], ttft_weight: 0, total_latency_weight: 0", "chooses among services"},
		{"F2 penalty -1", "cluster_metrics", "mode: AdaptiveScore, service_list: [a], error_penalty: -1", "chooses among services"},
		{"F2 cooldown -1", "cluster_metrics", "mode: AdaptiveScore, service_list: [a], failure_cooldown_ms: -1", "chooses among services"},
		{"F2 empty list", "cluster_metrics", "mode: AdaptiveScore, service_list: []", "chooses among services"},
		{"F2 timeout and TTL -1", "cluster_metrics", "mode: AdaptiveScore, service_list: [a], global_inflight_timeout: -1, global_inflight_key_ttl: -1", "chooses among services"},
		{"F2 global without redis", "cluster_metrics", "mode: AdaptiveScore, service_list: [a], global_inflight_enabled: true", "chooses among services"},
		{"F4 unknown metrics_missing_policy", "cluster_metrics", "mode: AdaptiveScore, service_list: [a], metrics_missing_policy: odd", "chooses among services"},
		{"G endpoint_hash", "endpoint_hash", where + ", stickyTimeout: 60", "endpoint_hash is not supported"},
	} {
		for kind, head := range map[string]string{"lb_type": "lb_type: cluster, ", "lb_policy": ""} {
			t.Run(c.name+" by "+kind, func(t *testing.T) {
				want := c.want
				if kind == "lb_type" {
					want = "cluster chooses among services"
				}
				in, err := Import([]byte("{" + head + "lb_policy: " + c.policy + ", lb_config: {" + c.fields + "}}"))
				var faults Faults
				if in != nil || !errors.As(err, &faults) || len(faults) != 1 || faults[0].Path != kind || !strings.Contains(faults[0].Message, want) {
					t.Errorf("%v, %v", in, err)
				}
			})
		}
	}
}
