package epconfig

import "github.com/pointsman/pointsman/services/router/internal/filter"

const criticalModels = "criticalModels"

// criticalTypes are the filters that go by which models are critical, and by what it
// costs to serve an adapter.
func criticalTypes() []*Type {
	models := Parameter{
		Name: criticalModels, Summary: "Names of models whose requests are never turned away, as clients write them. Default: none.",
		Schema: `{"type": "array", "items": {"type": "string"}}`,
	}
	return []*Type{
		{
			Name: filter.CriticalModelType, Role: RoleFilter, Parameters: []Parameter{models},
			Summary: "Keeps every endpoint if the request is for a critical model, and none if it is not: a question for decision-tree-filter.",
			New: func(name string, p *Params) (any, error) {
				return filter.NewCriticalModel(name, p.Strings(criticalModels)), nil
			},
		},
		{
			Name: filter.SheddableCapacityType, Role: RoleFilter,
			Summary: "For a request that is not for a critical model, drops endpoints with more waiting requests or a fuller KV cache than the thresholds; " +
				"if none is left, the request is answered with 429. A figure that is unknown or stale is not held against an endpoint.",
			Parameters: []Parameter{
				models,
				{Name: "queueThreshold", Default: filter.DefaultSheddableQueue, Summary: "Most waiting requests.", Schema: `{"minimum": 0}`},
				{Name: "kvCacheThreshold", Default: filter.DefaultSheddableKV, Summary: "Greatest share of the KV cache in use.", Schema: probability},
			},
			New: func(name string, p *Params) (any, error) {
				f, err := filter.NewSheddableCapacity(name, p.Strings(criticalModels), p.Int("queueThreshold"), p.Float("kvCacheThreshold"))
				if err != nil {
					return nil, err
				}
				return f, nil
			},
		},
		{
			Name: filter.LoRACostType, Role: RoleFilter,
			Summary: "Drops the endpoints that would have to make room for the request's LoRA adapter: that do not have it, and whose slots are all taken. Endpoints without adapter figures are kept.",
			New:     func(name string, _ *Params) (any, error) { return filter.NewLoRACost(name), nil },
		},
	}
}
