package epconfig

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/services/router/internal/filter"
)

const (
	matchLabels      = "matchLabels"
	matchExpressions = "matchExpressions"
)

// Schemas of parameters.
const (
	labelsSchema      = `{"type": "object", "propertyNames": {"minLength": 1}, "additionalProperties": {"type": "string"}}`
	expressionsSchema = `{"type": "array", "items": {
  "type": "object", "required": ["key", "operator"], "additionalProperties": false,
  "properties": {
    "key": {"type": "string", "minLength": 1},
    "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
    "values": {"type": ["array", "null"], "items": {"type": "string"}}
  },
  "if": {"properties": {"operator": {"enum": ["In", "NotIn"]}}, "required": ["operator"]},
  "then": {"required": ["values"], "properties": {"values": {"type": "array", "minItems": 1}}},
  "else": {"properties": {"values": {"maxItems": 0}}}
}}`
)

// labelTypes are the filters that go by what an endpoint is, not by how busy it is.
func labelTypes() []*Type {
	selector := []Parameter{
		{Name: matchLabels, Summary: "Labels and the values that they must have, all of them.", Schema: labelsSchema},
		{Name: matchExpressions, Summary: "Further conditions, all of which must hold: a list of {key, operator, values} with operator In, NotIn, Exists or DoesNotExist.", Schema: expressionsSchema},
	}
	const selects = "Keeps the endpoints whose labels a Kubernetes LabelSelector matches. NotIn and DoesNotExist hold for an endpoint " +
		"without the label; a selector without conditions matches everybody."
	return []*Type{
		{Name: filter.SelectorType, Role: RoleFilter, Summary: selects, Parameters: selector, New: newSelector},
		{
			Name: filter.SelectorAlias, Role: RoleFilter, Parameters: selector, New: newSelector,
			Summary: selects + " Older name of " + filter.SelectorType + ".",
		},
		{
			Name: filter.ByLabelType, Role: RoleFilter,
			Summary: "Keeps the endpoints whose label has one of the valid values, or lacks the label if that is allowed. Older; " +
				filter.SelectorType + " says more.",
			Parameters: []Parameter{
				{Name: "label", Summary: "The label's name; it must be given.", Schema: `{"type": "string", "minLength": 1}`, Required: true},
				{Name: "validValues", Summary: "The values that pass.", Schema: `{"type": "array", "items": {"type": "string"}}`},
				{Name: "allowsNoLabel", Default: false, Summary: "Whether endpoints without the label pass."},
			},
			New: func(name string, p *Params) (any, error) {
				label, values, none := p.String("label"), p.Strings("validValues"), p.Bool("allowsNoLabel")
				if p.Failed() {
					return nil, nil
				}
				return filter.NewByLabel(name, label, values, none)
			},
		},
		{
			Name: filter.DecodeType, Role: RoleFilter,
			Summary: "Keeps the endpoints whose label " + filter.RoleLabel + " says that they decode (decode, prefill-decode, encode-prefill-decode, both), and those without a role.",
			New:     func(name string, _ *Params) (any, error) { return filter.NewDecode(name), nil },
		},
		{
			Name: filter.PrefillType, Role: RoleFilter,
			Summary: "Keeps the endpoints whose label " + filter.RoleLabel + " says that they prefill (prefill, prefill-decode, encode-prefill, encode-prefill-decode, both).",
			New:     func(name string, _ *Params) (any, error) { return filter.NewPrefill(name), nil },
		},
		{
			Name: filter.EncodeType, Role: RoleFilter,
			Summary: "Keeps the endpoints whose label " + filter.RoleLabel + " says that they encode media (encode, encode-prefill, encode-prefill-decode).",
			New:     func(name string, _ *Params) (any, error) { return filter.NewEncode(name), nil },
		},
		{
			Name: filter.HeaderType, Role: RoleFilter,
			Summary: "Keeps the endpoints that the request names in its header " + filter.SelectionHeader + ", a comma list of ip or ip:port. " +
				"For conformance tests: whoever may send the header chooses the endpoint.",
			New: func(name string, _ *Params) (any, error) { return filter.NewHeader(name), nil },
		},
	}
}

func newSelector(name string, p *Params) (any, error) {
	match := map[string]string{}
	if at := p.At(matchLabels); at != nil {
		if m := p.report.mapping(at, join(p.path, matchLabels)); m != nil {
			for _, key := range m.keys {
				label := resolve(key).Value
				value := resolve(m.values[label])
				if value.Kind != yaml.ScalarNode || value.ShortTag() != "!!str" {
					p.Fault(value, join(matchLabels, label), "must be a text, not %s%s", kindOf(value), inQuotes(value))
					continue
				}
				match[label] = value.Value
			}
		} else {
			p.failed = true
		}
	}
	expressions := p.requirements()
	if p.Failed() {
		return nil, nil
	}
	f, err := filter.NewSelector(name, match, expressions)
	if err != nil {
		for _, fault := range unwrapped(err) {
			p.Fault(p.At(matchExpressions), "", "%v", fault)
		}
		return nil, nil
	}
	p.noteNode(matchLabels)
	p.noteNode(matchExpressions)
	return f, nil
}

// requirements reads matchExpressions.
func (p *Params) requirements() []filter.Requirement {
	at := p.At(matchExpressions)
	if at == nil {
		return nil
	}
	faults := len(p.report.faults)
	items, _ := p.report.list(at, join(p.path, matchExpressions))
	var all []filter.Requirement
	for i, item := range items {
		before := len(p.report.faults)
		key := fmt.Sprintf("%s[%d]", matchExpressions, i)
		r, ok := p.requirement(item, key)
		if !ok {
			continue
		}
		if err := r.Validate(); err != nil && len(p.report.faults) == before {
			p.Fault(item, key, "%v", err)
		}
		all = append(all, r)
	}
	p.failed = p.failed || len(p.report.faults) > faults
	return all
}

// requirement reads one of matchExpressions; false if it is no mapping.
func (p *Params) requirement(item *yaml.Node, key string) (r filter.Requirement, ok bool) {
	path := p.path + "." + key
	m := p.report.mapping(item, path)
	if m == nil {
		return r, false
	}
	p.report.only(m, "key", "operator", "values")
	if n := m.get("key"); n != nil {
		r.Key = p.report.text(n, join(path, "key"))
	}
	if n := m.get("operator"); n != nil {
		r.Operator = filter.Operator(p.report.text(n, join(path, "operator")))
		for _, known := range filter.Operators() { // as the reference, no case of ours
			if strings.EqualFold(string(known), string(r.Operator)) && known != r.Operator {
				p.Fault(n, join(key, "operator"), "is spelt %s", known)
			}
		}
	}
	if n := m.get("values"); n != nil {
		r.Values = p.texts(n, key+".values")
	}
	return r, true
}
