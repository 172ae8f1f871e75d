package text

import (
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Clean replaces in all texts of a message what a terminal would not print: model
// names, paths and scorers' words come from strangers, and could hold escapes that
// rewrite the screen, or lines that were never said. It changes and returns m.
func Clean[M proto.Message](m M) M {
	clean(m.ProtoReflect())
	return m
}

func clean(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
		case f.IsList():
			for i := range v.List().Len() {
				if f.Kind() == protoreflect.StringKind {
					v.List().Set(i, protoreflect.ValueOfString(printable(v.List().Get(i).String())))
				} else if f.Message() != nil {
					clean(v.List().Get(i).Message())
				}
			}
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(printable(v.String())))
		case f.Message() != nil:
			clean(v.Message())
		}
		return true
	})
}

// Line is a stranger's text as Clean leaves it.
func Line(s string) string { return printable(s) }

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
