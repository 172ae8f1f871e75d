package epconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// effective writes the configuration with nothing left out, but for what scorers told
// unless told is set.
func (l *loader) effective(told bool) ([]byte, error) {
	plugins := &yaml.Node{Kind: yaml.SequenceNode}
	for _, in := range l.instances {
		typ := scalar(in.typ)
		text := in.params
		if !told && in.role == RoleScorer {
			text = in.given
		}
		if told && in.untold {
			typ.LineComment = "its scorer did not say what defaults there are"
		}
		fields := []*yaml.Node{scalar("name"), scalar(in.name), scalar("type"), typ}
		if len(text) > 0 && in.role != RoleElsewhere {
			params, err := ofJSON(text)
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

// tell takes over what a scorer says that an instance's parameters come to. at and path
// are those of the parameters.
func (l *loader) tell(in *instance, at *yaml.Node, path string) {
	in.given = in.params
	var told []byte
	if t, ok := in.scorer.Asked.(Teller); ok {
		told = normal(t.EffectiveParameters())
	}
	switch {
	case told == nil:
		in.untold = true
		l.info(at, path, "are shown as they are given: the scorer of %q did not say what defaults there are", in.name)
	case len(in.params) > 0 || string(told) != "{}": // none stay none
		in.params = told
	}
}

// normal is a JSON object as it will be read from the effective text; nil if it is none
// or would be read as something else.
func normal(object []byte) []byte {
	if len(object) == 0 || object[0] != '{' || !json.Valid(object) {
		return nil
	}
	n, err := ofJSON(object)
	if err != nil {
		return nil
	}
	return (&report{}).compactJSON(n, "")
}

// ofJSON is a JSON value as people write YAML.
func ofJSON(text []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(escaped(text), &doc); err != nil {
		return nil, err
	}
	blockStyle(doc.Content[0])
	return doc.Content[0], nil
}

// escaped is the JSON text with what YAML, other than JSON, refuses as a letter or reads
// as the end of a line written as \u escapes. It can stand in strings only.
func escaped(text []byte) []byte {
	var out []byte
	for _, r := range string(text) {
		switch {
		case r >= 0x7f && r <= 0x9f, r == 0x2028, r == 0x2029, r == 0xfeff, r == 0xfffe, r == 0xffff:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return out
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
