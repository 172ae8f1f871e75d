package index

import (
	"runtime"
	"sync"
)

const (
	// readTries is how often a reader looks again at a part that keeps changing
	// before it waits for the writer. A change takes some 100 ns, unless the writer
	// loses its processor in the middle.
	readTries = 256
	// longestBucket is more than any bucket has; a reader that walks further has
	// strayed into one that changed under it.
	longestBucket = 1 << 12
)

// split divides the endpoints of in, a bitmap of ordinals, into those that hold the
// block and the rest. It takes no lock unless the block's stripe keeps changing.
//
// A block or a bitmap that is freed may be in use again for something else by the
// time it is looked at. The stripe's count of changes, taken before and after, tells.
func (f *forest) split(writer *sync.Mutex, hash uint64, in, with, without []uint64) (some, rest bool) {
	mixed := mix(hash)
	changes := &f.stripes[mixed%stripes].changes
	for try := range readTries {
		before := changes.Load()
		if before&1 != 0 {
			if try%32 == 31 {
				runtime.Gosched()
			}
			continue
		}
		some, rest, sound := f.look(mixed, hash, in, with, without)
		if sound && changes.Load() == before {
			return some, rest
		}
	}
	writer.Lock()
	defer writer.Unlock()
	some, rest, _ = f.look(mixed, hash, in, with, without)
	return some, rest
}

func (f *forest) look(mixed, hash uint64, in, with, without []uint64) (some, rest, sound bool) {
	id := f.heads.at(f.bucket(mixed)).Load()
	for range longestBucket {
		if id == 0 {
			copy(without, in)
			clear(with)
			return false, true, true
		}
		b := f.blocks.at(id)
		if b.hash.Load() == hash {
			some, rest = f.slabs.split(holders(b.holders.Load()), in, with, without)
			return some, rest, true
		}
		id = b.next.Load()
	}
	return false, true, false
}
