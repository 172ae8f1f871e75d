package higress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Notice is something to know about a place in the text.
type Notice struct {
	// Line and Column are the place, from 1. 0: the text as a whole.
	Line, Column int
	// Path names the field, such as "lb_config.servicePort". Empty: the text as a whole.
	Path string
	// Message says what is to know, in one line.
	Message string
}

// Faults is why a text was refused: all of its faults, in the order of the text.
type Faults []Notice

// Error returns one line per fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, n := range f {
		lines[i] = fmt.Sprintf("%d:%d: %s: %s", n.Line, n.Column, n.Path, n.Message)
	}
	return strings.Join(lines, "\n")
}

// report collects what is found in one text.
type report struct {
	faults, warnings, infos []Notice
}

func notice(at *yaml.Node, path, format string, args []any) Notice {
	n := Notice{Path: path, Message: fmt.Sprintf(format, args...)}
	if at != nil {
		n.Line, n.Column = at.Line, at.Column
	}
	return n
}

func (r *report) fault(at *yaml.Node, path, format string, args ...any) {
	r.faults = append(r.faults, notice(at, path, format, args))
}

func (r *report) warn(at *yaml.Node, path, format string, args ...any) {
	r.warnings = append(r.warnings, notice(at, path, format, args))
}

func (r *report) info(at *yaml.Node, path, format string, args ...any) {
	r.infos = append(r.infos, notice(at, path, format, args))
}

// err returns the faults found, or nil.
func (r *report) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	return Faults(inOrder(r.faults))
}

// inOrder sorts notices by their places.
func inOrder(list []Notice) []Notice {
	slices.SortStableFunc(list, func(a, b Notice) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
	return list
}
