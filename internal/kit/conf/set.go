package conf

import (
	"encoding"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// override applies one --set. It is decoded as if a file held nothing but this key, so the same checks apply.
func (d *decoder) override(set string, v reflect.Value) {
	key, text, ok := strings.Cut(set, "=")
	if !ok || key == "" {
		d.faults = append(d.faults, &Fault{File: fromSet, Text: "wants KEY=VALUE, such as pool=blue, got " + shorten(key)})
		return
	}
	path, t := resolve(v.Type(), strings.Split(key, "."))
	node := d.overrideValue(key, text, t)
	if node == nil {
		return
	}
	for i := len(path) - 1; i >= 0; i-- {
		name := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: path[i]}
		node = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{name, node}}
	}
	d.value(node, v, "")
}

// overrideValue turns the text of an override into a node without a place. Where the target is a text, the text
// is taken as it is (an IPv6 address would be a list in YAML), unless it is quoted.
func (d *decoder) overrideValue(key, text string, target reflect.Type) *yaml.Node {
	inner := newDecoder(fromSet)
	node := inner.document([]byte(text))
	if isText(target) && (node == nil || node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	}
	for _, f := range inner.faults {
		d.faults = append(d.faults, &Fault{File: fromSet, Key: key, Text: f.Text})
	}
	if len(inner.faults) > 0 {
		return nil
	}
	if node == nil {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	clearPlaces(node, 0)
	return node
}

// resolve walks down t along the parts of a dotted key. It returns the parts as map keys (the rest of a key below a map of
// plain values is one part, as such keys may have dots) and the type at the end, nil if there is no such key.
func resolve(t reflect.Type, parts []string) ([]string, reflect.Type) {
	var path []string
	for len(parts) > 0 {
		t = indirect(t)
		switch {
		case isText(t):
			return append(path, parts...), nil
		case t.Kind() == reflect.Struct:
			index, ok := find(fieldsOf(t), parts[0])
			if !ok {
				return append(path, parts...), nil
			}
			t = t.FieldByIndex(index).Type
		case t.Kind() == reflect.Map:
			elem := indirect(t.Elem())
			if isText(elem) || (elem.Kind() != reflect.Struct && elem.Kind() != reflect.Map) {
				return append(path, strings.Join(parts, ".")), elem
			}
			t = elem
		default:
			return append(path, parts...), nil
		}
		path = append(path, parts[0])
		parts = parts[1:]
	}
	return path, indirect(t)
}

func indirect(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// isText tells whether values of t are written as a text. t may be nil.
func isText(t reflect.Type) bool {
	return t != nil && (t.Kind() == reflect.String || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()))
}

// clearPlaces removes line numbers: those inside a command line argument help nobody.
func clearPlaces(n *yaml.Node, depth int) {
	if n == nil || depth > maxDepth {
		return
	}
	n.Line, n.Column = 0, 0
	for _, c := range n.Content {
		clearPlaces(c, depth+1)
	}
}
