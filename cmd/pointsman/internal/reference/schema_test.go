package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	router "github.com/pointsman/pointsman/services/router/app"
)

const metaSchema = "https://json-schema.org/draft/2020-12/schema"

// judges are the loader, with all first-party scorers, and the schema.
type judges struct {
	schema   *jsonschema.Schema
	services []scorerv1.ScorerServiceServer
}

func newJudges(t *testing.T) *judges {
	t.Helper()
	text, err := catalogue(t).Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertVocabs()
	meta, err := c.Compile(metaSchema)
	if err != nil {
		t.Fatal(err)
	}
	if err := meta.Validate(doc); err != nil {
		t.Fatalf("the schema is none: %v", err)
	}
	if err := c.AddResource("pointsman:epp", doc); err != nil {
		t.Fatal(err)
	}
	j := &judges{}
	if j.schema, err = c.Compile("pointsman:epp"); err != nil {
		t.Fatal(err)
	}
	if j.services, err = Services(); err != nil {
		t.Fatal(err)
	}
	return j
}

// loader returns the loader's faults.
func (j *judges) loader(t *testing.T, text []byte) []string {
	t.Helper()
	m, err := router.CheckConfig(t.Context(), "epp.yaml", text, j.services, []string{"acme-odd"})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range m.GetFaults() {
		all = append(all, f.GetPath()+": "+f.GetMessage())
	}
	return all
}

// validator returns the schema's word.
func (j *judges) validator(text []byte) error {
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	asJSON, err := json.Marshal(doc)
	if err != nil {
		return err // such as infinite numbers
	}
	doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return err
	}
	return j.schema.Validate(doc)
}

// beyond are parts of faults that no schema can find.
var beyond = []string{
	"there is no plug-in", "is used more than once", "is used by more than one profile", "has a second picker", "is a second profile handler", "no profile handler to choose",
	"single-profile-handler is for a single profile", "is declared below", "is this decision tree itself", "only filters may stand in a decision tree",
	"give only one of", "set twice", "is the same parameter as", "is the same field as", "no endpoint could pass", "so there is nothing to route by", "is a filter (", "is a scorer (", "is a picker (",
	"unknown plug-in type", "is not here yet", "queue of its own yet",
}

// agree checks that the schema takes what the loader takes, and refuses what it refuses
// for anything but references and such. It returns whether the loader takes it.
func (j *judges) agree(t *testing.T, name string, text []byte) bool {
	t.Helper()
	faults, invalid := j.loader(t, text), j.validator(text)
	structural := slices.DeleteFunc(slices.Clone(faults), func(f string) bool {
		return slices.ContainsFunc(beyond, func(part string) bool { return strings.Contains(f, part) })
	})
	switch {
	case len(faults) == 0 && invalid != nil:
		t.Errorf("%s loads, and the schema says: %v\n%s", name, invalid, text)
	case len(structural) > 0 && invalid == nil:
		t.Errorf("%s is valid by the schema, and the loader says:\n%s\n%s", name, strings.Join(structural, "\n"), text)
	}
	return len(faults) == 0
}

// all is a configuration with every section and, among the plug-ins, all parameters of
// the types that have some that are not in the loader's own examples.
const all = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [dataLayer, prepareDataPlugins]
parser: {pluginRef: openai-parser}
requestHandler: {parsers: [{pluginRef: openai-parser}], other: 5}
dataLayer:
  injectDefaults: true
  sources: [{pluginRef: metrics-data-source, extractors: [{pluginRef: core-metrics-extractor}]}]
data: {sources: []}
flowControl: {maxBytes: 5}
saturationDetector: {queueDepthThreshold: 7, kvCacheUtilThreshold: 0.5, metricsStalenessThreshold: 1m30s}
plugins:
- type: openai-parser
- type: metrics-data-source
  parameters: {any: thing}
- type: core-metrics-extractor
- type: label-selector-filter
  parameters:
    matchLabels: {a: b}
    matchExpressions: [{key: z, operator: In, values: [a, b]}, {key: g, operator: Exists}, {key: h, operator: NotIn, values: [c]}]
- {type: by-label, parameters: {label: tier, validValues: [a], allowsNoLabel: false}}
- {type: context-length-aware, parameters: {label: l, enableFiltering: true}}
- {type: prefix-cache-affinity-filter, parameters: {affinityThreshold: 0.5, explorationProbability: 0.1, maxTTFTPenaltyMs: 5, prefillTokensPerSecond: 100}}
- {type: utilization-detector, parameters: {queueDepthThreshold: 3, kvCacheUtilThreshold: 1, metricsStalenessThreshold: 500ms, headroom: 0.5}}
- {type: concurrency-detector, parameters: {maxConcurrency: 3, maxTokenConcurrency: 4, headroom: 0, concurrencyMode: tokens}}
- {type: approx-prefix-cache-producer, parameters: {autoTune: false, blockSizeTokens: 8, maxPrefixBlocksToMatch: 9, lruCapacityPerServer: 10}}
- {type: prefix-cache-scorer, parameters: {blockSizeTokens: 16, autoTune: true, maxPrefixTokensToMatch: 4096}}
- {type: no-hit-lru-scorer, parameters: {lruSize: 9}}
- {type: session-affinity-scorer, parameters: {headerName: x-me}}
- {type: load-aware-scorer, parameters: {threshold: 9}}
- {type: active-request-scorer, parameters: {idleThreshold: 1, maxBusyScore: 0.5, requestTimeout: 5m}}
- {type: token-load-scorer, parameters: {queueThresholdTokens: 1000}}
- {type: weighted-random-picker, name: draw, parameters: {maxNumOfEndpoints: 3}}
`

// global has the other picker with parameters.
const global = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- {type: global-least-request-picker, parameters: {maxNumOfEndpoints: 2, scoreSlack: 0.5, tieBreak: score, maxRequestCount: 7}}
`

// examples are the loader's own and one of everything, by name.
func examples(t *testing.T) map[string][]byte {
	t.Helper()
	texts := map[string][]byte{"all": []byte(all), "default": []byte(router.DefaultConfigText), "global": []byte(global)}
	files, err := filepath.Glob(filepath.Join(root, "services", "router", "internal", "epconfig", "testdata", "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(f)] = text
	}
	return texts
}

// The schema is a schema, and says of the loader's examples what the loader says.
func TestSchemaOfExamples(t *testing.T) {
	j := newJudges(t)
	for name, text := range examples(t) {
		if good := j.agree(t, name, text); good != (name != "faults.yaml") {
			t.Errorf("%s: good %t: %s", name, good, strings.Join(j.loader(t, text), "\n"))
		}
	}
}

// What is wrong in one place is found by the schema as by the loader.
func TestSchemaRefusesWhatTheLoaderRefuses(t *testing.T) {
	j := newJudges(t)
	const head = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
	plugin := func(s string) string { return head + "plugins:\n- type: queue-scorer\n- " + s + "\n" }
	tree := func(s string) string { return plugin("type: decision-tree-filter\n  parameters: " + s) }
	for _, text := range []string{
		"[]", "kind: EndpointPickerConfig\nplugins: [{type: queue-scorer}]\n", "apiVersion: llm-d.ai/v1alpha1\nplugins: [{type: queue-scorer}]\n",
		head + "metadata: {}\n", head + "Plugins: []\n", head + "plugins: {}\n", head + "plugins: [5]\n",
		plugin("{}"), plugin("{type: ''}"), plugin("{type: queue-scorer, weight: 1}"), plugin("{type: queue-scorer, name: 5}"), plugin("{type: 5}"),
		plugin("{type: low-queue-filter, parameters: []}"), plugin("{type: low-queue-filter, parameters: {treshold: 1}}"), plugin("{type: low-queue-filter, parameters: {THRESHOLD: 1.5}}"),
		plugin("{type: low-queue-filter, parameters: {threshold: -1}}"), plugin("{type: low-queue-filter, parameters: {threshold: '1'}}"),
		plugin("{type: least-queue-filter, parameters: {threshold: 1}}"), plugin("{type: openai-parser, parameters: []}"),
		plugin("{type: lora-affinity-filter, parameters: {threshold: 1.001}}"), plugin("{type: prefix-cache-scorer, parameters: {hashBlockSize: 0}}"),
		plugin("{type: prefix-cache-scorer, parameters: {hashBlockSiz: 1}}"), plugin("{type: kv-cache-utilization-scorer, parameters: {a: 1}}"),
		plugin("{type: concurrency-detector, parameters: {concurrencyMode: both}}"), plugin("{type: utilization-detector, parameters: {metricsStalenessThreshold: 5}}"),
		plugin("{type: by-label, parameters: {validValues: [a]}}"), plugin("{type: by-label}"), plugin("{type: by-label, parameters: {label: null, validValues: [a]}}"),
		plugin("{type: label-selector-filter, parameters: {matchExpressions: [{key: a, operator: In}]}}"), plugin("{type: label-selector-filter, parameters: {matchLabels: {a: 1}}}"),
		plugin("{type: label-selector-filter, parameters: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}"), plugin("{type: session-affinity-scorer, parameters: {headerName: 'a b'}}"),
		tree("{}"), tree("{current: {}}"), tree("{current: queue-scorer}"), tree("{current: {pluginRef: a, decisionTree: {current: {pluginRef: a}}}}"), tree("{current: {pluginRef: ''}}"),
		tree("{current: {decisionTree: {nextOnSuccess: {pluginRef: a}}}}"), tree("{current: {plugin: a}}"), tree("{nextOnSuccess: {pluginRef: a}}"),
		head + "schedulingProfiles: [{name: a}]\n", head + "schedulingProfiles: [{plugins: [{pluginRef: a}]}]\n", head + "schedulingProfiles: [{name: a, plugins: []}]\n",
		head + "schedulingProfiles: [{name: a, plugins: [{weight: 1}]}]\n", head + "schedulingProfiles: [{name: a, plugins: [{pluginRef: a, weight: '1'}]}]\n",
		head + "schedulingProfiles: [{name: a, plugins: [{pluginRef: a, weight: 1e13}]}]\n", head + "schedulingProfiles: [{name: a, plugins: [{pluginRef: a, wieght: 1}]}]\n",
		head + "featureGates: [dataLayre]\n", head + "featureGates: {}\n", head + "featureGates: [flowControl]\n", head + "flowControl: []\n",
		head + "parser: {plugin: a}\n", head + "parser: {pluginRef: ''}\n", head + "requestHandler: []\n", head + "dataLayer: {source: []}\n", head + "dataLayer: {sources: [{pluginRef: null}]}\n",
		head + "saturationDetector: {pluginRef: ''}\n", head + "saturationDetector: {queueDepthThreshold: 0}\n", head + "saturationDetector: {headroom: 0}\n", head + "saturationDetector: {pluginRef: a, queueDepthThreshold: 5}\n",
	} {
		if len(j.loader(t, []byte(text))) == 0 {
			t.Errorf("it loads:\n%s", text)
		}
		if j.validator([]byte(text)) == nil {
			t.Errorf("it is valid:\n%s", text)
		}
	}
}

// Whatever is changed in the examples, the schema and the loader agree. Under the race
// detector, which has nothing to find in one goroutine and takes five times as long, every
// sixth change stands for all.
func TestSchemaAgreesWithTheLoader(t *testing.T) {
	j := newJudges(t)
	texts := examples(t)
	delete(texts, "faults.yaml")
	good, bad, seen := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		var doc yaml.Node
		if err := yaml.Unmarshal(texts[name], &doc); err != nil {
			t.Fatal(err)
		}
		for change := range changes(&doc) {
			if seen++; seen%stride != 0 {
				continue
			}
			text, err := yaml.Marshal(&doc)
			if err != nil {
				t.Fatal(err)
			}
			if j.agree(t, name+", "+change, text) {
				good++
			} else {
				bad++
			}
			if t.Failed() {
				return // one at a time is enough to read
			}
		}
	}
	if good < 300/stride || bad < 2000/stride {
		t.Errorf("%d changed texts loaded and %d did not: too few to tell", good, bad)
	}
}

// changes makes one change in a document after another, each undone before the next.
func changes(doc *yaml.Node) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var visit func(n *yaml.Node, path string) bool
		visit = func(n *yaml.Node, path string) bool {
			for i, child := range n.Content {
				key := n.Kind == yaml.MappingNode && i%2 == 0
				at := fmt.Sprintf("%s[%d]", path, i)
				if child.Kind == yaml.AliasNode || child.Value == "<<" {
					continue
				}
				if key {
					at = path + "." + child.Value
					was := *child
					for _, other := range []string{child.Value + "x", strings.ToUpper(child.Value)} {
						child.Value, child.Tag = other, "!!str"
						if !yield(at + " renamed " + other) {
							return false
						}
					}
					*child = was
					all := n.Content
					n.Content = slices.Delete(slices.Clone(all), i, i+2)
					if !yield(at + " left out") {
						return false
					}
					n.Content = all
					continue
				}
				if n.Kind == yaml.DocumentNode {
					if !visit(child, path) {
						return false
					}
					continue
				}
				for _, value := range []string{"null", "''", "x", "-1", "0.5", "[x]", "{x: 1}"} {
					var other yaml.Node
					if yaml.Unmarshal([]byte(value), &other) != nil {
						continue
					}
					if child.Anchor != "" {
						continue // others refer to it
					}
					n.Content[i] = other.Content[0]
					if !yield(at + " = " + value) {
						return false
					}
					n.Content[i] = child
				}
				if !visit(child, at) {
					return false
				}
			}
			return true
		}
		visit(doc, "")
	}
}
