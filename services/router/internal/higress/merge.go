package higress

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Limits of what is merged: aliases make large things of small texts, and endless ones.
const (
	maxMerges     = 1000
	maxMergeDepth = 64
)

// entry is a key of a mapping and its value, aliases followed.
type entry struct{ key, value *yaml.Node }

// merger reads a mapping with what "<<" merges into it, as YAML 1.1 has it: what a mapping
// says itself goes before what is merged in, and of that the first goes before the rest.
type merger struct {
	// fault is told what is wrong with a key.
	fault func(at *yaml.Node, key, what string)
	// entries has every key once.
	entries []entry

	known  map[string]bool // keys of entries
	merges int
}

// take adds the entries of a mapping, depth merges below the first.
func (m *merger) take(n *yaml.Node, depth int) {
	if m.known == nil {
		m.known = make(map[string]bool)
	}
	own := make(map[string]bool)
	var merged []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		switch {
		case key.ShortTag() == "!!merge":
			merged = append(merged, entry{key, value})
			continue
		case own[key.Value]:
			m.fault(n.Content[i], key.Value, "is given twice")
			continue
		}
		own[key.Value] = true
		if !m.known[key.Value] {
			m.known[key.Value] = true
			m.entries = append(m.entries, entry{key, value})
		}
	}
	for _, e := range merged {
		from := []*yaml.Node{e.value}
		if e.value.Kind == yaml.SequenceNode {
			from = e.value.Content
		}
		for _, f := range from {
			m.merge(e.key, resolve(f), depth+1)
		}
	}
}

func (m *merger) merge(at, from *yaml.Node, depth int) {
	m.merges++
	switch {
	case m.merges > maxMerges+1: // told already
	case m.merges > maxMerges || depth > maxMergeDepth:
		m.fault(at, at.Value, fmt.Sprintf("merges more than %d mappings, or more than %d deep", maxMerges, maxMergeDepth))
		m.merges = maxMerges + 1
	case from.Kind != yaml.MappingNode:
		m.fault(at, at.Value, "merges what is no mapping; write <<: *NAME, where NAME is the anchor (&NAME) of a mapping, or a list of such")
	default:
		m.take(from, depth)
	}
}
