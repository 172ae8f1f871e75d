package epconfig

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The two constant lines of the text.
const (
	Kind         = "EndpointPickerConfig"
	APIVersion   = "inference.networking.x-k8s.io/v1alpha1"
	APIVersionLD = "llm-d.ai/v1alpha1"
)

// document is the structure of a text, before anything is looked up.
type document struct {
	fields   *mapping
	plugins  []*pluginEntry
	profiles []*profileEntry
}

// pluginEntry is one item of plugins.
type pluginEntry struct {
	node   *yaml.Node
	path   string
	name   string // defaults to typ
	nameAt *yaml.Node
	typ    string
	typeAt *yaml.Node
	params *yaml.Node // nil if absent
	// completes is true if params are those of a data producer, whose defaults differ.
	completes bool
}

// profileEntry is one item of schedulingProfiles.
type profileEntry struct {
	node    *yaml.Node
	path    string
	name    string
	plugins []*refEntry
}

// refEntry is one item of a profile's plugins.
type refEntry struct {
	node   *yaml.Node
	path   string
	ref    string
	refAt  *yaml.Node
	weight *yaml.Node // nil if absent
}

// sectionNames are the top-level fields besides the two constant lines.
func sectionNames() []string {
	return []string{
		"plugins", "schedulingProfiles", "featureGates", "saturationDetector", "dataLayer", "data", "flowControl", "parser", "requestHandler",
	}
}

// document reads the structure and reports what is wrong with it.
func (r *report) document(root *yaml.Node) *document {
	d := &document{}
	d.fields = r.mapping(root, "")
	if d.fields == nil {
		return d
	}
	r.only(d.fields, append([]string{"apiVersion", "kind"}, sectionNames()...)...)
	r.constant(d.fields, "apiVersion", APIVersion, APIVersionLD)
	r.constant(d.fields, "kind", Kind)
	items, _ := r.list(d.fields.get("plugins"), "plugins")
	for i, item := range items {
		if e := r.plugin(item, fmt.Sprintf("plugins[%d]", i)); e != nil {
			d.plugins = append(d.plugins, e)
		}
	}
	items, _ = r.list(d.fields.get("schedulingProfiles"), "schedulingProfiles")
	for i, item := range items {
		if e := r.profile(item, fmt.Sprintf("schedulingProfiles[%d]", i)); e != nil {
			d.profiles = append(d.profiles, e)
		}
	}
	return d
}

// constant reports a field that does not have one of the values it must have.
func (r *report) constant(m *mapping, key string, values ...string) {
	n := m.get(key)
	if n == nil {
		r.fault(m.node, key, "is missing; write %q", key+": "+values[0])
		return
	}
	faults := len(r.faults)
	if got := r.text(n, key); len(r.faults) == faults && !slices.Contains(values, got) {
		r.fault(n, key, "must be %s, not %q", strings.Join(values, " or "), got)
	}
}

func (r *report) plugin(n *yaml.Node, path string) *pluginEntry {
	m := r.mapping(n, path)
	if m == nil {
		return nil
	}
	r.only(m, "name", "type", "parameters")
	e := &pluginEntry{node: n, path: path, typeAt: m.get("type"), nameAt: m.get("name"), params: m.get("parameters")}
	if e.typeAt == nil {
		r.fault(n, join(path, "type"), "is missing; say which plug-in it is")
		return nil
	}
	e.typ = r.text(e.typeAt, join(path, "type"))
	e.name = r.text(e.nameAt, join(path, "name"))
	if e.name == "" {
		e.name = e.typ
	}
	if e.nameAt == nil {
		e.nameAt = e.typeAt
	}
	if e.typ == "" {
		if e.typeAt.Value == "" {
			r.fault(e.typeAt, join(path, "type"), "is empty; say which plug-in it is")
		}
		return nil
	}
	return e
}

func (r *report) profile(n *yaml.Node, path string) *profileEntry {
	m := r.mapping(n, path)
	if m == nil {
		return nil
	}
	r.only(m, "name", "plugins")
	e := &profileEntry{node: resolve(n), path: path}
	if m.get("name") == nil {
		r.fault(n, join(path, "name"), "is missing; a profile must have a name")
	} else if e.name = r.text(m.get("name"), join(path, "name")); e.name == "" && m.get("name").Value == "" {
		r.fault(m.get("name"), join(path, "name"), "is empty; a profile must have a name")
	}
	items, ok := r.list(m.get("plugins"), join(path, "plugins"))
	if ok && len(items) == 0 {
		r.fault(n, join(path, "plugins"), "a profile must have at least one plug-in")
	}
	for i, item := range items {
		at := fmt.Sprintf("%s.plugins[%d]", path, i)
		fields := r.mapping(item, at)
		if fields == nil {
			continue
		}
		r.only(fields, "pluginRef", "weight")
		ref := &refEntry{node: item, path: at, refAt: fields.get("pluginRef"), weight: fields.get("weight")}
		if ref.refAt == nil {
			r.fault(item, join(at, "pluginRef"), "is missing; name a plug-in")
			continue
		}
		if ref.ref = r.text(ref.refAt, join(at, "pluginRef")); ref.ref != "" {
			e.plugins = append(e.plugins, ref)
		} else if ref.refAt.Value == "" {
			r.fault(ref.refAt, join(at, "pluginRef"), "is empty; name a plug-in")
		}
	}
	return e
}
