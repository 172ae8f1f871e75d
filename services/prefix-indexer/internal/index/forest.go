package index

import (
	"math/bits"
	"sync/atomic"
)

const (
	// stripes is how many parts of a forest change independently for its readers.
	stripes = 1024

	// stride is how many blocks are changed in one go. Their memory is looked at before,
	// one look-up independent of the next, so that the processor waits for all of them
	// together; a change, being atomic, would make it wait for each.
	stride = 64

	blockBytes  = 24
	bucketBytes = 4
)

// block is one prompt block that somebody holds. Fields without atomic access belong
// to the writer.
type block struct {
	hash    atomic.Uint64
	holders atomic.Uint64 // a holders
	next    atomic.Uint32 // in the bucket; 0: none
	parent  uint32        // 0: the block begins a prompt; of a free block, the next free one
}

// stripe counts the changes that could mislead a reader; odd while one is made. It
// has a cache line to itself.
type stripe struct {
	changes atomic.Uint32
	_       [60]byte
}

// forest is all blocks of one scheme and block size. One writer at a time; readers
// take no lock: see read.
//
// Blocks are found by linear hashing: with every block above one per bucket, one
// bucket is split, so the table never has to be rebuilt. A bucket and those split
// off from it are in one stripe.
type forest struct {
	stripes [stripes]stripe
	blocks  arena[block]
	heads   arena[atomic.Uint32]
	buckets atomic.Uint32 // in use
	slabs   slabs

	live  uint32 // blocks in use
	used  uint32 // blocks ever used, plus one: 0 is no block
	spare uint32 // first free block; 0: none

	pairs int64 // (block, holder)
	bytes int64 // taken from the heap, apart from pairs
}

func newForest() *forest {
	f := &forest{used: 1}
	f.blocks.init()
	f.heads.init()
	f.slabs.init()
	f.blocks.grow()
	f.heads.grow()
	f.bytes = chunkLen*(blockBytes+bucketBytes) + stripes*64
	f.buckets.Store(stripes)
	return f
}

// mix spreads hashes of schemes whose low bits are not random.
func mix(hash uint64) uint64 {
	hash *= 0x9e3779b97f4a7c15
	return hash ^ hash>>32
}

// bucket returns where a mixed hash belongs.
func (f *forest) bucket(mixed uint64) uint32 {
	n := f.buckets.Load()
	mask := uint32(1)<<bits.Len32(n-1) - 1
	at := uint32(mixed) & mask
	if at >= n {
		at &= mask >> 1
	}
	return at
}

// find returns the block with the hash, or 0. For the writer.
func (f *forest) find(hash uint64) uint32 {
	id := f.heads.at(f.bucket(mix(hash))).Load()
	for id != 0 {
		b := f.blocks.at(id)
		if b.hash.Load() == hash {
			return id
		}
		id = b.next.Load()
	}
	return 0
}

// approach looks at where blocks are, or would be: at their buckets and the first two
// blocks in them, few have more. For the writer.
func (f *forest) approach(hashes []uint64) {
	var ids [stride]uint32
	heads, mask, n := *f.heads.chunks.Load(), f.mask(), f.buckets.Load()
	for i, hash := range hashes {
		at := uint32(mix(hash)) & mask
		if at >= n {
			at &= mask >> 1
		}
		ids[i] = heads[at>>chunkBits][at&(chunkLen-1)].Load()
	}
	blocks := *f.blocks.chunks.Load()
	for i, id := range ids[:len(hashes)] {
		ids[i] = blocks[id>>chunkBits][id&(chunkLen-1)].next.Load()
	}
	for _, id := range ids[:len(hashes)] {
		blocks[id>>chunkBits][id&(chunkLen-1)].next.Load()
	}
}

func (f *forest) mask() uint32 { return uint32(1)<<bits.Len32(f.buckets.Load()-1) - 1 }

// letGoAll removes a holder from at most a stride of blocks, as letGo does.
func (f *forest) letGoAll(ids []uint32, ordinal uint32) {
	var hashes [stride]uint64
	for i, id := range ids {
		hashes[i] = f.blocks.at(id).hash.Load()
	}
	f.approach(hashes[:len(ids)])
	for _, id := range ids {
		f.letGo(id, ordinal)
	}
}

// insert adds a block with its first holder.
func (f *forest) insert(hash uint64, parent, ordinal uint32) uint32 {
	id := f.spare
	if id != 0 {
		f.spare = f.blocks.at(id).parent
	} else {
		if f.used == f.blocks.len() {
			f.blocks.grow()
			f.bytes += chunkLen * blockBytes
		}
		id = f.used
		f.used++
	}
	f.live++
	if f.live > f.buckets.Load() {
		f.splitBucket()
	}
	b := f.blocks.at(id)
	b.hash.Store(hash)
	b.holders.Store(uint64(oneHolder(ordinal)))
	b.parent = parent
	head := f.heads.at(f.bucket(mix(hash)))
	b.next.Store(head.Load())
	head.Store(id) // the one store by which readers come to see it
	return id
}

// approachSplits looks at the buckets that will be split when k blocks more are added.
func (f *forest) approachSplits(k uint32) {
	n := f.buckets.Load()
	if f.live+k <= n {
		return
	}
	level := uint32(1) << (bits.Len32(n) - 1)
	k = min(f.live+k-n, stride, 2*level-n)
	var ids [stride]uint32
	for i := range k {
		ids[i] = f.heads.at(n - level + i).Load()
	}
	for range 2 {
		for i := range k {
			ids[i] = f.blocks.at(ids[i]).next.Load()
		}
	}
}

// splitBucket moves the blocks that belong there into one new bucket.
func (f *forest) splitBucket() {
	n := f.buckets.Load()
	if n == f.heads.len() {
		f.heads.grow()
		f.bytes += chunkLen * bucketBytes
	}
	level := uint32(1) << (bits.Len32(n) - 1)
	from, to := f.heads.at(n-level), f.heads.at(n)
	s := &f.stripes[n%stripes].changes
	s.Add(1)
	var stay, move uint32
	for id := from.Load(); id != 0; {
		b := f.blocks.at(id)
		next := b.next.Load()
		if uint32(mix(b.hash.Load()))&(2*level-1) == n {
			b.next.Store(move)
			move = id
		} else {
			b.next.Store(stay)
			stay = id
		}
		id = next
	}
	from.Store(stay)
	to.Store(move)
	f.buckets.Store(n + 1)
	s.Add(1)
}

// hold adds a holder, which must not be one, to a block.
func (f *forest) hold(id, ordinal uint32) {
	b := f.blocks.at(id)
	next, old, grown := f.slabs.with(holders(b.holders.Load()), ordinal)
	f.bytes += grown
	f.replace(b, next, old)
}

// letGo removes a holder, which must be one, and the block with its last holder.
func (f *forest) letGo(id, ordinal uint32) {
	b := f.blocks.at(id)
	next, old := f.slabs.without(holders(b.holders.Load()), ordinal)
	if next.len() > 0 {
		f.replace(b, next, old)
		return
	}
	f.unlink(id, b)
}

// replace puts a set in place of another, whose bitmap is then free.
func (f *forest) replace(b *block, next, old holders) {
	if old == 0 {
		b.holders.Store(uint64(next))
		return
	}
	s := &f.stripes[mix(b.hash.Load())%stripes].changes
	s.Add(1)
	b.holders.Store(uint64(next))
	f.slabs.release(old.class(), old.slab())
	s.Add(1)
}

// unlink takes a block out of its bucket and frees it.
func (f *forest) unlink(id uint32, b *block) {
	mixed := mix(b.hash.Load())
	s := &f.stripes[mixed%stripes].changes
	s.Add(1)
	at := f.heads.at(f.bucket(mixed))
	for at.Load() != id {
		at = &f.blocks.at(at.Load()).next
	}
	at.Store(b.next.Load())
	s.Add(1)
	b.parent, f.spare = f.spare, id
	f.live--
}

// room returns how many blocks can be added before more memory is needed.
func (f *forest) room() uint32 { return f.blocks.len() - 1 - f.live }
