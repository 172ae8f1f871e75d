package conf

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document parses text and returns the root of its only document; nil when there is none, or a fault.
func (d *decoder) document(text []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var first *yaml.Node
	for {
		doc := new(yaml.Node)
		err := dec.Decode(doc)
		if errors.Is(err, io.EOF) {
			return first
		}
		if err != nil {
			d.syntax(err)
			return nil
		}
		if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || isNull(doc.Content[0]) {
			continue // nothing but comments
		}
		if first != nil {
			d.fault(doc.Content[0], "", "a second YAML document; a configuration is one, so remove the line --- above it")
			return first
		}
		first = doc.Content[0]
	}
}

// syntax adds the YAML library's error, which is "yaml: line 3: did not find expected key".
func (d *decoder) syntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	f := &Fault{File: d.file, Text: text}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		number, what, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			f.Line, f.Text = n, what
		}
	}
	f.Text = "not YAML: " + strings.ReplaceAll(f.Text, "\n", " ")
	d.faults = append(d.faults, f)
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}
