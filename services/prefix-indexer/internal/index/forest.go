package index

import "sync/atomic"

const (
	// stride is how many blocks are changed in one go. Their memory is looked at before,
	// one look-up independent of the next, so that the processor waits for all of them
	// together; a change, being atomic, would make it wait for each.
	stride = 64

	blockBytes = 24
	// entryBytes is what one block takes in the tables, on average.
	entryBytes = 13
)

// block is one prompt block that somebody holds. Fields without atomic access belong
// to the writer.
type block struct {
	hash    atomic.Uint64
	holders atomic.Uint64 // a holders
	parent  uint32        // 0: the block begins a prompt; of a free block, the next free one
	// stamp is that of its only holder; 0: stamps are in the holders' pairs.
	stamp uint32
}

// forest is all blocks of one scheme and block size. One writer at a time; readers
// take no lock: see split.
type forest struct {
	// generation counts the times that a reader could be misled: a block or bitmap that
	// it looks at is about to be used for something else, or an entry has moved from
	// where it will look to where it has looked. It has a cache line to itself.
	_          [lineBytes]byte
	generation atomic.Uint64
	_          [lineBytes - 8]byte

	shards [shards]shard
	blocks arena[block]
	slabs  slabs

	live  uint32 // blocks in use
	used  uint32 // blocks ever used, plus one: 0 is no block
	spare uint32 // first free block; 0: none

	pairs  int64 // (block, holder)
	tabled int64 // those whose stamps are in pairs
	bytes  int64 // taken from the heap, apart from pairs
}

func newForest() *forest {
	f := &forest{used: 1}
	f.blocks.init()
	f.slabs.init()
	f.blocks.grow()
	first := make([]line, shards) // one each
	headers := make([][]line, shards)
	for i := range f.shards {
		headers[i] = first[i : i+1 : i+1]
		f.shards[i].lines.Store(&headers[i])
	}
	f.bytes = chunkLen*blockBytes + shards*lineBytes
	return f
}

// find returns the block with the hash, or 0. For the writer.
func (f *forest) find(hash uint64) uint32 {
	mixed := mix(hash)
	id, _, _ := f.locate(*f.shards[mixed%shards].lines.Load(), tagOf(mixed), hash)
	return id
}

// locate returns the block with the hash; or 0 and where its entry can be put.
func (f *forest) locate(lines []line, tag uint32, hash uint64) (id uint32, l *line, free int) {
	for at := home(lines, tag); ; at = after(lines, at) {
		l = &lines[at]
		id, free = l.scan(tag)
		if id != 0 {
			id = f.pick(l, id, tag, hash)
		}
		if id != 0 || free >= 0 {
			return id, l, free
		}
	}
}

// pick returns the block of a line with the hash, 0 if there is none. id is one with its
// tag, and nearly always the only one.
func (f *forest) pick(l *line, id, tag uint32, hash uint64) uint32 {
	if f.blocks.at(id).hash.Load() == hash {
		return id
	}
	for i := range l {
		e := atomic.LoadUint64(&l[i])
		if id := uint32(e); id != 0 && uint32(e>>32) == tag && f.blocks.at(id).hash.Load() == hash {
			return id
		}
	}
	return 0
}

// seek finds at most a stride of hashes, 0 for those that are not there. For the writer.
func (f *forest) seek(hashes []uint64, ids *[stride]uint32) {
	var homes [stride]*line
	for i, hash := range hashes {
		mixed := mix(hash)
		lines := *f.shards[mixed%shards].lines.Load()
		homes[i&(stride-1)] = &lines[home(lines, tagOf(mixed))]
		atomic.LoadUint64(&homes[i&(stride-1)][0])
	}
	var further uint64 // those that may be in another line, by bit
	for i, hash := range hashes {
		tag := tagOf(mix(hash))
		id, free := homes[i&(stride-1)].scan(tag)
		if free < 0 {
			further |= 1 << i
			f.approachNext(mix(hash))
		}
		ids[i&(stride-1)] = id
	}
	blocks := *f.blocks.chunks.Load()
	for i, hash := range hashes {
		id := ids[i&(stride-1)]
		if id != 0 && blocks[id>>chunkBits][id&(chunkLen-1)].hash.Load() != hash || id == 0 && further>>i&1 != 0 {
			ids[i&(stride-1)] = f.find(hash)
		}
	}
}

// approach looks at where blocks are found: see stride.
func (f *forest) approach(hashes []uint64) {
	var homes [stride]*line
	for i, hash := range hashes {
		mixed := mix(hash)
		lines := *f.shards[mixed%shards].lines.Load()
		homes[i&(stride-1)] = &lines[home(lines, tagOf(mixed))]
		atomic.LoadUint64(&homes[i&(stride-1)][0])
	}
	for i, hash := range hashes {
		if free, _ := homes[i&(stride-1)].index(0); free < 0 {
			f.approachNext(mix(hash))
		}
	}
}

// approachNext looks at the line after the one where a block is looked for first.
func (f *forest) approachNext(mixed uint64) {
	lines := *f.shards[mixed%shards].lines.Load()
	atomic.LoadUint64(&lines[after(lines, home(lines, tagOf(mixed)))][0])
}

// insert adds a block with its first holder, unless there is one of that hash. It
// returns the block, and whether it is new.
func (f *forest) insert(hash uint64, parent, ordinal, stamp uint32) (id uint32, fresh bool) {
	mixed := mix(hash)
	which, tag := uint32(mixed%shards), tagOf(mixed)
	s := &f.shards[which]
	lines := *s.lines.Load()
	if s.full(lines) {
		var grown int64
		lines, grown = s.grow(which)
		f.bytes += grown
	}
	there, l, free := f.locate(lines, tag, hash)
	if there != 0 {
		return there, false
	}
	id = f.spare
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
	b := f.blocks.at(id)
	b.hash.Store(hash)
	b.holders.Store(uint64(oneHolder(ordinal)))
	b.parent, b.stamp = parent, stamp
	atomic.StoreUint64(&l[free], entryOf(tag, id)) // the one store by which readers come to see it
	s.n++
	f.live++
	return id, true
}

// unlink takes a block out of its table. Readers may still look at it.
func (f *forest) unlink(id uint32, b *block) {
	mixed := mix(b.hash.Load())
	s := &f.shards[mixed%shards]
	remove(*s.lines.Load(), entryOf(tagOf(mixed), id), &f.generation)
	s.n--
	f.live--
}

// mislead has readers look again.
func (f *forest) mislead() { f.generation.Add(1) }

// release frees blocks that were taken out, the last to be used again first.
func (f *forest) release(ids []uint32) {
	if len(ids) == 0 {
		return
	}
	f.mislead()
	for _, id := range ids {
		b := f.blocks.at(id)
		b.parent, f.spare = f.spare, id
		b.stamp = 0 // an export may still ask whose it is
	}
}

// hold adds a holder, which must not be one, to a block.
func (f *forest) hold(b *block, ordinal uint32) {
	next, old, grown := f.slabs.with(holders(b.holders.Load()), ordinal)
	f.bytes += grown
	f.replace(b, next, old)
}

// replace puts a set in place of another, whose bitmap is then free.
func (f *forest) replace(b *block, next, old holders) {
	b.holders.Store(uint64(next))
	if old != 0 {
		f.mislead()
		f.slabs.release(old.class(), old.slab())
	}
}

// room returns how many blocks can be added before more memory is needed.
func (f *forest) room() uint32 { return f.blocks.len() - 1 - f.live }
