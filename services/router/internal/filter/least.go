package filter

import (
	"math"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Type names of the filters that keep the least loaded.
const (
	LeastQueueType = "least-queue-filter"
	LeastKVType    = "least-kv-cache-filter"
)

// LeastQueue keeps the candidates in the lowest part of the range of queue lengths,
// cut into as many parts as there are candidates: q ≤ min + (max−min)/n in whole
// numbers. Queues of 0, 3 and 10 leave those of 0 and 3.
type LeastQueue struct{ name string }

// NewLeastQueue returns the filter.
func NewLeastQueue(name string) *LeastQueue { return &LeastQueue{name: name} }

// Name returns the plug-in's name in the configuration.
func (f *LeastQueue) Name() string { return f.name }

// FiltersLoad marks the filter as a route.LoadFilter.
func (f *LeastQueue) FiltersLoad() {}

// Filter implements route.Filter.
func (f *LeastQueue) Filter(c *route.Cycle, in []int32) []int32 {
	least, most, known := int64(math.MaxInt64), int64(math.MinInt64), int64(0)
	leastAt := int32(-1)
	for _, pos := range in {
		q, ok := expectedQueue(c, pos)
		if !ok {
			continue
		}
		if q < least {
			least, leastAt = q, pos
		}
		most, known = max(most, q), known+1
	}
	if known == 0 {
		return in
	}
	bound := least + (most-least)/known
	return keep(in, func(pos int32) bool {
		// Credit is live and may have grown since: somebody must stay all the same.
		q, ok := expectedQueue(c, pos)
		return !ok || q <= bound || pos == leastAt
	})
}

// LeastKV keeps the candidates in the lowest part of the range of KV-cache usage,
// cut into as many parts as there are candidates: kv ≤ min + (max−min)/n.
type LeastKV struct{ name string }

// NewLeastKV returns the filter.
func NewLeastKV(name string) *LeastKV { return &LeastKV{name: name} }

// Name returns the plug-in's name in the configuration.
func (f *LeastKV) Name() string { return f.name }

// FiltersLoad marks the filter as a route.LoadFilter.
func (f *LeastKV) FiltersLoad() {}

// Filter implements route.Filter.
func (f *LeastKV) Filter(c *route.Cycle, in []int32) []int32 {
	least, most, known := math.Inf(1), math.Inf(-1), 0
	leastAt := int32(-1)
	for _, pos := range in {
		kv, ok := expectedKV(c, pos)
		if !ok {
			continue
		}
		if kv < least {
			least, leastAt = kv, pos
		}
		most, known = max(most, kv), known+1
	}
	if known == 0 {
		return in
	}
	bound := least + (most-least)/float64(known)
	return keep(in, func(pos int32) bool {
		kv, ok := expectedKV(c, pos)
		return !ok || kv <= bound || pos == leastAt
	})
}
