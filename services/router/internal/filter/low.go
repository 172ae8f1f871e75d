package filter

import (
	"fmt"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// LowQueueType is the type name of LowQueue.
const LowQueueType = "low-queue-filter"

// DefaultQueueThreshold is LowQueue's threshold if none is configured.
const DefaultQueueThreshold = 128

// LowQueue keeps the candidates with at most so many waiting requests. It may leave
// nobody.
type LowQueue struct {
	name      string
	threshold int64
}

// NewLowQueue returns the filter. It is an error if the threshold, in requests, is
// negative.
func NewLowQueue(name string, threshold int) (*LowQueue, error) {
	if threshold < 0 {
		return nil, fmt.Errorf("threshold %d is negative", threshold)
	}
	return &LowQueue{name: name, threshold: int64(threshold)}, nil
}

// Name returns the plug-in's name in the configuration.
func (f *LowQueue) Name() string { return f.name }

// FiltersLoad marks the filter as a route.LoadFilter.
func (f *LowQueue) FiltersLoad() {}

// Filter implements route.Filter.
func (f *LowQueue) Filter(c *route.Cycle, in []int32) []int32 {
	return keep(in, func(pos int32) bool {
		q, ok := expectedQueue(c, pos)
		return !ok || q <= f.threshold
	})
}
