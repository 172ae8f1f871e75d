package epconfig

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxText is how long a text may be, in bytes.
const maxText = 1 << 20

// parse returns the text's only document: a mapping. It returns nil if there is
// none, or after reporting why not; empty says which.
func (r *report) parse(text []byte) (root *yaml.Node, empty bool) {
	if len(text) > maxText {
		r.fault(nil, "", "the text has %d bytes, and at most %d are read", len(text), maxText)
		return nil, false
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return root, root == nil
		}
		if err != nil {
			r.syntax(err)
			return nil, false
		}
		if len(doc.Content) == 0 || isNull(doc.Content[0]) {
			continue
		}
		if root != nil {
			r.fault(doc.Content[0], "", "a second YAML document begins here; the configuration must be one document")
			return nil, false
		}
		root = doc.Content[0]
	}
}

var lineOfError = regexp.MustCompile(`^(?:line (\d+): )?(.*)$`)

func (r *report) syntax(err error) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	at := &yaml.Node{}
	if m := lineOfError.FindStringSubmatch(message); m != nil {
		at.Line, _ = strconv.Atoi(m[1])
		message = m[2]
	}
	r.fault(at, "", "the text is not YAML: %s", message)
}

func isNull(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// resolve follows an alias. An alias of an alias does not exist in YAML.
func resolve(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// kindOf says in words what a node is.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!str":
		return "the text " + strconv.Quote(n.Value)
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return "the truth value " + n.Value
	case "!!null":
		return "nothing"
	}
	return n.ShortTag() + " " + strconv.Quote(n.Value)
}
