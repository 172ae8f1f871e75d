package engine

const none = int32(-1)

// block is one KV-cache block. A block with no references is in the free list, and may still hold a prefix.
type block struct {
	hash       uint64
	refs       int32
	prev, next int32 // in the free list, none at its ends
	hashed     bool  // byHash[hash] is this block
}

// blockPool owns all blocks. The free list is in order of eviction: blocks that hold nothing come first, then cached
// ones, the least recently released first.
type blockPool struct {
	blocks     []block
	byHash     map[uint64]int32
	head, tail int32
	free       int
}

func newBlockPool(n int) *blockPool {
	p := &blockPool{blocks: make([]block, n), byHash: make(map[uint64]int32), head: none, tail: none}
	for i := range p.blocks {
		p.pushBack(int32(i))
	}
	return p
}

// match returns how many of hashes, from the first on, are cached, and how many of those blocks are in the free list.
func (p *blockPool) match(hashes []uint64) (matched, idle int) {
	for _, h := range hashes {
		b, ok := p.byHash[h]
		if !ok {
			break
		}
		matched++
		if p.blocks[b].refs == 0 {
			idle++
		}
	}
	return matched, idle
}

// share appends the cached blocks of hashes, all of which must be cached, to held and takes a reference on each.
func (p *blockPool) share(hashes []uint64, held []int32) []int32 {
	for _, h := range hashes {
		b := p.byHash[h]
		if p.blocks[b].refs == 0 {
			p.unlink(b)
		}
		p.blocks[b].refs++
		held = append(held, b)
	}
	return held
}

// take appends n blocks from the free list, which must hold as many, to held. What they cached is lost.
func (p *blockPool) take(n int, held []int32) []int32 {
	for range n {
		i := p.head
		p.unlink(i)
		p.forget(i)
		p.blocks[i].refs = 1
		held = append(held, i)
	}
	return held
}

// store makes a block findable by the hash of its contents, unless another block already is.
func (p *blockPool) store(i int32, hash uint64) {
	b := &p.blocks[i]
	if b.hashed {
		return
	}
	if _, taken := p.byHash[hash]; taken {
		return
	}
	b.hash, b.hashed = hash, true
	p.byHash[hash] = i
}

// release gives up one reference on each of held. Last ones go first, so that the end of a prefix is evicted before its
// beginning.
func (p *blockPool) release(held []int32) {
	for k := len(held) - 1; k >= 0; k-- {
		i := held[k]
		b := &p.blocks[i]
		b.refs--
		switch {
		case b.refs > 0:
		case b.hashed:
			p.pushBack(i)
		default:
			p.pushFront(i)
		}
	}
}

// reset forgets every cached prefix. Blocks in use stay with their holders.
func (p *blockPool) reset() {
	clear(p.byHash)
	for i := range p.blocks {
		p.blocks[i].hashed = false
	}
}

// used is the number of blocks with references.
func (p *blockPool) used() int { return len(p.blocks) - p.free }

func (p *blockPool) forget(i int32) {
	b := &p.blocks[i]
	if b.hashed {
		delete(p.byHash, b.hash)
		b.hashed = false
	}
}

func (p *blockPool) pushBack(i int32) {
	b := &p.blocks[i]
	b.prev, b.next = p.tail, none
	if p.tail == none {
		p.head = i
	} else {
		p.blocks[p.tail].next = i
	}
	p.tail = i
	p.free++
}

func (p *blockPool) pushFront(i int32) {
	b := &p.blocks[i]
	b.prev, b.next = none, p.head
	if p.head == none {
		p.tail = i
	} else {
		p.blocks[p.head].prev = i
	}
	p.head = i
	p.free++
}

func (p *blockPool) unlink(i int32) {
	b := &p.blocks[i]
	if b.prev == none {
		p.head = b.next
	} else {
		p.blocks[b.prev].next = b.next
	}
	if b.next == none {
		p.tail = b.prev
	} else {
		p.blocks[b.next].prev = b.prev
	}
	p.free--
}
