package index

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// unmix returns the hash that mix makes v of.
func unmix(v uint64) uint64 {
	const factor = 0x9e3779b97f4a7c15
	inverse := uint64(factor) // right in the lowest 3 bits, and twice as many each time
	for range 5 {
		inverse *= 2 - factor*inverse
	}
	return (v ^ v>>32) * inverse
}

// crowd returns the i-th hash of one shard that is looked for in one of few lines.
func crowd(i uint64) uint64 { return unmix((i%3<<29+i/6)<<32 | i%2<<31 | 5) }

func TestCrowdIsInOneShard(t *testing.T) {
	seen := map[uint64]bool{}
	for i := range uint64(200) {
		hash := crowd(i)
		if mix(hash)%shards != 5 || uint64(tagOf(mix(hash))) != i%3<<29+i/6|1 || seen[hash] {
			t.Fatalf("hash %d is %x, mixed %x", i, hash, mix(hash))
		}
		seen[hash] = true
	}
}

// TestTableIsAMap adds blocks to lines that are all too few for them, takes them out
// again, and wants to find just what is there. Up to four have the same tag.
func TestTableIsAMap(t *testing.T) {
	moves, lines := uint64(0), 0
	rapid.Check(t, func(t *rapid.T) {
		f, model := newForest(), map[uint64]uint32{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for _, i := range rapid.SliceOfN(rapid.Uint64Range(0, 199), 1, 40).Draw(t, "added") {
					hash := crowd(i)
					id, fresh := f.insert(hash, 0, 1, 1)
					before, there := model[hash]
					if fresh == there || there && before != id {
						t.Fatalf("block %d of hash %x is new: %v; before it was %d: %v", id, hash, fresh, before, there)
					}
					model[hash] = id
				}
			},
			"remove": func(t *rapid.T) {
				var gone []uint32
				before := f.generation.Load()
				for _, i := range rapid.SliceOfN(rapid.Uint64Range(0, 199), 1, 40).Draw(t, "removed") {
					if id, there := model[crowd(i)]; there {
						f.unlink(id, f.blocks.at(id))
						gone = append(gone, id)
						delete(model, crowd(i))
					}
				}
				moves += f.generation.Load() - before
				f.release(gone)
			},
			"": func(t *rapid.T) {
				lines = max(lines, int(f.shards[5].check(t)))
				var ids [stride]uint32
				all := make([]uint64, 200)
				for i := range all {
					all[i] = crowd(uint64(i))
				}
				for some := range slices.Chunk(all, stride) {
					f.seek(some, &ids)
					for i, hash := range some {
						in, with, without := []uint64{3}, []uint64{0}, []uint64{0}
						held, _, sound := f.look(hash, in, with, without)
						if id := f.find(hash); id != model[hash] || ids[i] != id || held != (id != 0) || !sound {
							t.Fatalf("hash %x: found %d, sought %d, held %v, sound %v; it is %d", hash, id, ids[i], held, sound, model[hash])
						}
					}
				}
			},
		})
	})
	if moves == 0 || lines < 10 {
		t.Errorf("%d moves in at most %d lines: too little was tested", moves, lines)
	}
}
