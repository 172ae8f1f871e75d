package knobs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// Comments finds the comments of struct fields in the source tree.
type Comments struct {
	root, module string
	packages     map[string]map[string]map[string]string // import path, struct, field
}

// NewComments reads the packages below the import path module from the directory
// root, each when it is first asked for.
func NewComments(root, module string) *Comments {
	return &Comments{root: root, module: module, packages: make(map[string]map[string]map[string]string)}
}

// Of returns a field's comment on one line.
func (c *Comments) Of(structure reflect.Type, field string) (string, error) {
	path := structure.PkgPath()
	structs, known := c.packages[path]
	if !known {
		var err error
		if structs, err = c.read(path); err != nil {
			return "", err
		}
		c.packages[path] = structs
	}
	text := structs[structure.Name()][field]
	if text == "" {
		return "", fmt.Errorf("%s.%s.%s has no comment", path, structure.Name(), field)
	}
	return text, nil
}

func (c *Comments) read(path string) (map[string]map[string]string, error) {
	below, ok := strings.CutPrefix(path, c.module+"/")
	if !ok {
		return nil, fmt.Errorf("package %s is not in %s", path, c.module)
	}
	dir := filepath.Join(c.root, filepath.FromSlash(below))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read package %s: %w", path, err)
	}
	structs := make(map[string]map[string]string)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("read package %s: %w", path, err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				structs[spec.Name.Name] = fields(s)
			}
			return false
		})
	}
	return structs, nil
}

// fields returns the comments by field. One that stands before several fields without
// comments of their own is for all of them.
func fields(s *ast.StructType) map[string]string {
	out := make(map[string]string)
	last := ""
	for _, f := range s.Fields.List {
		if text := strings.Join(strings.Fields(f.Doc.Text()), " "); text != "" {
			last = text
		}
		for _, name := range f.Names {
			out[name.Name] = last
		}
	}
	return out
}
