package recency

import (
	"slices"
	"sync"
)

// Order is the order of use. The zero value is empty and ready for use. Safe for
// concurrent use.
type Order struct {
	mu   sync.RWMutex
	last uint64
	used map[string]uint64 // 1 and above; the greatest is the most recent
}

// Touch makes an endpoint the most recently used.
func (o *Order) Touch(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used == nil {
		o.used = make(map[string]uint64)
	}
	o.last++
	o.used[id] = o.last
}

// Keep forgets all but these endpoints.
func (o *Order) Keep(ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.used) == 0 {
		return
	}
	kept := make(map[string]uint64, len(o.used))
	for _, id := range ids {
		if at, ok := o.used[id]; ok {
			kept[id] = at
		}
	}
	o.used = kept
}

// Ranks appends, for each endpoint, when it was last used: the greater the later, 0 if
// never or if at least limit endpoints were used later.
func (o *Order) Ranks(dst []uint64, limit int, ids func(yield func(id string) bool)) []uint64 {
	o.mu.RLock()
	defer o.mu.RUnlock()
	from := o.oldest(limit)
	for id := range ids {
		at := o.used[id]
		if at < from {
			at = 0
		}
		dst = append(dst, at)
	}
	return dst
}

// oldest returns the time of the limit-th most recently used, 1 if there are not so
// many.
func (o *Order) oldest(limit int) uint64 {
	if len(o.used) <= limit {
		return 1
	}
	times := make([]uint64, 0, len(o.used))
	for _, at := range o.used {
		times = append(times, at)
	}
	slices.Sort(times)
	return times[len(times)-limit]
}
