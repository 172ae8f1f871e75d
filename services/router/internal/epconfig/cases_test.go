package epconfig

import (
	"strings"
	"testing"
)

// queue is one scorer, one picker and the handler, without a profile.
const queue = head + `plugins:
- type: queue-scorer
- type: max-score-picker
- type: single-profile-handler
`

func profileOf(refs string) string {
	return "schedulingProfiles:\n- name: default\n  plugins:\n" + refs
}

// The rows record what loaders of the reference do. Where a row has a comment, our
// decision differs from it, for the reason given.
func TestLoaderCases(t *testing.T) {
	const queueRef, pickerRef = "  - pluginRef: queue-scorer\n    weight: 1\n", "  - pluginRef: max-score-picker\n"
	good := shaped("default: | queue-scorer×1 | max-score-picker(1)")
	for _, c := range []struct {
		id, text string
		want     want
	}{
		// The row refuses an empty text; a newer row (D33) and public report B113 take
		// the default. Here it is the default, with a warning.
		{"D2 empty", "", want{warnings: []string{"the built-in default is used"}, check: shaped("default: | queue-scorer×2 kv-cache-scorer×2 prefix-cache-scorer×3 | max-score-picker(1)")}},
		{"D2 comments", "# nothing\n---\n# here\n", want{warnings: []string{"the built-in default is used"}}},
		{"D33 empty text", "\n", want{warnings: []string{"the built-in default is used"}, check: shaped("default: | queue-scorer×2 kv-cache-scorer×2 prefix-cache-scorer×3 | max-score-picker(1)")}},
		// The row accepts it; the documentation says that the two lines are constant.
		{"D3 no apiVersion and kind", strings.TrimPrefix(queue, head), want{errs: []string{`apiVersion: is missing; write "apiVersion: inference.networking.x-k8s.io/v1alpha1"`, `kind: is missing; write "kind: EndpointPickerConfig"`}}},
		{"D3 wrong version", strings.Replace(queue, "v1alpha1", "v1", 1), want{errs: []string{"epp.yaml:1:13: apiVersion: must be inference.networking.x-k8s.io/v1alpha1 or llm-d.ai/v1alpha1"}}},
		{"D3 empty kind", strings.Replace(queue, "EndpointPickerConfig", "''", 1), want{errs: []string{`epp.yaml:2:7: kind: must be EndpointPickerConfig, not ""`}}},
		{"D3 wrong kind", strings.Replace(queue, "EndpointPickerConfig", "InferencePool", 1), want{errs: []string{`epp.yaml:2:7: kind: must be EndpointPickerConfig, not "InferencePool"`}}},
		// Unknown to the oldest loader, known since; metadata is unknown to all.
		{"D5 featureGates", queue + "featureGates: []\n", want{check: good}},
		{"D5 metadata", queue + "metadata: {}\n", want{errs: []string{"epp.yaml:7:1: metadata: unknown field"}}},
		{"D6 a plug-in with an extra field", head + "plugins:\n- type: queue-scorer\n  foo: 1\n", want{errs: []string{"epp.yaml:5:3: plugins[0].foo: unknown field"}}},
		{"D6 a profile with an extra field", queue + "schedulingProfiles:\n- name: d\n  plugin:\n  - pluginRef: queue-scorer\n", want{errs: []string{
			`epp.yaml:9:3: schedulingProfiles[0].plugin: unknown field; did you mean "plugins"?`, "schedulingProfiles[0].plugins: a profile must have at least one plug-in",
		}}},
		{"D6 a field in the wrong case", strings.Replace(queue, "plugins", "Plugins", 1), want{errs: []string{`Plugins: unknown field; did you mean "plugins"?`}}},
		{"D8 duplicate key", queue + "kind: EndpointPickerConfig\n", want{errs: []string{"epp.yaml:7:1: kind: is there twice, first in line 2"}}},
		// The row ignores it, so that a misspelt parameter is never noticed.
		{"D9 unknown parameter", head + "plugins:\n- type: low-queue-filter\n  parameters: {treshold: 1}\n", want{errs: []string{`epp.yaml:5:16: plugins[0].parameters.treshold: unknown parameter of low-queue-filter; did you mean "threshold"?`}}},
		{"D9 unknown parameter of a scorer", head + "plugins:\n- type: prefix-cache-scorer\n  parameters: {nope: 1}\n", want{errs: []string{`epp.yaml:5:22: plugins[0].parameters.nope: no such parameter`}}},
		{"D9 a parameter where none is taken", head + "plugins:\n- type: least-queue-filter\n  parameters: {threshold: 1}\n", want{errs: []string{"unknown parameter: least-queue-filter takes none"}}},
		{"D9 parameters in another case", head + "plugins:\n- type: low-queue-filter\n  parameters: {THRESHOLD: 7}\n- type: random-picker\n  parameters: {maxnumofendpoints: 3}\n", want{
			infos: []string{"there is no profile handler"}, check: shaped("default: low-queue-filter | | random-picker(3)"),
		}},
		{"D9 a parameter in two cases", head + "plugins:\n- type: low-queue-filter\n  parameters: {Threshold: 7, threshold: 8}\n", want{errs: []string{`is the same parameter as "Threshold"`}}},
		{"D11 hashBlockSize x", head + "plugins:\n- type: prefix-cache-scorer\n  parameters:\n    hashBlockSize: x\n", want{errs: []string{`epp.yaml:6:20: plugins[0].parameters.hashBlockSize: must be a whole number, not "x"`}}},
		{"D11 threshold x", head + "plugins:\n- type: low-queue-filter\n  parameters: {threshold: \"5\"}\n", want{errs: []string{`must be a whole number, not the text "5"`}}},
		// The row loads it, and hashing then never ends.
		{"D12 hashBlockSize 0", head + "plugins:\n- type: prefix-cache-scorer\n  parameters:\n    hashBlockSize: 0\n", want{errs: []string{"plugins[0].parameters.hashBlockSize: must be above 0"}}},
		// Weights are fractions in newer loaders.
		{"D14 weight 1.5", queue + profileOf("  - pluginRef: queue-scorer\n    weight: 1.5\n"+pickerRef), want{check: shaped("default: | queue-scorer×1.5 | max-score-picker(1)")}},
		{"D14 weight in quotes", queue + profileOf("  - pluginRef: queue-scorer\n    weight: \"5\"\n"+pickerRef), want{errs: []string{`epp.yaml:11:13: schedulingProfiles[0].plugins[0].weight: must be a finite number, not the text "5"`}}},
		// The oldest loader refuses it; newer ones (D35) take 1.
		{"D15 scorer without weight", queue + profileOf("  - pluginRef: queue-scorer\n"+pickerRef), want{infos: []string{`scorer "queue-scorer" weighs 1`}, check: good}},
		{"D15 weight null", queue + profileOf("  - pluginRef: queue-scorer\n    weight:\n"+pickerRef), want{check: good}},
		// The row loads it and crashes at the first request.
		{"D17 no picker", head + "plugins:\n- type: queue-scorer\n- type: single-profile-handler\n" + profileOf(queueRef), want{infos: []string{"names no picker; max-score-picker is used"}, check: good}},
		{"D18 two pickers", head + "plugins:\n- type: queue-scorer\n- type: max-score-picker\n- type: random-picker\n- type: single-profile-handler\n" + profileOf(pickerRef+queueRef+"  - pluginRef: random-picker\n"), want{errs: []string{`profile "default" has a second picker, "random-picker" besides "max-score-picker"`}}},
		// One profile needs no choosing, so newer loaders fill the handler in.
		{"D20 no handler", head + "plugins:\n- type: queue-scorer\n- type: max-score-picker\n" + profileOf(queueRef+pickerRef), want{infos: []string{"no profile handler; single-profile-handler is used"}, check: good}},
		{"D20 two handlers", queue + "- type: single-profile-handler\n  name: other\n" + profileOf(queueRef+pickerRef), want{errs: []string{`"other" is a second profile handler besides "single-profile-handler"`}}},
		// The row loads it and then refuses every request.
		{"D21 two profiles and the single handler", queue + profileOf(queueRef) + "- name: second\n  plugins:\n" + queueRef, want{errs: []string{"single-profile-handler is for a single profile, and there are 2: default, second"}}},
		{"D23 duplicate name", head + "plugins:\n- type: queue-scorer\n- type: max-score-picker\n  name: queue-scorer\n", want{errs: []string{`epp.yaml:6:9: plugins[1]: the name "queue-scorer" is used more than once, first in line 4`}}},
		{"D24 no type", head + "plugins:\n- name: a\n", want{errs: []string{"plugins[0].type: is missing"}}},
		{"D24 empty type", head + "plugins:\n- type: ''\n", want{errs: []string{"plugins[0].type: is empty"}}},
		{"D24 unknown type", head + "plugins:\n- type: quue-scorer\n", want{errs: []string{`epp.yaml:4:9: plugins[0].type: unknown plug-in type: no scorer serves type "quue-scorer"; did you mean queue-scorer`}}},
		{"D26 one type twice", head + "plugins:\n- {type: low-queue-filter, name: a, parameters: {threshold: 1}}\n- {type: low-queue-filter, name: b}\n", want{infos: []string{`profile "default" of every plug-in`}, check: shaped("default: a b | | max-score-picker(1)")}},

		{"D30 the newer group, float weight, gates", "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nfeatureGates: [dataLayer]\nplugins:\n- type: queue-scorer\n- type: max-score-picker\n" + profileOf("  - pluginRef: queue-scorer\n    weight: 50.0\n"+pickerRef),
			want{infos: []string{"featureGates[0]: dataLayer is on by nature"}, check: shaped("default: | queue-scorer×50 | max-score-picker(1)")}},
		{"D32 plug-ins only", head + "plugins:\n- type: kv-cache-scorer\n- type: queue-scorer\n", want{infos: []string{`profile "default" of every plug-in is used`}, check: shaped("default: | kv-cache-scorer×1 queue-scorer×1 | max-score-picker(1)")}},
		{"D35 scorer without weight, no picker", head + "plugins:\n- type: queue-scorer\n" + profileOf("  - pluginRef: queue-scorer\n"), want{check: good}},
		{"D36 picker before a scorer without weight", queue + profileOf(pickerRef+"  - pluginRef: queue-scorer\n"), want{check: good}},
		{"B110 random picker before three scorers without weight", head + "plugins:\n- type: queue-scorer\n- type: kv-cache-scorer\n- type: prefix-cache-scorer\n- type: random-picker\n" +
			profileOf("  - pluginRef: random-picker\n  - pluginRef: queue-scorer\n  - pluginRef: kv-cache-scorer\n  - pluginRef: prefix-cache-scorer\n"), want{check: shaped("default: | queue-scorer×1 kv-cache-scorer×1 prefix-cache-scorer×1 | random-picker(1)")}},
		// There is no queue here yet, and pretending would be worse.
		{"D38 flowControl with its gate", queue + "featureGates: [flowControl]\nflowControl: {maxBytes: 1024, defaultRequestTTL: 1m}\n", want{errs: []string{"flowControl: the router has no queue of its own yet"}}},
		{"D38 the gate alone", queue + "featureGates: [flowControl]\n", want{errs: []string{"epp.yaml:7:15: flowControl: the router has no queue of its own yet"}}},
		{"D39 B120 flowControl without its gate", queue + "flowControl: {maxBytes: 1024}\n", want{warnings: []string{"flowControl: is ignored, since flowControl is not among the featureGates"}, check: good}},
		{"D41 a parser", queue + "- type: openai-parser\nparser:\n  pluginRef: openai-parser\n", want{infos: []string{"parser: is not needed here", "openai-parser is not needed here: the router's fronts read OpenAI request bodies"}, check: good}},
		{"D41 a named parser", queue + "- type: openai-parser\n  name: openaiParser\nparser: {pluginRef: openaiParser}\n", want{check: good}},
		{"D42 bad parameter JSON", head + "plugins:\n- type: queue-scorer\n  parameters: [1]\n", want{errs: []string{"plugins[0].parameters: must be a mapping of fields, not a list"}}},
		{"D44 two profiles and no handler", head + "plugins:\n- type: queue-scorer\n" + profileOf(queueRef) + "- name: second\n  plugins:\n" + queueRef, want{errs: []string{"there are 2 profiles and no profile handler"}}},
		{"D45 no gates", queue, want{check: good}},
		{"D47 dataLayer {}", queue + "dataLayer: {}\n", want{infos: []string{"dataLayer: is not needed here"}, check: good}},
		{"D48 injectDefaults false", queue + "dataLayer: {injectDefaults: false}\n", want{check: good}},
		{"D50 metrics-data-source", queue + "- type: metrics-data-source\n- type: core-metrics-extractor\ndataLayer:\n  sources:\n  - pluginRef: metrics-data-source\n    extractors:\n    - pluginRef: core-metrics-extractor\n", want{check: good}},
		{"D51 bad source and extractor refs", queue + "dataLayer:\n  sources:\n  - pluginRef: nope\n    extractors:\n    - pluginRef: neither\n", want{errs: []string{`dataLayer.sources[0].pluginRef: there is no plug-in "nope"`, `dataLayer.sources[0].extractors[0].pluginRef: there is no plug-in "neither"`}}},
		{"D51 unknown parser", queue + "parser: {pluginRef: nope}\n", want{errs: []string{`parser.pluginRef: there is no plug-in "nope"`}}},
		{"D51 saturation detector undefined", queue + "saturationDetector: {pluginRef: nope}\n", want{errs: []string{`saturationDetector.pluginRef: there is no plug-in "nope"`}}},
		{"D51 saturation detector empty", queue + "saturationDetector: {pluginRef: ''}\n", want{errs: []string{"saturationDetector.pluginRef: is empty"}}},
		{"D51 unknown gate", queue + "featureGates: [dataLayre]\n", want{errs: []string{`unknown feature gate "dataLayre"; did you mean "dataLayer"?`}}},
	} {
		t.Run(c.id, func(t *testing.T) { c.want.run(t, c.text) })
	}
}

// Behaviours of the reference's first loader that have no row of their own, and our
// own rules.
func TestLoaderRules(t *testing.T) {
	const pickerRef = "  - pluginRef: max-score-picker\n"
	weight := func(w string) string {
		return queue + profileOf("  - pluginRef: queue-scorer\n    weight: "+w+"\n"+pickerRef)
	}
	for _, c := range []struct {
		name, text string
		want       want
	}{
		{"negative weight", weight("-3"), want{warnings: []string{"is negative"}, check: shaped("default: | queue-scorer×-3 | max-score-picker(1)")}},
		{"weight 0", weight("0"), want{warnings: []string{"counts for nothing"}, check: shaped("default: | queue-scorer×0 | max-score-picker(1)")}},
		{"weight NaN", weight(".nan"), want{errs: []string{"must be a finite number, not the number .nan"}}},
		{"weight infinite", weight("-.inf"), want{errs: []string{"must be a finite number"}}},
		{"weight that overflows", weight("1e999"), want{errs: []string{"must be a finite number"}}},
		{"weight out of range", weight("1e13"), want{errs: []string{"out of range"}}},
		{"weight a list", weight("[1]"), want{errs: []string{"must be a finite number, not a list"}}},
		{"weight of a picker", queue + profileOf("  - pluginRef: queue-scorer\n  - pluginRef: max-score-picker\n    weight: 3\n"), want{warnings: []string{"only scorers have weights"}, check: shaped("default: | queue-scorer×1 | max-score-picker(1)")}},
		{"a scorer twice", queue + profileOf("  - pluginRef: queue-scorer\n    weight: 2\n  - pluginRef: queue-scorer\n    weight: 3\n"+pickerRef), want{warnings: []string{"added up to 5"}, check: shaped("default: | queue-scorer×5 | max-score-picker(1)")}},
		{"handler named in a profile", queue + profileOf("  - pluginRef: queue-scorer\n  - pluginRef: single-profile-handler\n"+pickerRef), want{warnings: []string{"naming it in one has no effect"}}},
		{"unused plug-in", queue + "- type: low-queue-filter\n" + profileOf("  - pluginRef: queue-scorer\n"+pickerRef), want{warnings: []string{`no profile refers to "low-queue-filter"`}}},
		{"declared max-score-picker is the default picker", head + "plugins:\n- {type: max-score-picker, name: mine, parameters: {maxNumOfEndpoints: 2}}\n- type: queue-scorer\n" + profileOf("  - pluginRef: queue-scorer\n"), want{check: shaped("default: | queue-scorer×1 | mine(2)")}},
		{"the default picker's name is taken", head + "plugins:\n- {type: queue-scorer, name: max-score-picker}\n", want{check: shaped("default: | max-score-picker×1 | max-score-picker-default(1)")}},
		{"maxNumOfEndpoints 0", head + "plugins:\n- type: random-picker\n  parameters: {maxNumOfEndpoints: 0}\n", want{warnings: []string{"0 is taken for 1"}, check: shaped("default: | | random-picker(1)")}},
		{"two default profiles in one text", queue + "- type: random-picker\n", want{errs: []string{"has a second picker"}}},
		{"nothing to route by", head + "plugins:\n- type: single-profile-handler\n", want{errs: []string{"nothing to route by"}}},
		{"no plug-ins", head, want{errs: []string{"nothing to route by"}}},
		{"B126 plugins null", head + "plugins:\n", want{errs: []string{"nothing to route by"}}},
		{"B126 plugins {}", head + "plugins: {}\n", want{errs: []string{"plugins: must be a list, not a mapping"}}},
		{"B126 optional sections null", queue + "schedulingProfiles:\nfeatureGates:\nsaturationDetector:\ndataLayer:\ndata:\nflowControl:\nparser:\nrequestHandler:\n", want{check: shaped("default: | queue-scorer×1 | max-score-picker(1)")}},
		{"B126 optional sections {}", queue + "saturationDetector: {}\ndataLayer: {}\ndata: {}\nflowControl: {}\nparser: {}\nrequestHandler: {}\n", want{warnings: []string{"flowControl"}}},
		{"schedulingProfiles []", queue + "schedulingProfiles: []\n", want{check: shaped("default: | queue-scorer×1 | max-score-picker(1)")}},
		{"profile without name", queue + "schedulingProfiles:\n- plugins:\n  - pluginRef: queue-scorer\n", want{errs: []string{"schedulingProfiles[0].name: is missing"}}},
		{"profile with an empty name", queue + "schedulingProfiles:\n- name: ''\n  plugins:\n  - pluginRef: queue-scorer\n", want{errs: []string{"schedulingProfiles[0].name: is empty"}}},
		{"profile without plug-ins", queue + "schedulingProfiles:\n- name: a\n", want{errs: []string{"at least one plug-in"}}},
		{"profile name twice", queue + profileOf(pickerRef) + "- name: default\n  plugins:\n" + pickerRef, want{errs: []string{`the name "default" is used by more than one profile, first in line 8`, "for a single profile"}}},
		{"pluginRef missing", queue + profileOf("  - weight: 1\n"), want{errs: []string{"pluginRef: is missing"}}},
		{"pluginRef empty", queue + profileOf("  - pluginRef: \"\"\n"), want{errs: []string{"pluginRef: is empty"}}},
		{"B111 dangling ref", head + "plugins:\n- type: prefix-cache-scorer\n  name: precise-prefix-cache-scorer\n" + profileOf("  - pluginRef: prefix-cache-scorer\n"), want{errs: []string{`there is no plug-in "prefix-cache-scorer"; the plug-in of that type is named "precise-prefix-cache-scorer"`}}},
		{"B111 dangling ref, misspelt", queue + profileOf("  - pluginRef: queue-scorrer\n"), want{errs: []string{`there is no plug-in "queue-scorrer"; did you mean "queue-scorer"?`}}},
		{"ref to a type that is not declared", queue + profileOf("  - pluginRef: low-queue-filter\n"), want{errs: []string{"which must be declared in plugins first"}}},
		{"B111 unknown type", head + "plugins:\n- type: custom-scorer\n", want{errs: []string{`unknown plug-in type: no scorer serves type "custom-scorer"`}}},
		{"B111 unknown type, near one of the router's", head + "plugins:\n- type: low-queu-filter\n", want{errs: []string{`unknown plug-in type "low-queu-filter"; did you mean low-queue-filter?`}}},
		{"a type whose service may not have been reached", head + "plugins:\n- type: acme-carbon\n", want{errs: []string{"not reached: acme; what the router has: always-disagg-multimodal-decider, always-disagg-pd-decider, by-label, by-label-selector, "}}},
		{"type of a newer picker", head + "plugins:\n- type: latency-slo-admitter\n", want{errs: []string{`plug-in type "latency-slo-admitter" (admission plug-in) of newer endpoint pickers is not here yet`}}},
		{"a newer type that a service offers", head + "plugins:\n- type: running-requests-size-scorer\n", want{check: shaped("default: | running-requests-size-scorer×1 | max-score-picker(1)")}},
		{"name is a number", head + "plugins:\n- type: queue-scorer\n  name: 5\n", want{errs: []string{"plugins[0].name: must be a text, not the number 5; put it in quotes"}}},
		{"a text tagged as a truth value", head + "plugins:\n- type: by-label\n  parameters: {label: a, allowsNoLabel: !!bool maybe}\n", want{errs: []string{`parameters.allowsNoLabel: must be true or false, not the truth value maybe`}}},
		{"a text tagged as a truth value, for a scorer", head + "plugins:\n- type: acme-odd\n  parameters: {a: !!bool 'true,\"b\":1'}\n", want{errs: []string{`plugins[0].parameters.a: "true,\"b\":1" is neither true nor false`}}},
		{"a list among texts", head + "plugins:\n- type: by-label\n  parameters: {label: a, validValues: [[b]]}\n", want{errs: []string{"plugins[0].parameters.validValues[0]: must be a text, not a list"}}},
		{"plug-in is no mapping", head + "plugins:\n- queue-scorer\n", want{errs: []string{`plugins[0]: must be a mapping of fields, not the text "queue-scorer"`}}},
		{"text is a list", "- a\n", want{errs: []string{"must be a mapping of fields, not a list"}}},
		{"text is a word", "hello", want{errs: []string{"must be a mapping of fields"}}},
		{"YAML syntax", head + "plugins: [\n", want{errs: []string{"the text is not YAML"}}},
		{"unknown anchor", head + "plugins: *x\n", want{errs: []string{"unknown anchor"}}},
		{"two documents", queue + "---\n" + queue, want{errs: []string{"a second YAML document begins here"}}},
		{"an empty second document", "---\n" + queue + "---\n", want{check: shaped("default: | queue-scorer×1 | max-score-picker(1)")}},
		{"lora threshold 2", head + "plugins:\n- type: lora-affinity-filter\n  parameters: {threshold: 2}\n", want{errs: []string{"epp.yaml:5:27: plugins[0].parameters.threshold: threshold 2 is no probability"}}},
		{"low-queue threshold −1", head + "plugins:\n- type: low-queue-filter\n  parameters: {threshold: -1}\n", want{errs: []string{"threshold -1 is negative"}}},
		{"a scorer's warning", head + "plugins:\n- type: lora-affinity-scorer\n", want{warnings: []string{"no endpoint has adapters"}}},
		{"parameters of what is built in", queue + "- type: openai-parser\n  parameters: {a: 1}\n", want{warnings: []string{"have no effect here"}}},
		{"JSON", `{"apiVersion":"llm-d.ai/v1alpha1","kind":"EndpointPickerConfig","plugins":[{"type":"queue-scorer"}],
			"schedulingProfiles":[{"name":"default","plugins":[{"pluginRef":"queue-scorer","weight":2}]}]}`, want{check: shaped("default: | queue-scorer×2 | max-score-picker(1)")}},
		{"anchors and merges", head + "plugins:\n- &low {type: low-queue-filter, name: a, parameters: {threshold: 3}}\n- <<: *low\n  name: b\n", want{check: shaped("default: a b | | max-score-picker(1)")}},
		{"a merge of what is no mapping", head + "plugins:\n- <<: 5\n  type: queue-scorer\n", want{errs: []string{"<< must name a mapping, not the number 5"}}},
	} {
		t.Run(c.name, func(t *testing.T) { c.want.run(t, c.text) })
	}
}
