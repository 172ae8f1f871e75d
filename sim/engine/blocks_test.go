package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// naive is the prefix cache as one would explain it: whole prefixes by their text, and a list of those that nobody
// holds, the least recently released first.
type naive struct {
	size int
	refs map[string]int // cached prefixes in blocks that are held or idle
	idle []string       // cached and not held, in order of eviction
	anon int            // blocks held that are not in the cache
}

func (n *naive) used() int {
	held := n.anon
	for _, r := range n.refs {
		if r > 0 {
			held++
		}
	}
	return held
}

// acquire returns how many of the prefixes were cached, or false when there is no room.
func (n *naive) acquire(prefixes []string) (cached int, owned []bool, ok bool) {
	for cached < len(prefixes) {
		if _, found := n.refs[prefixes[cached]]; !found {
			break
		}
		cached++
	}
	fresh := 0
	for _, p := range prefixes[:cached] {
		if n.refs[p] == 0 {
			fresh++
		}
	}
	if n.used()+fresh+len(prefixes)-cached > n.size {
		return cached, nil, false
	}
	owned = make([]bool, len(prefixes))
	for i, p := range prefixes[:cached] {
		n.idle = slices.DeleteFunc(n.idle, func(s string) bool { return s == p })
		n.refs[p]++
		owned[i] = true
	}
	for i, p := range prefixes[cached:] {
		if n.used()+len(n.idle) == n.size {
			delete(n.refs, n.idle[0])
			n.idle = n.idle[1:]
		}
		// Another holder of the same text may have put it there: then this copy stays unnamed.
		if _, taken := n.refs[p]; taken {
			n.anon++
			continue
		}
		n.refs[p] = 1
		owned[cached+i] = true
	}
	return cached, owned, true
}

func (n *naive) release(prefixes []string, owned []bool) {
	for i := len(prefixes) - 1; i >= 0; i-- {
		if !owned[i] {
			n.anon--
			continue
		}
		if n.refs[prefixes[i]]--; n.refs[prefixes[i]] == 0 {
			n.idle = append(n.idle, prefixes[i])
		}
	}
}

// The block pool against the naive cache: the same matches, the same room, the same evictions.
func TestBlockPoolModel(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		size := 4 + rng.IntN(20)
		pool := newBlockPool(size)
		model := &naive{size: size, refs: map[string]int{}}
		type holder struct {
			prefixes []string
			owned    []bool
			blocks   []int32
		}
		var holders []holder
		for step := range 400 {
			if len(holders) > 0 && rng.IntN(2) == 0 {
				i := rng.IntN(len(holders))
				model.release(holders[i].prefixes, holders[i].owned)
				pool.release(holders[i].blocks)
				holders = slices.Delete(holders, i, i+1)
				continue
			}
			// A path in a small tree of texts, so that prefixes meet.
			var prefixes []string
			var hashes []uint64
			text, hash := "", seedHash("", "")
			for range 1 + rng.IntN(6) {
				branch := rng.IntN(2)
				text += fmt.Sprint(branch)
				hash = chain(hash, []Token{Token(branch)})
				prefixes, hashes = append(prefixes, text), append(hashes, hash)
			}
			want, owned, fits := model.acquire(prefixes)
			matched, idle := pool.match(hashes)
			if matched != want {
				t.Fatalf("seed %d step %d: %d blocks of %v match, the model says %d", seed, step, matched, prefixes, want)
			}
			if need := len(hashes) - matched; (need <= pool.free-idle) != fits {
				t.Fatalf("seed %d step %d: room for %d with %d free: the model says %v", seed, step, need, pool.free-idle, fits)
			}
			if !fits {
				continue
			}
			blocks := pool.share(hashes[:matched], nil)
			for i := matched; i < len(hashes); i++ {
				blocks = pool.take(1, blocks)
				pool.store(blocks[i], hashes[i])
			}
			holders = append(holders, holder{prefixes, owned, blocks})
			if pool.used() != model.used() || len(pool.byHash) != len(model.refs) {
				t.Fatalf("seed %d step %d: %d used, %d cached; the model says %d, %d",
					seed, step, pool.used(), len(pool.byHash), model.used(), len(model.refs))
			}
		}
	}
}

func TestChainsDiffer(t *testing.T) {
	seen := map[uint64]string{}
	add := func(what string, h uint64) {
		if was, ok := seen[h]; ok {
			t.Errorf("%s and %s have the same hash", was, what)
		}
		seen[h] = what
	}
	add("no adapter, no salt", seedHash("", ""))
	add("adapter a", seedHash("a", ""))
	add("salt a", seedHash("", "a"))
	add("adapter ab", seedHash("ab", ""))
	add("adapter a, salt b", seedHash("a", "b"))
	s := seedHash("", "")
	add("[1]", chain(s, []Token{1}))
	add("[1 0]", chain(s, []Token{1, 0}))
	add("[0 1]", chain(s, []Token{0, 1}))
	add("[1][0]", chain(chain(s, []Token{1}), []Token{0}))
	add("[1 0 0]", chain(s, []Token{1, 0, 0}))
}
