package reference

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	router "github.com/pointsman/pointsman/services/router/app"
)

// loaded checks a text with all first-party scorers.
func loaded(t *testing.T, text string) *routerv1.CheckConfigResponse {
	t.Helper()
	services, err := Services()
	if err != nil {
		t.Fatal(err)
	}
	m, err := router.CheckConfig(t.Context(), "epp.yaml", []byte(text), services, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range m.GetFaults() {
		t.Errorf("%s: %s", f.GetPath(), f.GetMessage())
	}
	if t.Failed() {
		t.Fatalf("in:\n%s", text)
	}
	return m
}

// nothingLeftOut checks that the effective text of a text has all parameters of its
// plug-ins that have a default, and that it comes to itself.
func nothingLeftOut(t *testing.T, c *Catalogue, text string) {
	t.Helper()
	first := loaded(t, text)
	second := loaded(t, first.GetEffectiveText())
	if d := cmp.Diff(first.GetEffectiveText(), second.GetEffectiveText()); d != "" {
		t.Errorf("printed twice it differs:\n%s", d)
	}
	for i, p := range first.GetPlugins() {
		again := second.GetPlugins()[i]
		if again.GetFilledIn() || p.GetName() != again.GetName() || p.GetParametersJson() != again.GetParametersJson() {
			t.Errorf("%v became %v", p, again)
		}
		known, ok := c.Plugin(p.GetType(), p.GetService())
		if !ok {
			t.Errorf("%s of %q is not in the catalogue", p.GetType(), p.GetService())
		}
		if known.Role == builtInRole {
			continue
		}
		values := map[string]json.RawMessage{}
		if text := p.GetParametersJson(); text != "" {
			if err := json.Unmarshal([]byte(text), &values); err != nil {
				t.Fatal(err)
			}
		}
		for _, param := range known.Parameters {
			_, shown := values[param.Name]
			if optional := param.Name == "hashBlockSize" && (values["blockSizeTokens"] != nil || values["blockSize"] != nil); param.Default != "" && !shown && !optional {
				t.Errorf("%s: %s, whose default is %s, is not shown in %s", p.GetType(), param.Name, param.Default, p.GetParametersJson())
			}
		}
	}
	for _, n := range first.GetInfos() {
		if strings.Contains(n.GetMessage(), "did not say what defaults there are") {
			t.Errorf("%s: %s", n.GetPath(), n.GetMessage())
		}
	}
}

// Every first-party type is printed with nothing left out, without parameters and with
// each of them at its default.
func TestEffectiveTextOfEveryType(t *testing.T) {
	c := catalogue(t)
	const head = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- {name: other, type: queue-scorer}\n"
	for _, p := range c.Plugins() {
		if p.Type == "decision-tree-filter" || p.Type == "by-label" {
			continue // they must have parameters; in TestEffectiveTextOfExamples
		}
		profiles := ""
		if p.Type == "disagg-profile-handler" || p.Type == "pd-profile-handler" { // they must have them
			profiles = "schedulingProfiles:\n- {name: decode, plugins: [{pluginRef: other}]}\n- {name: prefill, plugins: [{pluginRef: other}]}\n"
		}
		for _, typ := range append([]string{p.Type}, p.Aliases...) {
			t.Run(typ, func(t *testing.T) {
				nothingLeftOut(t, c, head+"- {name: p, type: "+typ+"}\n"+profiles)
				for _, param := range p.Parameters {
					if param.Default == "" {
						continue
					}
					nothingLeftOut(t, c, fmt.Sprintf("%s- {name: p, type: %s, parameters: {%s: %s}}\n%s", head, typ, strings.ToUpper(param.Name), param.Default, profiles))
				}
			})
		}
	}
}

func TestEffectiveTextOfExamples(t *testing.T) {
	c := catalogue(t)
	for name, plugins := range map[string]string{
		"a tree":                      "- type: low-queue-filter\n- type: least-queue-filter\n- type: decision-tree-filter\n  parameters: {current: {pluginRef: low-queue-filter}, nextOnSuccess: {decisionTree: {current: {pluginRef: least-queue-filter}}}}\n",
		"labels":                      "- type: by-label\n  parameters: {label: tier, validValues: [\"1\"]}\n",
		"a producer":                  "- type: approx-prefix-cache-producer\n- type: prefix-cache-scorer\n- type: no-hit-lru-scorer\n",
		"a producer with parameters":  "- type: approx-prefix-cache-producer\n  parameters: {blockSize: 128}\n- type: prefix-cache-scorer\n",
		"like the prefix scorer":      "- type: prefix-cache-scorer\n  parameters: {blockSizeTokens: 16}\n- type: no-hit-lru-scorer\n  parameters: {lruSize: 9}\n",
		"a filter that needs another": "- type: prefix-cache-affinity-filter\n",
		"both halves":                 "- type: context-length-aware\n  parameters: {enableFiltering: true, label: a}\n",
		"a detector":                  "- type: concurrency-detector\n- type: queue-scorer\nsaturationDetector: {pluginRef: concurrency-detector}\n",
		"odd figures":                 "- type: active-request-scorer\n  parameters: {idleThreshold: 3, maxBusyScore: 1e-1, requestTimeout: \"5m\"}\n- type: session-affinity-scorer\n  parameters: {headerName: X-Me}\n",
		"prefill and decode as of v0.8": "- type: disagg-profile-handler\n  parameters: {deciders: {prefill: prefix-based-pd-decider}}\n- {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 16}}\n" +
			"- {type: prefix-cache-scorer, parameters: {autoTune: false, blockSizeTokens: 16, maxPrefixBlocksToMatch: 256, lruCapacityPerServer: 31250}}\n" +
			"- type: queue-scorer\n- type: prefill-filter\n- type: decode-filter\n- type: max-score-picker\n- type: disagg-headers-handler\nschedulingProfiles:\n" +
			"- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: max-score-picker}, {pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: queue-scorer, weight: 1}]}\n" +
			"- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: max-score-picker}, {pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: queue-scorer, weight: 1}]}\n",
		"prefill and decode as of 2026": "- type: approx-prefix-cache-producer\n- type: inflight-load-producer\n- type: disagg-profile-handler\n  parameters: {deciders: {prefill: always-disagg-pd-decider}}\n- type: always-disagg-pd-decider\n" +
			"- type: prefix-cache-affinity-filter\n- type: token-load-scorer\n- type: active-request-scorer\n- type: prefill-filter\n- type: decode-filter\nschedulingProfiles:\n" +
			"- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: prefix-cache-affinity-filter}, {pluginRef: token-load-scorer, weight: 1}]}\n" +
			"- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: active-request-scorer, weight: 1}]}\n",
		"prefill and decode as of v0.4": "- type: prefill-header-handler\n- type: prefill-filter\n- type: decode-filter\n- {type: prefix-cache-scorer, parameters: {hashBlockSize: 5, maxPrefixBlocksToMatch: 256, lruCapacityPerServer: 31250}}\n" +
			"- type: max-score-picker\n- {type: pd-profile-handler, parameters: {threshold: 10, hashBlockSize: 5}}\nschedulingProfiles:\n" +
			"- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: max-score-picker}, {pluginRef: prefix-cache-scorer, weight: 50}]}\n" +
			"- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: max-score-picker}, {pluginRef: prefix-cache-scorer, weight: 50}]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			nothingLeftOut(t, c, "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n"+plugins)
		})
	}
	nothingLeftOut(t, c, router.DefaultConfigText)
}

// The example of the page about weights loads as it stands there.
func TestExampleOfTheTuningPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "tuning.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "```yaml\n")
	text, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		t.Fatal("no example")
	}
	nothingLeftOut(t, catalogue(t), "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n"+text)
}

// What a scorer says that parameters come to, it takes, needs the same for, and says of
// itself again.
func TestWhatScorersTellIsTaken(t *testing.T) {
	services, err := Services()
	if err != nil {
		t.Fatal(err)
	}
	c := catalogue(t)
	for _, s := range services {
		info, err := s.GetScorerInfo(t.Context(), &scorerv1.GetScorerInfoRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range info.GetTypes() {
			p, _ := c.Plugin(typ.GetName(), info.GetName())
			texts := []string{"", "{}"}
			for _, param := range p.Parameters {
				if param.Default != "" {
					texts = append(texts, fmt.Sprintf("{%q:%s}", strings.ToLower(param.Name), param.Default))
				}
			}
			for _, text := range texts {
				ask := func(parameters []byte) *scorerv1.ValidateParametersResponse {
					m, err := s.ValidateParameters(t.Context(), &scorerv1.ValidateParametersRequest{ScorerType: typ.GetName(), ParametersJson: parameters})
					if err != nil || len(m.GetFaults()) > 0 || len(m.GetEffectiveParametersJson()) == 0 {
						t.Fatalf("%s %s: %v, error %v", typ.GetName(), parameters, m, err)
					}
					return m
				}
				first := ask([]byte(text))
				if d := cmp.Diff(first, ask(first.GetEffectiveParametersJson()), protocmp.Transform()); d != "" {
					t.Errorf("%s %s: %s", typ.GetName(), text, d)
				}
			}
		}
	}
}
