package conf

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// field is a key that a struct has.
type field struct {
	name  string
	index []int // for reflect.Value.FieldByIndex
}

// fieldsOf lists the keys of a struct, those of inlined structs among them.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		inline := slices.Contains(strings.Split(options, ","), "inline")
		switch {
		case name == "-" || (!f.IsExported() && !inline):
		case inline && f.Type.Kind() == reflect.Struct:
			for _, inner := range fieldsOf(f.Type) {
				out = append(out, field{inner.name, append([]int{i}, inner.index...)})
			}
		case inline:
			panic(fmt.Sprintf("conf: %s.%s: only a struct can be inlined", t, f.Name))
		default:
			if name == "" {
				name = strings.ToLower(f.Name)
			}
			out = append(out, field{name, []int{i}})
		}
	}
	return out
}

func find(fields []field, name string) ([]int, bool) {
	for _, f := range fields {
		if f.name == name {
			return f.index, true
		}
	}
	return nil, false
}

// names lists the keys in the order of the alphabet.
func names(fields []field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.name
	}
	slices.Sort(out)
	return out
}
