package knobs

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// Knob is one key.
type Knob struct {
	// Key is its dotted path; the items of a list are "list[].key".
	Key string
	// Kind says in words what a value is.
	Kind string
	// Default is its default as YAML; empty: none, or the comment says.
	Default string
	// Comment is the field's, on one line.
	Comment string
	// See is the title under which a folded section is listed, and As the key under
	// which the same keys were listed before; then Kind and Default are empty.
	See, As string
}

// Lister lists knobs.
type Lister struct {
	// Comments finds the comments. REQUIRED.
	Comments *Comments
	// Fold are structs that are listed once for all services: type to title.
	Fold map[reflect.Type]string
}

// List returns the knobs of a struct that holds the defaults, in its order. A struct
// that is folded is listed itself, and folded only within others.
func (l *Lister) List(defaults any) ([]Knob, error) {
	w := &walk{Lister: l, listed: make(map[reflect.Type]string)}
	w.fields("", reflect.ValueOf(defaults))
	return w.knobs, errors.Join(w.faults...)
}

type walk struct {
	*Lister
	knobs  []Knob
	faults []error
	listed map[reflect.Type]string // sections that were listed, and where
}

func (w *walk) fields(prefix string, v reflect.Value) {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		inline := slices.Contains(strings.Split(options, ","), "inline")
		if name == "-" || !f.IsExported() {
			continue
		}
		if inline {
			if see, folded := w.Fold[f.Type]; folded {
				w.folded(prefix, f.Type, see)
			} else {
				w.fields(prefix, v.Field(i))
			}
			continue
		}
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		comment, err := w.Comments.Of(t, f.Name)
		if err != nil && !w.isSection(f.Type) {
			w.faults = append(w.faults, err)
		}
		comment = about(f.Name, comment)
		w.field(prefix+name, v.Field(i), comment)
	}
}

// folded lists the keys of an inlined section that is described elsewhere.
func (w *walk) folded(prefix string, t reflect.Type, see string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		w.knobs = append(w.knobs, Knob{Key: prefix + name, See: see})
	}
}

func (w *walk) field(key string, v reflect.Value, comment string) {
	t := v.Type()
	if see, folded := w.Fold[t]; folded {
		w.knobs = append(w.knobs, Knob{Key: key, Comment: comment, See: see})
		return
	}
	switch {
	case isText(t), t.Kind() != reflect.Struct && t.Kind() != reflect.Slice:
		k := Knob{Key: key, Kind: kind(t), Default: value(v), Comment: comment}
		if v.IsZero() && strings.Contains(key, "[]") {
			k.Default = "" // an item has no defaults but what comments say
		}
		w.knobs = append(w.knobs, k)
	case t.Kind() == reflect.Struct && w.listed[t] != "" && v.IsZero():
		w.knobs = append(w.knobs, Knob{Key: key, Comment: comment, As: w.listed[t]})
	case t.Kind() == reflect.Struct:
		w.listed[t] = key
		w.fields(key+".", v)
	case t.Elem().Kind() == reflect.Struct && !isText(t.Elem()):
		w.knobs = append(w.knobs, Knob{Key: key, Kind: "list", Comment: comment})
		w.fields(key+"[].", reflect.Zero(t.Elem()))
	default:
		w.knobs = append(w.knobs, Knob{Key: key, Kind: "list of " + plural(kind(t.Elem())), Default: value(v), Comment: comment})
	}
}

// about takes the field's name off its comment, which the key says already.
func about(field, comment string) string {
	for _, verb := range []string{" is ", " are "} {
		rest, ok := strings.CutPrefix(comment, field+verb)
		if ok && rest != "" && !strings.HasPrefix(rest, "on ") {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return comment
}

// isSection says whether a type's fields have all that there is to say.
func (w *walk) isSection(t reflect.Type) bool {
	_, folded := w.Fold[t]
	return !folded && t.Kind() == reflect.Struct && !isText(t)
}

// isText says whether values are written as one text, whatever they are made of.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func kind(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[conf.Duration]():
		return "duration"
	case t == reflect.TypeFor[conf.Secret]():
		return "secret text"
	case isText(t):
		return "text"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kind(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.String:
		return "text"
	case reflect.Map:
		return "map of " + plural(kind(t.Elem()))
	case reflect.Interface:
		return "anything"
	}
	return "whole number"
}

func plural(kind string) string {
	if kind == "true or false" || kind == "anything" {
		return kind
	}
	return kind + "s"
}

// value writes a default; empty for what means "not set".
func value(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Interface:
		if v.IsNil() {
			return ""
		}
		if v.Kind() == reflect.Pointer {
			return value(v.Elem())
		}
		return fmt.Sprint(v.Interface())
	case reflect.Slice:
		var items []string
		for i := range v.Len() {
			items = append(items, value(v.Index(i)))
		}
		if items == nil {
			return ""
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.String:
		return v.String()
	}
	return fmt.Sprint(v.Interface())
}
