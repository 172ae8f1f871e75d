package filter

import "github.com/pointsman/pointsman/services/router/internal/route"

// LoRACostType is the type name of LoRACost.
const LoRACostType = "lora-cost-filter"

// LoRACost drops the candidates that would have to make room for the request's adapter:
// those that do not have it, and whose slots are all taken. Without adapter figures a
// candidate is kept. If that is all of them, nobody stays.
type LoRACost struct{ name string }

// NewLoRACost returns the filter.
func NewLoRACost(name string) *LoRACost { return &LoRACost{name: name} }

// Name returns the plug-in's name in the configuration.
func (f *LoRACost) Name() string { return f.name }

// FiltersLoad marks the filter as a route.LoadFilter.
func (f *LoRACost) FiltersLoad() {}

// Filter implements route.Filter.
func (f *LoRACost) Filter(c *route.Cycle, in []int32) []int32 {
	adapter := c.Request.Adapter
	if adapter == "" {
		adapter = c.Request.Model
	}
	return keep(in, func(pos int32) bool { return groupOf(c, pos, adapter) != full })
}
