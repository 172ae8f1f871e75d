package disagg

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// Whoever makes labels of all reasons has them all.
func TestReasons(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "report.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok {
				continue
			}
			if kind, ok := v.Type.(*ast.Ident); !ok || kind.Name != "Reason" {
				continue
			}
			n++
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil || !slices.Contains(Reasons(), Reason(text)) {
				t.Errorf("%s is not among them", v.Names[0])
			}
		}
	}
	if n != len(Reasons()) || n == 0 {
		t.Errorf("%d reasons, %d among them", n, len(Reasons()))
	}
}
