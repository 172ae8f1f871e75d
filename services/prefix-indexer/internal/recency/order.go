package recency

import (
	"cmp"
	"slices"
	"sync"
)

// firstUse is the time of the first use that is told here. It leaves room below for
// uses that are learned of later although they are older.
const firstUse = 1 << 32

// Order is the order of use. The zero value is empty and ready for use. Safe for
// concurrent use.
type Order struct {
	mu     sync.RWMutex
	newest uint64            // uses told here
	oldest uint64            // uses adopted
	used   map[string]uint64 // 1 and above; the greatest is the most recent
}

// Touch makes an endpoint the most recently used.
func (o *Order) Touch(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used == nil {
		o.used = make(map[string]uint64)
	}
	o.used[id] = firstUse + o.newest
	o.newest++
}

// Adopt learns of an older use: before all that is known. An endpoint that is known
// stays where it is. So an order is copied by adopting its Recent from first to last.
func (o *Order) Adopt(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.used[id]; known || o.oldest+1 >= firstUse {
		return
	}
	if o.used == nil {
		o.used = make(map[string]uint64)
	}
	o.oldest++
	o.used[id] = firstUse - o.oldest
}

// Recent returns all endpoints that are known, the most recently used first.
func (o *Order) Recent() []string {
	o.mu.RLock()
	defer o.mu.RUnlock()
	ids := make([]string, 0, len(o.used))
	for id := range o.used {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(o.used[b], o.used[a]) })
	return ids
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
	from := o.from(limit)
	for id := range ids {
		at := o.used[id]
		if at < from {
			at = 0
		}
		dst = append(dst, at)
	}
	return dst
}

// from returns the time of the limit-th most recently used, 1 if there are not so
// many.
func (o *Order) from(limit int) uint64 {
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
