package epconfig

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// effective writes the configuration with nothing left out.
func (l *loader) effective() ([]byte, error) {
	plugins := &yaml.Node{Kind: yaml.SequenceNode}
	for _, in := range l.instances {
		fields := []*yaml.Node{scalar("name"), scalar(in.name), scalar("type"), scalar(in.typ)}
		if len(in.params) > 0 && in.role != RoleElsewhere {
			params, err := ofJSON(in.params)
			if err != nil {
				return nil, fmt.Errorf("write parameters of plug-in %q: %w", in.name, err)
			}
			fields = append(fields, scalar("parameters"), params)
		}
		plugins.Content = append(plugins.Content, &yaml.Node{Kind: yaml.MappingNode, Content: fields})
	}
	profiles := &yaml.Node{Kind: yaml.SequenceNode}
	for i, p := range l.profiles {
		members := &yaml.Node{Kind: yaml.SequenceNode}
		for _, m := range l.contents[i] {
			fields := []*yaml.Node{scalar("pluginRef"), scalar(m.instance.name)}
			if m.instance.role == RoleScorer {
				fields = append(fields, scalar("weight"), number(m.weight))
			}
			members.Content = append(members.Content, &yaml.Node{Kind: yaml.MappingNode, Content: fields})
		}
		profiles.Content = append(profiles.Content, &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
			scalar("name"), scalar(p.Name), scalar("plugins"), members,
		}})
	}
	detector, err := ofJSON(l.detectorText)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", sectionSaturation, err)
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	err = enc.Encode(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		scalar("apiVersion"), scalar(APIVersion), scalar("kind"), scalar(Kind),
		scalar("plugins"), plugins, scalar("schedulingProfiles"), profiles,
		scalar(sectionSaturation), detector,
	}})
	if err != nil {
		return nil, fmt.Errorf("write effective configuration: %w", err)
	}
	return out.Bytes(), nil
}

// ofJSON is a JSON value as people write YAML.
func ofJSON(text []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	blockStyle(doc.Content[0])
	return doc.Content[0], nil
}

// scalar is a text; the encoder quotes it where it would read as something else.
func scalar(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	quoteOldBool(n)
	return n
}

// quoteOldBool quotes what older readers of YAML take for a truth value.
func quoteOldBool(n *yaml.Node) {
	switch strings.ToLower(n.Value) {
	case "y", "n", "yes", "no", "on", "off":
		n.Style = yaml.DoubleQuotedStyle
	}
}

func number(f float64) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatFloat(f, 'g', -1, 64)}
}

// blockStyle takes the braces and quotes of JSON off, where YAML does without.
func blockStyle(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode {
		n.Style &^= yaml.FlowStyle
	} else if n.ShortTag() == "!!str" {
		n.Style, n.Tag = 0, "!!str" // the encoder quotes where it must
		quoteOldBool(n)
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// pluginList describes the instances.
func (l *loader) pluginList() []Plugin {
	var list []Plugin
	for _, in := range l.instances {
		p := Plugin{
			Name: in.name, Type: in.typ, Role: in.role, Service: in.scorer.Service, Parameters: in.params, FilledIn: in.entry == nil,
		}
		if t, ok := l.deps.Registry.Type(in.typ); ok {
			p.Summary = t.Summary
		}
		list = append(list, p)
	}
	return list
}
