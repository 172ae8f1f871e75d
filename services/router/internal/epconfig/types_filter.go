package epconfig

import "github.com/pointsman/pointsman/services/router/internal/filter"

// Schemas of parameters.
const (
	probability = `{"minimum": 0, "maximum": 1}`
	treeNode    = `{"$ref": "#/$defs/treeNode"}`
)

func filterTypes() []*Type {
	return []*Type{
		{
			Name: filter.LeastQueueType, Role: RoleFilter,
			Summary: "Keeps the endpoints in the lowest part of the range of queue lengths, cut into as many parts as there are " +
				"candidates: q ≤ min + (max−min)/n in whole numbers. An endpoint whose queue is unknown or stale is kept.",
			New: func(name string, _ *Params) (any, error) { return filter.NewLeastQueue(name), nil },
		},
		{
			Name: filter.LeastKVType, Role: RoleFilter,
			Summary: "Keeps the endpoints in the lowest part of the range of KV-cache usage, cut into as many parts as there are " +
				"candidates: kv ≤ min + (max−min)/n. An endpoint whose usage is unknown or stale is kept.",
			New: func(name string, _ *Params) (any, error) { return filter.NewLeastKV(name), nil },
		},
		{
			Name: filter.LowQueueType, Role: RoleFilter,
			Summary: "Drops endpoints with more waiting requests than the threshold. An endpoint whose queue is unknown or stale is kept.",
			Parameters: []Parameter{
				{Name: "threshold", Default: filter.DefaultQueueThreshold, Summary: "Most waiting requests.", Schema: `{"minimum": 0}`},
			},
			New: func(name string, p *Params) (any, error) {
				f, err := filter.NewLowQueue(name, p.Int("threshold"))
				if err != nil {
					p.Fault(p.At("threshold"), "threshold", "%v", err)
				}
				return f, nil
			},
		},
		{
			Name: filter.LoRAAffinityType, Role: RoleFilter,
			Summary: "Keeps the endpoints that have the request's LoRA adapter running or waiting, or else those that have room for one more. " +
				"If there are both, it keeps the former with the probability of the threshold. Endpoints without adapter figures are kept if there is nothing better.",
			Parameters: []Parameter{
				{Name: "threshold", Default: filter.DefaultAffinityThreshold, Summary: "Probability of keeping those that have the adapter.", Schema: probability},
			},
			New: func(name string, p *Params) (any, error) {
				f, err := filter.NewLoRAAffinity(name, p.Float("threshold"))
				if err != nil {
					p.Fault(p.At("threshold"), "threshold", "%v", err)
				}
				return f, nil
			},
		},
		{
			Name: filter.DecisionTreeType, Role: RoleFilter,
			Summary: "Runs a filter and then another one, depending on whether the first left anybody: after a success on those that are left, " +
				"after a failure on those that there were. Filters are named by pluginRef, and must be declared before the tree, or are trees themselves.",
			Parameters: []Parameter{
				{Name: treeCurrent, Summary: "The filter to run first: {pluginRef: NAME} or {decisionTree: {…}}.", Schema: treeNode, Required: true},
				{Name: treeSuccess, Summary: "What to run if it left somebody. Default: nothing.", Schema: treeNode},
				{Name: treeFailure, Summary: "What to run if it left nobody. Default: nothing.", Schema: treeNode},
				{Name: treeEither, Summary: "What to run in the cases for which the other two say nothing.", Schema: treeNode},
			},
			New: newTree,
		},
	}
}
