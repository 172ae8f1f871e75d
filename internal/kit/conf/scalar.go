package conf

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scalar decodes a text, a number or a truth value.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, key string) {
	wrong := func(wants string) { d.fault(n, key, "wants %s, got %s", wants, describe(n)) }
	tag := ""
	if n.Kind == yaml.ScalarNode {
		tag = n.ShortTag()
	}
	switch v.Kind() {
	case reflect.String:
		if tag == "" || tag == "!!null" {
			wrong("a string")
			return
		}
		v.SetString(n.Value) // a number is taken as it is written: a password may look like one
	case reflect.Bool:
		if tag != "!!bool" {
			wrong("true or false")
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64)
		switch {
		case tag != "!!int":
			wrong("a whole number")
		case err != nil || v.OverflowInt(i):
			bits := v.Type().Bits()
			d.fault(n, key, "wants a whole number from %d to %d, got %s", int64(-1)<<(bits-1), int64(math.MaxInt64)>>(64-bits), shorten(n.Value))
		default:
			v.SetInt(i)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		u, err := strconv.ParseUint(strings.ReplaceAll(n.Value, "_", ""), 0, 64)
		switch {
		case tag != "!!int":
			wrong("a whole number")
		case err != nil || v.OverflowUint(u):
			d.fault(n, key, "wants a whole number from 0 to %d, got %s", uint64(math.MaxUint64)>>(64-v.Type().Bits()), shorten(n.Value))
		default:
			v.SetUint(u)
		}
	case reflect.Float32, reflect.Float64:
		var f float64
		if (tag != "!!int" && tag != "!!float") || n.Decode(&f) != nil || math.IsNaN(f) || math.IsInf(f, 0) || v.OverflowFloat(f) {
			wrong("a number")
			return
		}
		v.SetFloat(f)
	default:
		panic(fmt.Sprintf("conf: %s: a %s cannot be configured", key, v.Type()))
	}
}

// describe says what n is, for people who do not know YAML's words.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return describe(n.Alias)
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing; write a value or remove the key"
	case "!!int", "!!float":
		return "the number " + shorten(n.Value)
	case "!!bool":
		return n.Value
	}
	return fmt.Sprintf("the string %q", shorten(n.Value))
}

// shorten keeps a quoted value from filling the screen.
func shorten(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
