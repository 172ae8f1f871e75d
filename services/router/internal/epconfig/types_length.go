package epconfig

import "github.com/pointsman/pointsman/services/router/internal/filter"

// lengthTypes are the types that go by the length of the prompt.
func lengthTypes() []*Type {
	return []*Type{{
		Name: filter.LengthType, Role: RoleFilter, Scores: true,
		Summary: "Rates endpoints by how well the prompt's length fits the range that their label tells as \"min-max\", in tokens. " +
			"In the range: 0.3 + 0.7 × (0.7/(1 + width/10000) + 0.3 × headroom/width), where width is max−min and headroom max−tokens, so a narrow range beats a wide one; " +
			"outside: 0.3/(1 + distance/1000); without the label 0.5; with a label that is no range 0. With enableFiltering it also drops, before scoring, the endpoints " +
			"whose range does not have the length in it; those without the label stay. The scores come from scorer-queue.",
		Parameters: []Parameter{
			{Name: "label", Default: filter.DefaultLengthLabel, Summary: "The label that holds the range.", Schema: `{"minLength": 1}`},
			{Name: "enableFiltering", Default: false, Summary: "Whether it filters as well."},
		},
		New: func(name string, p *Params) (any, error) {
			label, filters := p.String("label"), p.Bool("enableFiltering")
			f, err := filter.NewLength(name, label)
			if err != nil {
				p.Fault(p.At("label"), "label", "%v", err)
			}
			if p.Failed() || !filters {
				return nil, nil
			}
			return f, nil
		},
	}}
}
