package index

import "sync"

// readTries is how often a reader looks again before it waits for the writer. A look
// takes some 50 ns, and the writer misleads readers once in a microsecond or two.
const readTries = 256

// split divides the endpoints of in, a bitmap of ordinals, into those that hold the
// block and the rest. It takes no lock unless the writer is too quick for it.
//
// A block or a bitmap that is let go of may be in use again for something else by the
// time it is looked at, and an entry may have moved. The generation, which has changed
// before that happens, tells.
func (f *forest) split(writer sync.Locker, tries int, hash uint64, in, with, without []uint64) (some, rest bool) {
	for range tries {
		before := f.generation.Load()
		some, rest, sound := f.look(hash, in, with, without)
		if sound && f.generation.Load() == before {
			return some, rest
		}
	}
	writer.Lock()
	defer writer.Unlock()
	some, rest, _ = f.look(hash, in, with, without)
	return some, rest
}

// look divides as split does. It is not sound if it found its way to nowhere.
func (f *forest) look(hash uint64, in, with, without []uint64) (some, rest, sound bool) {
	mixed := mix(hash)
	lines, tag := *f.shards[mixed%shards].lines.Load(), tagOf(mixed)
	at := home(lines, tag)
	for range lines {
		l := &lines[at]
		id, free := l.scan(tag)
		if id != 0 {
			id = f.pick(l, id, tag, hash)
		}
		if id != 0 {
			some, rest = f.slabs.split(holders(f.blocks.at(id).holders.Load()), in, with, without)
			return some, rest, true
		}
		if free >= 0 {
			copy(without, in)
			clear(with)
			return false, true, true
		}
		at = after(lines, at)
	}
	return false, true, false
}
