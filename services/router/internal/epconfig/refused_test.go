package epconfig

import "testing"

// M24: the row loads two profiles with the handler for one, and then refuses every
// request. Here the configuration is refused, with the names of the profiles.
func TestM24TwoProfilesWithTheSingleHandler(t *testing.T) {
	const plugins = head + "plugins:\n- type: queue-scorer\n- type: kv-cache-scorer\n- type: max-score-picker\n- type: single-profile-handler\n"
	const one = "schedulingProfiles:\n- name: decode\n  plugins:\n  - pluginRef: queue-scorer\n  - pluginRef: max-score-picker\n"
	const other = "- name: prefill\n  plugins:\n  - pluginRef: kv-cache-scorer\n  - pluginRef: max-score-picker\n"
	l, _, err := load(plugins + one + other)
	if err == nil || l != nil {
		t.Fatalf("loaded %v, error %v; want it refused", l, err)
	}
	contains(t, "error", err.Error(), []string{"epp.yaml:", "single-profile-handler is for a single profile, and there are 2: decode, prefill"})
	shaped("decode: | queue-scorer×1 | max-score-picker(1)")(t, mustLoad(t, plugins+one))
}

// B156: ranking by time to the first token over tokens of the answer prefers whoever
// gives long answers. Nothing here ranks by measured latency, and a configuration that
// wants it is refused rather than given something else.
func TestB156NothingRanksByLatency(t *testing.T) {
	for _, typ := range []string{"latency-scorer", "predicted-latency-scorer"} {
		l, s, err := load(head + "plugins:\n- type: queue-scorer\n- type: " + typ + "\n")
		if err == nil || l != nil {
			t.Fatalf("%s: loaded %v, error %v; want it refused", typ, l, err)
		}
		contains(t, "error", err.Error(), []string{"epp.yaml:5:9: plugins[1].type:", typ, "token-load-scorer", "there are no predictions of latency"})
		if _, asked := s.got[typ]; asked {
			t.Errorf("%s: a service was asked for it", typ)
		}
	}
}
