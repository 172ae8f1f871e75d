package epconfig

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// mapping is a YAML mapping with its keys in order, merges done.
type mapping struct {
	node   *yaml.Node
	path   string
	keys   []*yaml.Node
	values map[string]*yaml.Node
}

// mapping reads a mapping. Null and nil are an empty one. It returns nil after
// reporting that n is none.
func (r *report) mapping(n *yaml.Node, path string) *mapping {
	n = resolve(n)
	m := &mapping{node: n, path: path, values: map[string]*yaml.Node{}}
	if isNull(n) {
		return m
	}
	if n.Kind != yaml.MappingNode {
		r.fault(n, path, "must be a mapping of fields, not %s", kindOf(n))
		return nil
	}
	r.gather(m, n, 0)
	return m
}

// gather adds n's entries to m. Entries of n's own go before those merged in.
func (r *report) gather(m *mapping, n *yaml.Node, depth int) {
	own := map[string]*yaml.Node{}
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if !r.step(n.Content[i], m.path, depth) {
			return
		}
		key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		if key.Kind != yaml.ScalarNode {
			r.fault(n.Content[i], m.path, "a field's name must be a text, not %s", kindOf(key))
			continue
		}
		if key.ShortTag() == "!!merge" {
			merges = append(merges, n.Content[i+1])
			continue
		}
		if first := own[key.Value]; first != nil {
			r.fault(n.Content[i], join(m.path, key.Value), "is there twice, first in line %d", first.Line)
			continue
		}
		own[key.Value] = n.Content[i]
		if _, there := m.values[key.Value]; !there {
			m.keys = append(m.keys, n.Content[i])
			m.values[key.Value] = value
		}
	}
	for _, from := range merges {
		r.merge(m, from, depth)
	}
}

func (r *report) merge(m *mapping, from *yaml.Node, depth int) {
	from = resolve(from)
	list := []*yaml.Node{from}
	if from.Kind == yaml.SequenceNode {
		list = from.Content
	}
	for _, f := range list {
		if !r.step(f, m.path, depth) {
			return
		}
		f = resolve(f)
		if f.Kind != yaml.MappingNode {
			r.fault(f, m.path, "<< must name a mapping, not %s", kindOf(f))
			continue
		}
		r.gather(m, f, depth+1)
	}
}

// get returns the field's value, nil if it is absent or null.
func (m *mapping) get(key string) *yaml.Node {
	if v := m.values[key]; !isNull(v) {
		return v
	}
	return nil
}

// only reports the fields that are not among the known.
func (r *report) only(m *mapping, known ...string) {
	for _, key := range m.keys {
		k := resolve(key).Value
		found := false
		for _, name := range known {
			found = found || name == k
		}
		if !found {
			r.fault(key, join(m.path, k), "unknown field%s", r.didYouMean(k, known))
		}
	}
}

// list returns the items of a sequence; none if n is nil or null. It reports
// whether n was one.
func (r *report) list(n *yaml.Node, path string) ([]*yaml.Node, bool) {
	n = resolve(n)
	if isNull(n) {
		return nil, true
	}
	if n.Kind != yaml.SequenceNode {
		r.fault(n, path, "must be a list, not %s", kindOf(n))
		return nil, false
	}
	return n.Content, true
}

// text returns a string; "" if n is nil or null, or after reporting that it is none.
func (r *report) text(n *yaml.Node, path string) string {
	n = resolve(n)
	if isNull(n) {
		return ""
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		r.fault(n, path, "must be a text, not %s%s", kindOf(n), inQuotes(n))
		return ""
	}
	return n.Value
}

// inQuotes says how what was read as something else becomes a text, if it can.
func inQuotes(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return "; put it in quotes"
	}
	return ""
}

func join(path, key string) string {
	if path == "" {
		return quoted(key)
	}
	return path + "." + quoted(key)
}

// quoted is a field's name as it stands in a path.
func quoted(key string) string {
	if key == "" || strings.ContainsAny(key, ". []\n") {
		return fmt.Sprintf("%q", key)
	}
	return key
}
