package epconfig

import "github.com/pointsman/pointsman/services/router/internal/pick"

const maxEndpoints = "maxNumOfEndpoints"

func pickerTypes() []*Type {
	parameters := []Parameter{
		{Name: maxEndpoints, Default: 1, Summary: "How many endpoints to name, best first, for gateways that retry on the next. At least 1."},
	}
	return []*Type{
		{
			Name: pick.MaxScoreType, Role: RolePicker, Parameters: parameters,
			Summary: "Picks the endpoint with the greatest weighted sum of scores. Among equals, the one with the fewest requests in flight, and among those, by chance.",
			New:     func(name string, p *Params) (any, error) { return pick.NewMaxScore(name, endpoints(p)), nil },
		},
		{
			Name: pick.RandomType, Role: RolePicker, Parameters: parameters,
			Summary: "Picks any endpoint by chance; scores are ignored.",
			New:     func(name string, p *Params) (any, error) { return pick.NewRandom(name, endpoints(p)), nil },
		},
		{
			Name: pick.WeightedRandomType, Role: RolePicker, Parameters: parameters,
			Summary: "Picks by chance, in proportion to the weighted sum of scores. A sum of 0 or less is picked only if there is no greater one.",
			New:     func(name string, p *Params) (any, error) { return pick.NewWeightedRandom(name, endpoints(p)), nil },
		},
	}
}

// endpoints reads maxNumOfEndpoints. Less than 1 is 1, as in the reference.
func endpoints(p *Params) int {
	n := p.Int(maxEndpoints)
	if n < 1 {
		p.Warn(maxEndpoints, "%d is taken for 1", n)
		p.note(maxEndpoints, "1")
		return 1
	}
	return n
}
