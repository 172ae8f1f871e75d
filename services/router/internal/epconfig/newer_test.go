package epconfig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Types of newer endpoint pickers.
func TestNewerTypes(t *testing.T) {
	const tail = "- type: queue-scorer\n- type: max-score-picker\n- type: single-profile-handler\n"
	filters := func(names string) func(*testing.T, *Loaded) {
		return shaped("default: " + names + " | queue-scorer×1 | max-score-picker(1)")
	}
	for _, c := range []struct {
		id, plugins string
		want        want
	}{
		{"label selector", "- type: label-selector-filter\n  parameters:\n    matchLabels: {app: vllm}\n    matchExpressions:\n    - {key: zone, operator: NotIn, values: [b]}\n    - {key: gpu, operator: Exists}\n", want{check: filters("label-selector-filter")}},
		{"label selector by its older name", "- type: by-label-selector\n  parameters: {matchLabels: {app: vllm}}\n", want{check: filters("by-label-selector")}},
		{"label selector at fault", "- type: label-selector-filter\n  parameters:\n    matchLabels: {a: 1}\n    matchExpressions:\n    - {key: zone, operator: in, values: [b]}\n    - {kee: x}\n", want{errs: []string{
			`plugins[0].parameters.matchLabels.a: must be a text, not the number 1; put it in quotes`,
			`plugins[0].parameters.matchExpressions[0].operator: is spelt In`,
			`plugins[0].parameters.matchExpressions[1].kee: unknown field; did you mean "key"?`,
		}}},
		{"label selector with all sorts of wrong conditions", "- type: label-selector-filter\n  parameters:\n    matchLabels: {a: 1}\n    matchExpressions:\n    - {key: zone, operator: in, values: [b]}\n    - {operator: Exists}\n", want{errs: []string{
			`:6:22: plugins[0].parameters.matchLabels.a: must be a text`, `matchExpressions[0].operator: is spelt In`, `:9:7: plugins[0].parameters.matchExpressions[1]: key is missing`,
		}}},
		{"label selector with wrong conditions", "- type: label-selector-filter\n  parameters:\n    matchExpressions:\n    - {key: zone, operator: In}\n    - {operator: Exists}\n", want{errs: []string{"matchExpressions[0]: operator In needs values", "matchExpressions[1]: key is missing"}}},

		{"E14 by-label without a label", "- type: by-label\n  parameters: {validValues: [a]}\n", want{errs: []string{"label is missing"}}},
		{"E14 by-label that nobody passes", "- type: by-label\n  parameters: {label: tier}\n", want{errs: []string{"no endpoint could pass"}}},
		{"E14 by-label of wrong types", "- type: by-label\n  parameters: {label: 3, validValues: a, allowsNoLabel: 1}\n", want{errs: []string{
			"parameters.label: must be a text", "parameters.validValues: must be a list of texts", "parameters.allowsNoLabel: must be true or false",
		}}},
		{"E14 by-label with no mapping", "- type: by-label\n  parameters: [1]\n", want{errs: []string{"must be a mapping of fields"}}},
		{"by-label", "- type: by-label\n  parameters: {label: tier, validValues: [web], allowsNoLabel: true}\n", want{check: filters("by-label")}},
		{"roles", "- type: decode-filter\n- type: prefill-filter\n- type: encode-filter\n- type: header-based-testing-filter\n", want{check: filters("decode-filter prefill-filter encode-filter header-based-testing-filter")}},
		{"a role filter takes no parameters", "- type: decode-filter\n  parameters: {label: x}\n", want{errs: []string{"decode-filter takes none"}}},

		{"context-length-aware scores", "- type: context-length-aware\n", want{check: shaped("default: | context-length-aware×1 queue-scorer×1 | max-score-picker(1)")}},
		{"context-length-aware filters too", "- type: context-length-aware\n  parameters: {enableFiltering: true, label: x}\n", want{check: shaped("default: context-length-aware | context-length-aware×1 queue-scorer×1 | max-score-picker(1)")}},
		{"context-length-aware without a label", "- type: context-length-aware\n  parameters: {label: ''}\n", want{errs: []string{"parameters.label: label is empty"}}},

		{"E24 threshold", "- type: prefix-cache-affinity-filter\n  parameters: {affinityThreshold: 1.5}\n", want{errs: []string{"affinityThreshold must be <= 1.0"}}},
		{"E24 exploration", "- type: prefix-cache-affinity-filter\n  parameters: {explorationProbability: -0.1}\n", want{errs: []string{"explorationProbability must be in [0, 1]"}}},
		{"affinity with a prefix scorer", "- type: prefix-cache-affinity-filter\n- type: prefix-cache-scorer\n", want{check: shaped("default: prefix-cache-affinity-filter | prefix-cache-scorer×1 queue-scorer×1 | max-score-picker(1)")}},
		{"affinity without one", "- type: prefix-cache-affinity-filter\n", want{
			infos: []string{`filter "prefix-cache-affinity-filter" goes by prefix-cache-scorer, which profile "default" lacks; it is asked with weight 0`},
			check: shaped("default: prefix-cache-affinity-filter | queue-scorer×1 prefix-cache-scorer×0 | max-score-picker(1)"),
		}},
		{"affinity in a tree", "- type: prefix-cache-affinity-filter\n- type: decision-tree-filter\n  parameters: {current: {pluginRef: prefix-cache-affinity-filter}}\n", want{errs: []string{"goes by what scorers say, and so cannot stand in a decision tree"}}},

		{"a scorer that is not here", "- type: precise-prefix-cache-scorer\n", want{errs: []string{`"precise-prefix-cache-scorer" (scorer) of newer endpoint pickers is not here yet; nearest here: prefix-cache-scorer`}}},
		{"F24 F25 F27 a latency scorer", "- type: latency-scorer\n", want{errs: []string{"nearest here: token-load-scorer and queue-scorer; there are no predictions of latency"}}},
		{"E26 E27 E29 a filter by predictions", "- type: slo-headroom-tier-filter\n", want{errs: []string{"nearest here: low-queue-filter"}}},
		{"a producer by predictions", "- type: predicted-latency-producer\n", want{errs: []string{"(data producer) of newer endpoint pickers is not here yet; nearest here: token-load-scorer"}}},
		{"a parser that is not here", "- type: vllmgrpc-parser\n", want{errs: []string{"nearest here: openai-parser"}}},
		{"producers that are not needed", "- type: inflight-load-producer\n- type: token-producer\n", want{infos: []string{"inflight-load-producer is not needed here: the router counts", "token-producer is not needed here: prompt tokens are estimated"}, check: shaped("default: | queue-scorer×1 | max-score-picker(1)")}},
	} {
		t.Run(c.id, func(t *testing.T) {
			c.want.run(t, head+"plugins:\n"+c.plugins+tail)
		})
	}
}

// F46 and B119: whose parameters the prefix scorer goes by, and that a difference is
// seen.
func TestTheProducersParametersAreThePrefixScorers(t *testing.T) {
	const scorer = "- type: prefix-cache-scorer\n"
	for _, c := range []struct {
		name, plugins, got string
		want               want
	}{
		{"without parameters", "- type: approx-prefix-cache-producer\n" + scorer, `{"autoTune":true,"blockSizeTokens":16}`, want{
			infos: []string{`approx-prefix-cache-producer is not needed here: "prefix-cache-scorer" does its work, with its parameters and defaults`},
		}},
		{"declared after the scorer", scorer + "- type: approx-prefix-cache-producer\n  parameters: {blockSizeTokens: 32, lruCapacityPerServer: 7}\n", `{"blockSizeTokens":32,"lruCapacityPerServer":7,"autoTune":true}`, want{}},
		{"its own spelling", "- type: approx-prefix-cache-producer\n  parameters: {AUTOTUNE: false, blocksizetokens: 8}\n" + scorer, `{"AUTOTUNE":false,"blocksizetokens":8}`, want{}},
		{"both have some", "- type: approx-prefix-cache-producer\n  parameters: {blockSizeTokens: 32}\n" + scorer + "  parameters: {hashBlockSize: 64}\n", `{"hashBlockSize":64}`, want{
			warnings: []string{`are not those of "prefix-cache-scorer", which has its own: block sizes that differ find nothing in common`},
		}},
		{"the producer alone", "- type: approx-prefix-cache-producer\n- type: queue-scorer\n", "", want{infos: []string{"nothing needs it"}}},
		{"a fault is where it stands", "- type: approx-prefix-cache-producer\n  parameters: {lruCapacityPerServer: x}\n" + scorer, "", want{errs: []string{"epp.yaml:5:38: plugins[0].parameters.lruCapacityPerServer: must be a whole number"}}},
		{"an unknown key", "- type: approx-prefix-cache-producer\n  parameters: {nope: x}\n- type: queue-scorer\n", "", want{errs: []string{"unknown parameter of approx-prefix-cache-producer"}}},
		{"none", scorer, "", want{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.run(t, head+"plugins:\n"+c.plugins)
			_, s, _ := load(head + "plugins:\n" + c.plugins)
			if len(c.want.errs) == 0 {
				if diff := cmp.Diff(c.got, s.got["prefix-cache-scorer"]); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// A scorer that looks into the same index cuts prompts as the prefix scorer does, or
// they would be indexed twice.
func TestNoHitCutsPromptsAsThePrefixScorerDoes(t *testing.T) {
	for _, c := range []struct{ name, plugins, got string }{
		{"as the prefix scorer", "- type: no-hit-lru-scorer\n- type: prefix-cache-scorer\n  parameters: {hashBlockSize: 5, lruCapacityPerServer: 9}\n", `{"hashBlockSize":5,"lruCapacityPerServer":9}`},
		{"with parameters of its own besides", "- type: prefix-cache-scorer\n  parameters: {hashBlockSize: 5}\n- type: no-hit-lru-scorer\n  parameters: {lruSize: 7}\n", `{"hashBlockSize":5,"lruSize":7}`},
		{"as the producer", "- type: approx-prefix-cache-producer\n- type: prefix-cache-scorer\n- type: no-hit-lru-scorer\n", `{"autoTune":true,"blockSizeTokens":16}`},
		{"it says so itself", "- type: prefix-cache-scorer\n  parameters: {hashBlockSize: 5}\n- type: no-hit-lru-scorer\n  parameters: {HASHBLOCKSIZE: 6}\n", `{"HASHBLOCKSIZE":6}`},
		{"alone", "- type: no-hit-lru-scorer\n", ""},
		{"by default", "- type: no-hit-lru-scorer\n- type: prefix-cache-scorer\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, s, err := load(head + "plugins:\n" + c.plugins)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.got, s.got["no-hit-lru-scorer"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What a filled-in prefix scorer is, is in the effective configuration.
func TestEffectiveOfNewerTypes(t *testing.T) {
	l := mustLoad(t, head+`plugins:
- type: prefix-cache-affinity-filter
- type: approx-prefix-cache-producer
- type: by-label
  parameters: {label: tier, validValues: ["on"]}
- type: context-length-aware
  parameters: {enableFiltering: true}
- type: label-selector-filter
  parameters: {matchLabels: {"y": "1"}}
`)
	again, _, err := load(string(l.Effective))
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, l.Effective)
	}
	if diff := cmp.Diff(shape(l.Config.Profiles[0]), shape(again.Config.Profiles[0])); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(string(l.Effective), string(again.Effective)); diff != "" {
		t.Error(diff)
	}
}
