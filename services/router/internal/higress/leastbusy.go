package higress

import (
	"fmt"
	"strings"
)

// tree writes the decision tree of least_busy as filters, and the reference to it.
// Thresholds are those that are fixed in the plug-in.
type tree struct{ b strings.Builder }

const (
	roomQueue     = 5   // most waiting requests for what can be turned away
	roomKV        = 0.8 // and most of the KV cache in use
	affinityQueue = 49  // most waiting requests to go for an adapter: fewer than 50
)

func (t *tree) write(lines ...string) {
	for _, l := range lines {
		t.b.WriteString(l + "\n")
	}
}

// parts declares the filters.
func (t *tree) parts() {
	t.write(
		fmt.Sprintf("- name: affinity-queue\n  type: low-queue-filter\n  parameters: {threshold: %d}", affinityQueue),
		"- name: has-adapter\n  type: lora-affinity-filter\n  parameters: {threshold: 1}",
		"- name: cheap-adapter\n  type: lora-cost-filter",
		"- name: least-queue\n  type: least-queue-filter",
		"- name: least-kv\n  type: least-kv-cache-filter",
	)
}

// byQueue goes by queue and KV cache; byAll by adapters in between too.
func byQueue(indent string) string {
	return nested(indent, "current: {pluginRef: least-queue}", "nextOnSuccessOrFailure: {pluginRef: least-kv}")
}

func byAll(indent string) string {
	return nested(indent, "current: {pluginRef: least-queue}", "nextOnSuccessOrFailure:",
		"  decisionTree:", "    current: {pluginRef: cheap-adapter}", "    nextOnSuccessOrFailure: {pluginRef: least-kv}")
}

// critical is the tree of requests that are not turned away.
func critical(indent string) string {
	lines := []string{"current: {pluginRef: affinity-queue}", "nextOnSuccess:", "  decisionTree:", "    current: {pluginRef: has-adapter}", "    nextOnSuccessOrFailure:"}
	return nested(indent, lines...) + byQueue(indent+"        ") + nested2(indent, "nextOnFailure:") + byAll(indent+"    ")
}

func nested(indent string, lines ...string) string {
	return indent + "decisionTree:\n" + nested2(indent, lines...)
}

func nested2(indent string, lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(indent + "  " + l + "\n")
	}
	return b.String()
}

const leastBusyProfile = `- type: max-score-picker
- type: single-profile-handler
schedulingProfiles:
- name: default
  plugins:
`

// leastBusy: the criticality tree.
func leastBusy(f *fields, out *Imported) {
	models := f.texts("criticalModels")
	if len(models) == 0 {
		f.warn(f.node, f.name("criticalModels"), "names no model, so every request is turned away with 429 when no endpoint has room")
	}
	list := quoted(models)
	t := &tree{}
	t.write("# least_busy: requests for critical models are never turned away; others need an endpoint with room.", strings.TrimRight(head, "\n"), "plugins:",
		fmt.Sprintf("- name: room\n  type: sheddable-capacity-filter\n  parameters: {criticalModels: %s, queueThreshold: %d, kvCacheThreshold: %v}", list, roomQueue, roomKV),
		fmt.Sprintf("- name: critical\n  type: critical-model-filter\n  parameters: {criticalModels: %s}", list))
	t.parts()
	t.b.WriteString("- name: least-busy\n  type: decision-tree-filter\n  parameters:\n    current: {pluginRef: critical}\n    nextOnSuccess:\n" +
		critical("      ") + "    nextOnFailure:\n" + byAll("      ") + leastBusyProfile + "  - pluginRef: room\n  - pluginRef: least-busy\n  - pluginRef: max-score-picker\n")
	out.Text = []byte(t.b.String())
}
