package index

import "math"

// firstStamp leaves room below for placements that are learned later although they
// are older.
const firstStamp = 1 << 31

// held is what one endpoint holds in one forest. It belongs to the writer.
type held struct {
	*forest
	others  *[]*held // of the same forest, by ordinal
	ordinal uint32
	n       int // blocks
	pairs   pairs
	recency recency

	newest, oldest uint32 // stamps given
}

func newHeld(p *plot, ordinal uint32) *held {
	return &held{forest: p.forest, others: &p.held, ordinal: ordinal, newest: firstStamp, oldest: firstStamp}
}

// stamp returns the stamp of the placement that used a block last; 0 if the block is not
// held.
func (h *held) stamp(id uint32) uint32 {
	b := h.blocks.at(id)
	switch {
	case b.stamp == 0:
		return h.pairs.stamp(id)
	case holders(b.holders.Load()) == oneHolder(h.ordinal):
		return b.stamp
	}
	return 0
}

// restamp changes the stamp of a block and returns the one before; 0 if the block is not
// held.
func (h *held) restamp(id, stamp uint32) (before uint32) {
	b := h.blocks.at(id)
	switch {
	case b.stamp == 0:
		return h.pairs.restamp(id, stamp)
	case holders(b.holders.Load()) == oneHolder(h.ordinal):
		before, b.stamp = b.stamp, stamp
	}
	return before
}

// place learns a chain as the newest of all. It returns what was held of it, how many
// others had to go, and false if the chain contradicts what is known; what stands
// before the contradiction is learned. What is above capacity is left out.
func (h *held) place(chain []uint64, capacity int, tick uint32) (placed Placed, evicted int, sound bool) {
	if h.newest == math.MaxUint32 {
		h.renumber()
	}
	h.newest++
	chain = chain[:min(len(chain), capacity)]
	// What is held already is refreshed first, so that it is not what has to go.
	known, last, before := h.refresh(chain)
	placed = Placed{Mark: Mark(h.newest), Held: known, Last: Mark(before)}
	if over := h.n + len(chain) - known - capacity; over > 0 {
		evicted = h.evict(over)
	}
	end := known
	for sound = true; sound && end < len(chain); {
		var n int
		n, last, sound = h.append(chain[end:min(end+stride, len(chain))], last, capacity)
		end += n
	}
	if last != 0 {
		h.makeRoom()
		h.recency.pushNewest(placement{h.newest, last, tick})
	}
	return placed, evicted, sound
}

// refresh gives the blocks of a chain that are held the newest stamp. It returns how many
// they are, the last of them, and the stamp that this one had.
func (h *held) refresh(chain []uint64) (known int, last, before uint32) {
	var ids [stride]uint32
	for ; known < len(chain); known++ {
		if known%stride == 0 {
			ahead := chain[known:min(known+stride, len(chain))]
			h.seek(ahead, &ids)
			h.pairs.approach(ids[:len(ahead)])
		}
		id := ids[known%stride]
		if id == 0 || h.blocks.at(id).parent != last {
			break
		}
		stamp := h.restamp(id, h.newest)
		if stamp == 0 {
			break
		}
		last, before = id, stamp
	}
	return known, last, before
}

// append makes the endpoint hold at most a stride of blocks that it does not hold, after
// the block last. It returns how many it holds now and the last of them, and false if the
// next contradicts what is known.
func (h *held) append(hashes []uint64, last uint32, capacity int) (n int, _ uint32, sound bool) {
	var ids [stride]uint32
	h.seek(hashes, &ids)
	h.pairs.approach(ids[:len(hashes)])
	// Head first, so that a reader never finds a block without those before it.
	for i, hash := range hashes {
		id := h.take(ids[i], hash, last, h.newest, capacity)
		if id == 0 {
			return n, last, false
		}
		last = id
		n++
	}
	return n, last, true
}

// extend learns a piece of a chain as older than anything held: rest, which goes on
// from the block with hash parent, 0 for the beginning. What is held already stays as
// new as it is. It returns how many blocks were added; nothing has to go for them.
func (h *held) extend(parent uint64, rest []uint64, capacity int, tick uint32) (added int) {
	last := uint32(0)
	if parent != 0 {
		if last = h.find(parent); last == 0 || h.stamp(last) == 0 {
			return 0
		}
	}
	if h.oldest == 1 { // 0 is no stamp
		h.renumber()
	}
	h.oldest--
	for _, hash := range rest {
		id := h.find(hash)
		if id != 0 && h.blocks.at(id).parent != last {
			break
		}
		if id != 0 && h.stamp(id) != 0 {
			last = id
			continue
		}
		if h.n >= capacity {
			break
		}
		last = h.take(id, hash, last, h.oldest, capacity)
		added++
	}
	if added > 0 {
		h.makeRoom()
		h.recency.pushOldest(placement{h.oldest, last, tick})
	}
	return added
}

// take makes the endpoint hold a block, a new one if id is 0, and returns its id; 0 if
// the block is known after another parent.
func (h *held) take(id uint32, hash uint64, parent, stamp uint32, capacity int) uint32 {
	fresh := false
	if id == 0 {
		id, fresh = h.insert(hash, parent, h.ordinal, stamp)
	}
	if !fresh {
		b := h.blocks.at(id)
		if b.parent != parent {
			return 0
		}
		h.share(id, b, stamp, capacity)
	}
	h.n++
	h.forest.pairs++
	return id
}

// share makes the endpoint a further holder of a block.
func (h *held) share(id uint32, b *block, stamp uint32, capacity int) {
	if b.stamp != 0 {
		// There is no room for two stamps in the block, so the one goes as well.
		(*h.others)[holders(b.holders.Load()).member(0)].pairs.add(id, b.stamp, capacity)
		b.stamp = 0
		h.tabled++
	}
	h.hold(b, h.ordinal)
	h.pairs.add(id, stamp, capacity)
	h.tabled++
}

// makeRoom lets one more placement be pushed.
func (h *held) makeRoom() {
	if h.recency.full() {
		h.tidy()
	}
}

func (h *held) tidy() {
	before := len(h.recency.ring)
	h.recency.tidy(h.alive)
	h.bytes += int64(len(h.recency.ring)-before) * placementBytes
}

// alive says whether a placement owns a block.
func (h *held) alive(p *placement) bool { return h.stamp(p.leaf) == p.stamp }

// evict lets go of n blocks, of the oldest placement first and from its end, and
// returns how many there were.
func (h *held) evict(n int) (evicted int) {
	for evicted < n && h.recency.n > 0 {
		evicted += h.evictOldest(n - evicted)
	}
	return evicted
}

// evictOldest lets go of at most n blocks, and at most a stride, of the oldest placement
// from its end, and returns how many there were. Who owns nothing more is removed.
func (h *held) evictOldest(n int) (evicted int) {
	var ids [stride]uint32
	p := h.recency.at(0)
	n = min(n, stride)
	up := 0
	for id := p.leaf; up < n && id != 0; up++ {
		ids[up] = id
		id = h.blocks.at(id).parent
	}
	h.pairs.approach(ids[:up])
	for evicted < up && h.alive(p) {
		p.leaf = h.blocks.at(p.leaf).parent
		evicted++
	}
	if evicted < n || !h.alive(p) {
		h.recency.popOldest()
	}
	h.letGo(ids[:evicted])
	return evicted
}

// letGo removes the endpoint from at most a stride of blocks that it holds, and those
// that nobody holds any more.
func (h *held) letGo(ids []uint32) {
	var hashes [stride]uint64
	for i, id := range ids {
		hashes[i] = h.blocks.at(id).hash.Load()
	}
	h.approach(hashes[:len(ids)])
	gone := ids[:0]
	for _, id := range ids {
		b := h.blocks.at(id)
		if b.stamp == 0 {
			h.pairs.remove(id)
			h.tabled--
			next, old := h.slabs.without(holders(b.holders.Load()), h.ordinal)
			if next.len() > 0 {
				h.replace(b, next, old)
				continue
			}
		}
		h.unlink(id, b)
		gone = append(gone, id)
	}
	h.release(gone)
	h.n -= len(ids)
	h.forest.pairs -= int64(len(ids))
}

// forget lets go of what placements up to a stamp own and returns how many blocks that
// were.
func (h *held) forget(upTo uint32) (forgotten int) {
	for {
		if _, ok := h.oldestTick(); !ok || h.recency.at(0).stamp > upTo {
			return forgotten
		}
		forgotten += h.evictPlacement()
	}
}

// oldestTick returns the tick of the oldest placement that owns anything; false if
// nothing is held.
func (h *held) oldestTick() (uint32, bool) {
	for h.recency.n > 0 {
		if p := h.recency.at(0); h.alive(p) {
			return p.tick, true
		}
		h.recency.popOldest()
	}
	return 0, false
}

// clear lets go of everything and returns how many blocks that were.
func (h *held) clear() int {
	n := h.evict(h.n)
	h.bytes -= int64(len(h.recency.ring)) * placementBytes
	h.pairs, h.recency = pairs{}, recency{}
	h.ordinal = MaxEndpoints // nobody's: an export still asks, and another may get the ordinal
	return n
}

// renumber gives the placements new stamps, since they ran out.
func (h *held) renumber() {
	h.tidy()
	// All are counted before any is changed: a new stamp may be an old one of another.
	owned := make([]int, h.recency.n)
	for i := range owned {
		p := h.recency.at(i)
		for id := p.leaf; id != 0 && h.stamp(id) == p.stamp; id = h.blocks.at(id).parent {
			owned[i]++
		}
	}
	stamp := uint32(firstStamp - h.recency.n)
	h.oldest = stamp
	for i, n := range owned {
		stamp++
		p := h.recency.at(i)
		p.stamp = stamp
		for id := p.leaf; n > 0; n-- {
			h.restamp(id, stamp)
			id = h.blocks.at(id).parent
		}
	}
	h.newest = stamp
}
