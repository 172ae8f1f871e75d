package conf

import (
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// pair is one entry of a mapping.
type pair struct {
	name       string
	key, value *yaml.Node
}

// pairs returns the entries of a mapping with merge keys resolved; the mapping's own entries win over merged ones.
func (d *decoder) pairs(n *yaml.Node, path string) []pair {
	var out []pair
	var merged []*yaml.Node
	line := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case k.Kind == yaml.ScalarNode && k.ShortTag() == "!!merge":
			merged = append(merged, v)
		case k.Kind != yaml.ScalarNode || isNull(k):
			d.fault(k, path, "a key must be a word, got %s", describe(k))
		case line[k.Value] != 0:
			d.fault(k, under(path, k.Value), "set twice; it is set in line %d already", line[k.Value])
		default:
			line[k.Value] = max(k.Line, 1)
			out = append(out, pair{k.Value, k, v})
		}
	}
	for _, m := range merged {
		d.depth++
		out = d.merge(out, line, m, path)
		d.depth--
	}
	return out
}

// merge appends the entries of m (a mapping, or a list of them) whose names are not in seen.
func (d *decoder) merge(out []pair, seen map[string]int, m *yaml.Node, path string) []pair {
	if m.Kind == yaml.AliasNode {
		m = m.Alias
	}
	if d.exhausted(m, path) {
		return out
	}
	switch m.Kind {
	case yaml.MappingNode:
		for _, p := range d.pairs(m, path) {
			if seen[p.name] == 0 {
				seen[p.name] = max(p.key.Line, 1)
				out = append(out, p)
			}
		}
	case yaml.SequenceNode:
		for _, e := range m.Content {
			d.depth++
			out = d.merge(out, seen, e, path)
			d.depth--
		}
	default:
		d.fault(m, path, "<< wants a map to merge, got %s", describe(m))
	}
	return out
}

func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// structure decodes a mapping into the fields of a struct.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, key string) {
	if isNull(n) {
		return // a section of which all lines are commented out
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n, key, "wants a map of settings, got %s", describe(n))
		return
	}
	fields := fieldsOf(v.Type())
	for _, p := range d.pairs(n, key) {
		index, ok := find(fields, p.name)
		if !ok {
			d.fault(p.key, under(key, p.name), "unknown key; %s", Hint(p.name, names(fields)))
			continue
		}
		d.value(p.value, v.FieldByIndex(index), under(key, p.name))
	}
}

// table decodes a mapping into a map, entry by entry; what is there already and not named stays.
func (d *decoder) table(n *yaml.Node, v reflect.Value, key string) {
	t := v.Type()
	switch {
	case t.Key().Kind() != reflect.String:
		panic(fmt.Sprintf("conf: %s: a map must have string keys, this is a %s", key, t))
	case isNull(n):
		v.SetZero()
		return
	case n.Kind != yaml.MappingNode:
		d.fault(n, key, "wants a map, got %s", describe(n))
		return
	}
	fresh := reflect.MakeMap(t) // the old one may be shared
	for it := v.MapRange(); it.Next(); {
		fresh.SetMapIndex(it.Key(), it.Value())
	}
	for _, p := range d.pairs(n, key) {
		k := reflect.ValueOf(p.name).Convert(t.Key())
		e := reflect.New(t.Elem()).Elem()
		if old := fresh.MapIndex(k); old.IsValid() {
			e.Set(old)
		}
		d.value(p.value, e, under(key, p.name))
		fresh.SetMapIndex(k, e)
	}
	v.Set(fresh)
}

// list decodes a sequence; it replaces what was there.
func (d *decoder) list(n *yaml.Node, v reflect.Value, key string) {
	if isNull(n) {
		v.SetZero()
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.fault(n, key, "wants a list, got %s", describe(n))
		return
	}
	fresh := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, e := range n.Content {
		d.value(e, fresh.Index(i), fmt.Sprintf("%s[%d]", key, i))
	}
	v.Set(fresh)
}
