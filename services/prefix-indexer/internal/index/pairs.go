package index

const (
	// pairBytes is what one pair is charged: 8 bytes at the fill of a full table.
	pairBytes = 10
	// soleBytes is what the holder of a block that nobody else holds is charged, although
	// it takes nothing: so there is always room for some pairs, whatever was held first.
	soleBytes = 4
	leastPair = 16 // slots of the smallest table
)

// pairs maps blocks that an endpoint holds, and that others hold or have held too, to the
// stamp of the placement that used them last. Open addressing in one array: block in the high half, stamp in the
// low half, 0 is free.
type pairs struct {
	slots []uint64
	n     int
}

func (p *pairs) home(id uint32) int {
	return int(uint64(id*0x9e3779b1) * uint64(len(p.slots)) >> 32)
}

// approach looks at where blocks are: see stride.
func (p *pairs) approach(ids []uint32) (seen uint64) {
	if p.n == 0 {
		return 0
	}
	for _, id := range ids {
		seen |= p.slots[p.home(id)]
	}
	return seen
}

// find returns the slot of a block, or -1.
func (p *pairs) find(id uint32) int {
	if p.n == 0 {
		return -1
	}
	for i := p.home(id); ; i++ {
		if i == len(p.slots) {
			i = 0
		}
		switch s := p.slots[i]; {
		case s == 0:
			return -1
		case uint32(s>>32) == id:
			return i
		}
	}
}

// stamp returns the stamp of a block; 0 if it is not there.
func (p *pairs) stamp(id uint32) uint32 {
	i := p.find(id)
	if i < 0 {
		return 0
	}
	return uint32(p.slots[i])
}

// restamp changes the stamp of a block and returns the one before; 0 if it is not there.
func (p *pairs) restamp(id, stamp uint32) (before uint32) {
	i := p.find(id)
	if i < 0 {
		return 0
	}
	before = uint32(p.slots[i])
	p.slots[i] = uint64(id)<<32 | uint64(stamp)
	return before
}

// add puts in a block that is not there. limit is the most there will ever be, by
// which the table does not grow too far.
func (p *pairs) add(id, stamp uint32, limit int) {
	if (p.n+1)*5 > len(p.slots)*4 {
		size := len(p.slots) + len(p.slots)/2
		if full := limit + limit/4 + 1; size > full && (p.n+1)*5 <= full*4 {
			size = full
		}
		p.resize(max(size, leastPair))
	}
	p.put(uint64(id)<<32 | uint64(stamp))
	p.n++
}

func (p *pairs) put(slot uint64) {
	i := p.home(uint32(slot >> 32))
	for p.slots[i] != 0 {
		if i++; i == len(p.slots) {
			i = 0
		}
	}
	p.slots[i] = slot
}

// remove takes out a block, which must be there, and closes the gap.
func (p *pairs) remove(id uint32) {
	gap := p.find(id)
	for i := gap; ; {
		if i++; i == len(p.slots) {
			i = 0
		}
		s := p.slots[i]
		if s == 0 {
			break
		}
		// s may move to the gap unless its home is after the gap.
		home := p.home(uint32(s >> 32))
		if gap <= i && gap < home && home <= i || gap > i && (gap < home || home <= i) {
			continue
		}
		p.slots[gap] = s
		gap = i
	}
	p.slots[gap] = 0
	if p.n--; p.n*5 < len(p.slots)*2 && len(p.slots) > 4*leastPair {
		p.resize(p.n*5/3 + 1)
	}
}

func (p *pairs) resize(size int) {
	old := p.slots
	p.slots = make([]uint64, size)
	for _, s := range old {
		if s != 0 {
			p.put(s)
		}
	}
}
