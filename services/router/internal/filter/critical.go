package filter

import (
	"fmt"
	"slices"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Type names of the filters that go by which models are critical.
const (
	CriticalModelType     = "critical-model-filter"
	SheddableCapacityType = "sheddable-capacity-filter"
)

// Thresholds of SheddableCapacity if none are configured.
const (
	DefaultSheddableQueue = 5
	DefaultSheddableKV    = 0.8
)

// CriticalModel keeps every candidate of a request for a critical model and none of any
// other: it is a question for a decision tree.
type CriticalModel struct {
	name   string
	models []string // sorted
}

// NewCriticalModel returns the filter. Models are names as clients write them.
func NewCriticalModel(name string, models []string) *CriticalModel {
	return &CriticalModel{name: name, models: slices.Sorted(slices.Values(models))}
}

// Name returns the plug-in's name in the configuration.
func (f *CriticalModel) Name() string { return f.name }

// Filter implements route.Filter.
func (f *CriticalModel) Filter(c *route.Cycle, in []int32) []int32 {
	if critical(c.Request, f.models) {
		return in
	}
	return in[:0]
}

// critical tells whether a request is for one of the models.
func critical(r *route.Request, models []string) bool {
	_, found := slices.BinarySearch(models, r.AskedModel())
	return found
}

// SheddableCapacity keeps, for a request that is not critical, the candidates with at
// most so many waiting requests and so much of their KV cache in use. For a critical one
// it keeps all.
type SheddableCapacity struct {
	name   string
	models []string // sorted
	queue  int64
	kv     float64
}

// NewSheddableCapacity returns the filter. It is an error if queue, in requests, is
// negative, or kv is no share.
func NewSheddableCapacity(name string, models []string, queue int, kv float64) (*SheddableCapacity, error) {
	if queue < 0 {
		return nil, fmt.Errorf("queueThreshold %d is negative", queue)
	}
	if !(kv >= 0 && kv <= 1) {
		return nil, fmt.Errorf("kvCacheThreshold %v is no share: it must be between 0 and 1", kv)
	}
	return &SheddableCapacity{name: name, models: slices.Sorted(slices.Values(models)), queue: int64(queue), kv: kv}, nil
}

// Name returns the plug-in's name in the configuration.
func (f *SheddableCapacity) Name() string { return f.name }

// FiltersLoad marks the filter as a route.LoadFilter.
func (f *SheddableCapacity) FiltersLoad() {}

// Filter implements route.Filter.
func (f *SheddableCapacity) Filter(c *route.Cycle, in []int32) []int32 {
	if critical(c.Request, f.models) {
		return in
	}
	return keep(in, func(pos int32) bool {
		q, queued := expectedQueue(c, pos)
		kv, used := expectedKV(c, pos)
		return (!queued || q <= f.queue) && (!used || float32(kv) <= float32(f.kv))
	})
}
