package epconfig

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// gateFlowControl is the feature gate that switches a queue on.
const gateFlowControl = "flowControl"

// sections reads what newer endpoint pickers have besides plug-ins and profiles, and
// says what becomes of it.
func (l *loader) sections() {
	if l.doc.fields == nil {
		return
	}
	gates := l.featureGates()
	l.flowControl(slices.Contains(gates, gateFlowControl))
	l.saturationDetector()
	for _, s := range []struct {
		name, who string
		known     []string
	}{
		{"parser", "the router's fronts read OpenAI request bodies by their path", []string{treeRef}},
		{"requestHandler", "the router's fronts read OpenAI request bodies by their path", nil},
		{"dataLayer", "the metrics-collector discovers endpoints and scrapes them", []string{"injectDefaults", "sources", "discovery"}},
		{"data", "the metrics-collector discovers endpoints and scrapes them", nil},
	} {
		n := l.doc.fields.get(s.name)
		if n == nil {
			continue
		}
		m := l.mapping(n, s.name)
		if m == nil {
			continue
		}
		if s.known != nil {
			l.only(m, s.known...)
		}
		l.info(n, s.name, "is not needed here: %s", s.who)
		l.references(n, s.name, 0)
	}
}

// references checks every pluginRef in a section.
func (l *loader) references(n *yaml.Node, path string, depth int) {
	n = resolve(n)
	if !l.step(n, path, depth) {
		return
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for i, item := range n.Content {
			l.references(item, fmt.Sprintf("%s[%d]", path, i), depth+1)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
			if key.Value == treeRef {
				l.reference(value, join(path, treeRef))
				continue
			}
			l.references(value, join(path, key.Value), depth+1)
		}
	}
}

// reference checks that a pluginRef names a plug-in.
func (l *loader) reference(n *yaml.Node, path string) {
	faults := len(l.faults)
	name := l.text(n, path)
	switch {
	case len(l.faults) > faults:
	case name == "":
		l.fault(n, path, "is empty; name a plug-in")
	case l.byName[name] == nil:
		l.fault(n, path, "there is no plug-in %q%s", name, l.didYouMean(name, l.names()))
	default:
		l.byName[name].used = true
	}
}

// Sections returns the top-level fields besides the two constant lines.
func Sections() []string { return sectionNames() }

// gates says of the known feature gates what becomes of them; "" if they are refused.
func gates() map[string]string {
	return map[string]string{
		"dataLayer":           "on by nature: the metrics-collector is the data layer",
		"prepareDataPlugins":  "on by nature: scorers are asked for what they need",
		"enableLegacyMetrics": "of no effect: metrics have one set of names here",
		gateFlowControl:       "",
	}
}

// FeatureGates returns the feature gates that may be named, sorted.
func FeatureGates() []string {
	all := gates()
	maps.DeleteFunc(all, func(_, what string) bool { return what == "" })
	return slices.Sorted(maps.Keys(all))
}

// featureGates returns the gates that are on.
func (l *loader) featureGates() []string {
	does := gates()
	known := slices.Sorted(maps.Keys(does))
	items, _ := l.list(l.doc.fields.get("featureGates"), "featureGates")
	var on []string
	for i, item := range items {
		path := fmt.Sprintf("featureGates[%d]", i)
		name := l.text(item, path)
		what, ok := does[name]
		switch {
		case name == "":
		case !ok:
			l.fault(item, path, "unknown feature gate %q%s", name, l.didYouMeanOr(name, known))
		case what != "":
			l.info(item, path, "%s is %s", name, what)
		}
		on = append(on, name)
	}
	return on
}

func (l *loader) flowControl(gate bool) {
	n := l.doc.fields.get("flowControl")
	if n != nil {
		l.mapping(n, "flowControl")
	}
	switch {
	case gate:
		at := n
		if at == nil {
			at = l.doc.fields.get("featureGates")
		}
		l.fault(at, "flowControl", "the router has no queue of its own yet; take flowControl out of featureGates")
	case n != nil:
		l.warn(n, "flowControl", "is ignored, since flowControl is not among the featureGates")
	}
}
