package conf

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Bounds that no configuration reaches, but a file made of aliases to aliases does.
const (
	maxNodes = 200_000
	maxDepth = 100
)

// decoder carries nodes into values and collects what is wrong with them.
type decoder struct {
	file   string // named in faults
	faults []*Fault
	places map[string]place // where each key was last written
	nodes  int
	depth  int
}

type place struct {
	file         string
	line, column int
}

func newDecoder(name string) *decoder {
	return &decoder{file: name, places: make(map[string]place)}
}

func (d *decoder) fault(n *yaml.Node, key, format string, args ...any) {
	d.faults = append(d.faults, &Fault{
		File: d.file, Line: n.Line, Column: n.Column, Key: key, Text: fmt.Sprintf(format, args...),
	})
}

// value decodes n into v, which is settable. key is the path of both.
func (d *decoder) value(n *yaml.Node, v reflect.Value, key string) {
	d.depth++
	defer func() { d.depth-- }()
	if d.exhausted(n, key) {
		return
	}
	if n.Kind == yaml.AliasNode {
		d.value(n.Alias, v, key)
		return
	}
	d.places[key] = place{d.file, n.Line, n.Column}
	if v.Kind() == reflect.Pointer {
		d.pointer(n, v, key)
		return
	}
	if d.own(n, v, key) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, key)
	case reflect.Map:
		d.table(n, v, key)
	case reflect.Slice:
		d.list(n, v, key)
	case reflect.Interface:
		d.anything(n, v, key)
	default:
		d.scalar(n, v, key)
	}
}

// exhausted counts a node and tells whether it is one too many. The first one is a fault, and nothing is decoded after it.
func (d *decoder) exhausted(n *yaml.Node, key string) bool {
	d.nodes++
	if d.nodes <= maxNodes && d.depth <= maxDepth {
		return false
	}
	if d.nodes <= maxNodes+1 {
		d.nodes = maxNodes + 1
		d.fault(n, key, "too much nesting or too many values; do aliases repeat themselves?")
	}
	return true
}

// pointer decodes into a fresh target that begins as a copy of the old one, so that nothing shared is written to.
func (d *decoder) pointer(n *yaml.Node, v reflect.Value, key string) {
	if isNull(n) {
		v.SetZero()
		return
	}
	fresh := reflect.New(v.Type().Elem())
	if !v.IsNil() {
		fresh.Elem().Set(v.Elem())
	}
	d.value(n, fresh.Elem(), key)
	v.Set(fresh)
}

// own decodes values that know how; false if v is none.
func (d *decoder) own(n *yaml.Node, v reflect.Value, key string) bool {
	switch t := v.Addr().Interface().(type) {
	case *yaml.Node:
		*t = *n
	case *time.Duration:
		d.text(n, key, wantsDuration, func(s string) (err error) {
			*t, err = parseDuration(s)
			return err
		})
	case *Duration:
		d.text(n, key, wantsDuration, func(s string) error { return t.UnmarshalText([]byte(s)) })
	case yaml.Unmarshaler:
		if isNull(n) {
			return true
		}
		if err := t.UnmarshalYAML(n); err != nil {
			for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:\n"), "\n") {
				d.fault(n, key, "%s", strings.TrimSpace(line))
			}
		}
	case encoding.TextUnmarshaler:
		d.text(n, key, "a text", func(s string) error { return t.UnmarshalText([]byte(s)) })
	default:
		return false
	}
	return true
}

// text decodes a scalar by its text.
func (d *decoder) text(n *yaml.Node, key, wants string, set func(string) error) {
	if n.Kind != yaml.ScalarNode || isNull(n) {
		d.fault(n, key, "wants %s, got %s", wants, describe(n))
		return
	}
	if err := set(n.Value); err != nil {
		d.fault(n, key, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// anything decodes what has no type of its own.
func (d *decoder) anything(n *yaml.Node, v reflect.Value, key string) {
	if v.NumMethod() > 0 {
		d.fault(n, key, "cannot be set from YAML (it is a %s)", v.Type())
		return
	}
	var x any
	if err := n.Decode(&x); err != nil {
		d.fault(n, key, "%s", strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", " "), "yaml: "))
		return
	}
	if x == nil {
		v.SetZero()
		return
	}
	v.Set(reflect.ValueOf(x))
}
