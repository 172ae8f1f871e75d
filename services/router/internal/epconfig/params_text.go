package epconfig

import (
	"encoding/json"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// String returns a text, or its default.
func (p *Params) String(name string) string {
	out, _ := p.defaultOf(name).(string)
	if n := p.values[name]; n != nil {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
			p.Fault(n, name, "must be a text, not %s", kindOf(n))
			return out
		}
		out = n.Value
	}
	if out != "" || p.values[name] != nil {
		p.note(name, jsonText(out))
	}
	return out
}

// Bool returns true or false, or its default.
func (p *Params) Bool(name string) bool {
	out, _ := p.defaultOf(name).(bool)
	if n := p.values[name]; n != nil {
		b, ok := truth(n.Value)
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || !ok {
			p.Fault(n, name, "must be true or false, not %s", kindOf(n))
			return out
		}
		out = b
	}
	p.note(name, strconv.FormatBool(out))
	return out
}

// Strings returns a list of texts, nil if it is absent.
func (p *Params) Strings(name string) []string {
	n := p.values[name]
	if n == nil {
		return nil
	}
	all := p.texts(n, name)
	if !p.failed {
		p.noteNode(name)
	}
	return all
}

// texts reads a list of texts at key.
func (p *Params) texts(n *yaml.Node, key string) []string {
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		p.Fault(n, key, "must be a list of texts, not %s", kindOf(n))
		return nil
	}
	var all []string
	for i, item := range n.Content {
		item = resolve(item)
		if item.Kind != yaml.ScalarNode || item.ShortTag() != "!!str" {
			p.Fault(item, fmt.Sprintf("%s[%d]", key, i), "must be a text, not %s%s", kindOf(item), inQuotes(item))
			continue
		}
		all = append(all, item.Value)
	}
	return all
}

// noteNode keeps a parameter as it was given.
func (p *Params) noteNode(name string) {
	if at := p.values[name]; at != nil {
		if text := p.report.compactJSON(at, join(p.path, name)); text != nil {
			p.note(name, string(text))
		}
	}
}

func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // cannot happen with a string
		return `""`
	}
	return string(b)
}
