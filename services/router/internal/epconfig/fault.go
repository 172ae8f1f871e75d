package epconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Notice is something to know about a place in the text.
type Notice struct {
	// Source is the name of the text.
	Source string `json:"source"`
	// Line and Column are the place, from 1. 0: the text as a whole.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Path names the field, such as "plugins[0].type". Empty: the text as a whole.
	Path string `json:"path,omitempty"`
	// Message says what is to know, in one line.
	Message string `json:"message"`
	// Over says whether what a warning tells of does not hold any more. Nil: it holds as
	// long as the text is in use.
	Over func() bool `json:"-"`
}

// String returns the notice as compilers write them: "source:line:column: path: message".
func (n Notice) String() string {
	var b strings.Builder
	b.WriteString(n.Source)
	if n.Line > 0 {
		fmt.Fprintf(&b, ":%d", n.Line)
		if n.Column > 0 {
			fmt.Fprintf(&b, ":%d", n.Column)
		}
	}
	b.WriteString(": ")
	if n.Path != "" {
		b.WriteString(n.Path + ": ")
	}
	b.WriteString(n.Message)
	return b.String()
}

// Faults is why a text was refused: all of its faults, in the order of the text.
type Faults []Notice

// Error returns one line per fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// report collects what is found in one text.
type report struct {
	source                  string
	faults, warnings, infos []Notice
	steps                   int // values looked at
	compared                int // names that misspelt ones were compared with
}

// Limits of what is followed: aliases make large things of small texts.
const (
	maxDepth = 64
	maxSteps = 50000
)

// step counts a value that is looked at. It returns false, having reported it once,
// when that is too many or too deep, and then the caller must stop.
func (r *report) step(n *yaml.Node, path string, depth int) bool {
	if depth > maxDepth {
		r.fault(n, path, "is nested more than %d deep", maxDepth)
		r.steps = maxSteps // once is enough
		return false
	}
	r.steps++
	if r.steps == maxSteps {
		r.fault(n, path, "the text has more than %d values, aliases followed", maxSteps)
	}
	return r.steps < maxSteps
}

func (r *report) notice(n *yaml.Node, path, format string, args []any) Notice {
	out := Notice{Source: r.source, Path: path, Message: fmt.Sprintf(format, args...)}
	if n != nil {
		out.Line, out.Column = n.Line, n.Column
	}
	return out
}

func (r *report) fault(n *yaml.Node, path, format string, args ...any) {
	r.faults = append(r.faults, r.notice(n, path, format, args))
}

func (r *report) warn(n *yaml.Node, path, format string, args ...any) {
	r.warnings = append(r.warnings, r.notice(n, path, format, args))
}

func (r *report) info(n *yaml.Node, path, format string, args ...any) {
	r.infos = append(r.infos, r.notice(n, path, format, args))
}

// maxFaults is how many faults are listed; nobody mends more at once.
const maxFaults = 100

// err returns the faults found, or nil. What an alias brings to several places is
// one fault.
func (r *report) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	all := slices.CompactFunc(inOrder(r.faults), func(a, b Notice) bool {
		return a.Line == b.Line && a.Column == b.Column && a.Message == b.Message && a.Line > 0
	})
	if more := len(all) - maxFaults; more > 0 {
		all = append(all[:maxFaults], Notice{Source: r.source, Message: fmt.Sprintf("and %d more faults", more)})
	}
	return Faults(all)
}

func inOrder(ns []Notice) []Notice {
	slices.SortStableFunc(ns, func(a, b Notice) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return ns
}
