package index

import (
	"math"
	"slices"
)

// firstStamp leaves room below for placements that are learned later although they
// are older.
const firstStamp = 1 << 31

// held is what one endpoint holds in one forest. It belongs to the writer.
type held struct {
	forest  *forest
	ordinal uint32
	pairs   pairs
	recency recency

	newest, oldest uint32 // stamps given
}

func newHeld(f *forest, ordinal uint32) *held {
	return &held{forest: f, ordinal: ordinal, newest: firstStamp, oldest: firstStamp}
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
	f, last := h.forest, uint32(0)
	// What is held already is refreshed first, so that it is not what has to go.
	known, before := 0, uint32(0)
	for ; known < len(chain); known++ {
		if known%stride == 0 {
			f.approach(chain[known:min(known+stride, len(chain))])
		}
		id := f.find(chain[known])
		if id == 0 || f.blocks.at(id).parent != last {
			break
		}
		stamp := h.pairs.refresh(id, h.newest)
		if stamp == 0 {
			break
		}
		last, before = id, stamp
	}
	placed = Placed{Mark: Mark(h.newest), Held: known, Last: Mark(before)}
	if over := h.pairs.n + len(chain) - known - capacity; over > 0 {
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

// append makes the endpoint hold at most a stride of blocks that it does not hold, after
// the block last. It returns how many it holds now and the last of them, and false if the
// next contradicts what is known.
func (h *held) append(hashes []uint64, last uint32, capacity int) (n int, _ uint32, sound bool) {
	var ids [stride]uint32
	f := h.forest
	f.approach(hashes)
	f.approachSplits(uint32(len(hashes)))
	// Head first, so that a reader never finds a block without those before it.
	for _, hash := range hashes {
		id := f.find(hash)
		switch {
		case id == 0:
			id = f.insert(hash, last, h.ordinal)
		case f.blocks.at(id).parent != last:
			h.own(ids[:n], capacity)
			return n, last, false
		default:
			f.hold(id, h.ordinal)
		}
		ids[n], last = id, id
		n++
	}
	h.own(ids[:n], capacity)
	return n, last, true
}

// own notes blocks that the endpoint has come to hold by the newest placement.
func (h *held) own(ids []uint32, capacity int) {
	for _, id := range ids {
		h.pairs.add(id, h.newest, capacity)
	}
	h.forest.pairs += int64(len(ids))
}

// extend learns a piece of a chain as older than anything held: rest, which goes on
// from the block with hash parent, 0 for the beginning. What is held already stays as
// new as it is. It returns how many blocks were added; nothing has to go for them.
func (h *held) extend(parent uint64, rest []uint64, capacity int, tick uint32) (added int) {
	f, last := h.forest, uint32(0)
	if parent != 0 {
		if last = f.find(parent); last == 0 || h.pairs.find(last) < 0 {
			return 0
		}
	}
	if h.oldest == 0 {
		h.renumber()
	}
	h.oldest--
	for _, hash := range rest {
		id := f.find(hash)
		if id != 0 && f.blocks.at(id).parent != last {
			break
		}
		if id != 0 && h.pairs.find(id) >= 0 {
			last = id
			continue
		}
		if h.pairs.n >= capacity {
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

// take makes the endpoint hold a block, a new one if id is 0, and returns its id.
func (h *held) take(id uint32, hash uint64, parent, stamp uint32, capacity int) uint32 {
	if id == 0 {
		id = h.forest.insert(hash, parent, h.ordinal)
	} else {
		h.forest.hold(id, h.ordinal)
	}
	h.pairs.add(id, stamp, capacity)
	h.forest.pairs++
	return id
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
	h.forest.bytes += int64(len(h.recency.ring)-before) * placementBytes
}

// alive says whether a placement owns a block.
func (h *held) alive(p *placement) bool {
	stamp, ok := h.pairs.stamp(p.leaf)
	return ok && stamp == p.stamp
}

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
		id = h.forest.blocks.at(id).parent
	}
	h.pairs.approach(ids[:up])
	for evicted < up && h.alive(p) {
		p.leaf = h.forest.blocks.at(p.leaf).parent
		evicted++
	}
	if evicted < n || !h.alive(p) {
		h.recency.popOldest()
	}
	for _, id := range ids[:evicted] {
		h.pairs.remove(id)
	}
	h.forest.letGoAll(ids[:evicted], h.ordinal)
	h.forest.pairs -= int64(evicted)
	return evicted
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
	n := h.pairs.n
	ids := make([]uint32, 0, n)
	for _, s := range h.pairs.slots {
		if s != 0 {
			ids = append(ids, uint32(s>>32))
		}
	}
	// Not in the order of the slots: blocks are used again in the order they are freed
	// in, and those of neighbouring slots would all crowd one part of the next table.
	slices.Sort(ids)
	for _, id := range slices.Backward(ids) {
		h.forest.letGo(id, h.ordinal)
	}
	h.forest.pairs -= int64(n)
	h.forest.bytes -= int64(len(h.recency.ring)) * placementBytes
	h.pairs, h.recency = pairs{}, recency{}
	return n
}

// renumber gives the placements new stamps, since they ran out.
func (h *held) renumber() {
	h.tidy()
	fresh := pairs{slots: make([]uint64, len(h.pairs.slots))}
	stamp := uint32(firstStamp - h.recency.n)
	h.oldest = stamp
	for i := range h.recency.n {
		stamp++
		p := h.recency.at(i)
		for id := p.leaf; id != 0; id = h.forest.blocks.at(id).parent {
			if s, ok := h.pairs.stamp(id); !ok || s != p.stamp {
				break
			}
			fresh.put(uint64(id)<<32 | uint64(stamp))
			fresh.n++
		}
		p.stamp = stamp
	}
	h.newest = stamp
	h.pairs = fresh
}
