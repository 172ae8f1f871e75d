package index

import "container/heap"

// slackShift makes a sweep free this part of the budget (1/1024) beyond what is
// needed, so that not every placement needs a sweep.
const slackShift = 10

// bytes is what all entries are charged. Blocks, tables and bitmaps count as taken
// from the heap, since they are used again but never given back.
func (x *Index) bytes() int64 {
	var n int64
	for _, p := range *x.forests.Load() {
		n += p.bytes + p.pairs*soleBytes + p.tabled*(pairBytes-soleBytes)
	}
	return n
}

// after returns what all entries will be charged with a chain of n blocks more.
func (x *Index) after(p *plot, n int) int64 {
	// At worst, each block has a stamp in pairs now, and so has who held it alone.
	b := x.bytes() + int64(n)*(2*pairBytes-soleBytes)
	if int(p.room()) < n {
		b += chunkLen*blockBytes + int64(n)*entryBytes
	}
	return b
}

func (x *Index) fits(p *plot, n int) bool { return x.after(p, n) <= x.cfg.MaxBytes }

// makeRoom lets go of the coldest entries until a chain of n blocks fits.
func (x *Index) makeRoom(p *plot, n int) {
	if x.fits(p, n) {
		return
	}
	coldest := x.byAge()
	for coldest.Len() > 0 && x.after(p, n) > x.cfg.MaxBytes-x.cfg.MaxBytes>>slackShift {
		c := &coldest[0]
		x.evicted.Memory += uint64(c.evictPlacement())
		if tick, ok := c.oldestTick(); ok {
			c.age = x.tick() - tick
			heap.Fix(&coldest, 0)
		} else {
			heap.Pop(&coldest)
		}
	}
}

// evictPlacement lets go of what the oldest placement owns.
func (h *held) evictPlacement() (evicted int) {
	if _, ok := h.oldestTick(); !ok {
		return 0
	}
	stamp := h.recency.at(0).stamp
	for h.recency.n > 0 && h.recency.at(0).stamp == stamp {
		evicted += h.evictOldest(stride)
	}
	return evicted
}

// aged is what an endpoint holds with the age of its oldest placement, in ticks.
type aged struct {
	*held
	age uint32
}

// ages is a heap, the oldest first.
type ages []aged

func (a ages) Len() int           { return len(a) }
func (a ages) Less(i, j int) bool { return a[i].age > a[j].age }
func (a ages) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *ages) Push(v any) { *a = append(*a, v.(aged)) }

// Pop implements heap.Interface.
func (a *ages) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

func (x *Index) byAge() ages {
	var a ages
	for _, p := range *x.forests.Load() {
		for _, h := range p.held {
			if h == nil {
				continue
			}
			if tick, ok := h.oldestTick(); ok {
				a = append(a, aged{h, x.tick() - tick})
			}
		}
	}
	heap.Init(&a)
	return a
}
