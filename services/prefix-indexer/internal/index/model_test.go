package index

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var testKey = Key{Scheme: "test", BlockSize: 64}

// lru is the naive model of one endpoint: hashes, most recent first.
type lru []uint64

func (l lru) place(chain []uint64, capacity int) lru {
	chain = chain[:min(len(chain), capacity)]
	next := slices.Clone(chain)
	for _, h := range l {
		if !slices.Contains(chain, h) {
			next = append(next, h)
		}
	}
	return next[:min(len(next), capacity)]
}

func (l lru) matched(chain []uint64) uint32 {
	for i, h := range chain {
		if !slices.Contains(l, h) {
			return uint32(i)
		}
	}
	return uint32(len(chain))
}

// path returns the chain of a path in a tree: each hash covers all steps before it.
func path(steps ...uint64) []uint64 {
	chain := make([]uint64, len(steps))
	h := uint64(17)
	for i, s := range steps {
		h = mix(h*31 + s + 1)
		chain[i] = h
	}
	return chain
}

func drawPath(t *rapid.T, longest int) []uint64 {
	return path(rapid.SliceOfN(rapid.Uint64Range(0, 2), 0, longest).Draw(t, "path")...)
}

// check finds broken invariants: the forest's books, closure towards the root, and
// that every entry is owned by just one placement.
func (x *Index) check(t interface {
	Helper()
	Fatalf(string, ...any)
}) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	one, with, without := make([]uint64, words), make([]uint64, words), make([]uint64, words)
	for _, p := range *x.forests.Load() {
		f := p.forest
		members, pairs, tabled, rings := map[uint32]int{}, int64(0), int64(0), int64(0)
		for o, h := range p.held {
			if h == nil {
				continue
			}
			rings += int64(len(h.recency.ring)) * placementBytes
			owned := 0
			for i := range h.recency.n {
				it := h.recency.at(i)
				_, blocks := h.owned(item{0, it.stamp, it.leaf, it.tick})
				owned += len(blocks)
			}
			n, slots := 0, 0
			for _, s := range h.pairs.slots {
				if s != 0 {
					slots++
				}
			}
			for id := range f.used {
				if h.stamp(id) == 0 {
					continue
				}
				b := f.blocks.at(id)
				if f.find(b.hash.Load()) != id {
					t.Fatalf("block %d of endpoint %d is not in its table", id, o)
				}
				n++
				members[id]++
				if b.stamp == 0 {
					slots--
					tabled++
				}
				if b.parent != 0 && h.stamp(b.parent) == 0 {
					t.Fatalf("endpoint %d holds block %d and not its parent", o, id)
				}
				in := one[:o>>6+1]
				clear(in)
				in[o>>6] = 1 << (o & 63)
				with, without := with[:len(in)], without[:len(in)]
				if some, _ := f.slabs.split(holders(b.holders.Load()), in, with, without); !some {
					t.Fatalf("block %d does not know its holder %d", id, o)
				}
			}
			if n != h.n || owned != n || n > p.capacity || slots != 0 {
				t.Fatalf("endpoint %d: %d blocks, counted %d, owned by placements %d, capacity %d; %d pairs too many", o, n, h.n, owned, p.capacity, slots)
			}
			pairs += int64(n)
		}
		for id, n := range members {
			if got := holders(f.blocks.at(id).holders.Load()).len(); got != n {
				t.Fatalf("block %d counts %d holders, there are %d", id, got, n)
			}
		}
		heap := int64(f.blocks.len()) * blockBytes
		for i := range f.shards {
			heap += f.shards[i].check(t) * lineBytes
		}
		for c := range f.slabs.words {
			heap += int64(f.slabs.words[c].len()) * 8
		}
		if pairs != f.pairs || tabled != f.tabled || int(f.live) != len(members) || f.bytes != heap+rings {
			t.Fatalf("forest counts %d pairs, %d tabled, %d blocks, %d bytes; there are %d, %d, %d, %d",
				f.pairs, f.tabled, f.live, f.bytes, pairs, tabled, len(members), heap+rings)
		}
	}
}

// check finds entries that cannot be found, or are counted wrongly, and returns the number
// of lines.
func (s *shard) check(t interface {
	Helper()
	Fatalf(string, ...any)
}) int64 {
	t.Helper()
	lines, n := *s.lines.Load(), uint32(0)
	for at := range lines {
		for i := range lines[at] {
			e := lines[at][i]
			if e == 0 {
				continue
			}
			n++
			for from := home(lines, uint32(e>>32)); from != at; from = after(lines, from) {
				if free, _ := lines[from].index(0); free >= 0 {
					t.Fatalf("entry %x is in line %d of %d, beyond line %d, which is not full", e, at, len(lines), from)
				}
			}
		}
	}
	if n != s.n || n*2 > uint32(len(lines))*fullLine {
		t.Fatalf("shard counts %d entries, there are %d in %d lines", s.n, n, len(lines))
	}
	return int64(len(lines))
}

func match(x *Index, k Key, chain []uint64, ids []string) []uint32 {
	ordinals, got := make([]int32, len(ids)), make([]uint32, len(ids))
	for i, id := range ids {
		ordinals[i] = x.Endpoints().Ordinal(id)
		got[i] = 99 // must be overwritten
	}
	x.Match(k, chain, ordinals, got)
	return got
}

func newIndex(t interface {
	Helper()
	Fatalf(string, ...any)
}, cfg Config) *Index {
	t.Helper()
	x, err := New(cfg)
	if err != nil {
		t.Fatalf("new index: %v", err)
	}
	return x
}

// newest returns the mark that was given last for an endpoint; 0 if none was.
func (x *Index) newest(id string) Mark {
	o, p := x.Endpoints().Ordinal(id), (*x.forests.Load())[testKey]
	if p == nil || o == Unknown || int(o) >= len(p.held) || p.held[o] == nil {
		return 0
	}
	return Mark(p.held[o].newest)
}

// TestIndexIsTheModel runs random histories through the index and through lists.
func TestIndexIsTheModel(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
	rapid.Check(t, func(t *rapid.T) {
		cfg := DefaultConfig()
		cfg.DefaultCapacity = rapid.IntRange(1, 30).Draw(t, "capacity")
		x := newIndex(t, cfg)
		capacity, asked := cfg.DefaultCapacity, 0
		model := map[string]lru{}
		there := all[:rapid.IntRange(1, len(all)).Draw(t, "endpoints")]
		x.SetEndpoints(there)
		t.Repeat(map[string]func(*rapid.T){
			"place": func(t *rapid.T) {
				id, chain := rapid.SampledFrom(all).Draw(t, "endpoint"), drawPath(t, 12)
				_, err := x.Place(testKey, id, chain)
				if !slices.Contains(there, id) {
					if !errors.Is(err, ErrUnknownEndpoint) {
						t.Fatalf("placed on an endpoint that is not there: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatalf("place: %v", err)
				}
				model[id] = model[id].place(chain, capacity)
			},
			"membership": func(t *rapid.T) {
				there = slices.Sorted(slices.Values(rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), rapid.ID).Draw(t, "there")))
				x.SetEndpoints(there)
				for id := range model {
					if !slices.Contains(there, id) {
						delete(model, id)
					}
				}
			},
			"forget": func(t *rapid.T) {
				id := rapid.SampledFrom(all).Draw(t, "endpoint")
				newest := x.newest(id)
				if n := x.Forget(testKey, id, newest+1); n != 0 {
					t.Fatalf("%d blocks were forgotten by a mark that was never given", n)
				}
				if n := x.Forget(testKey, id, newest); n != len(model[id]) {
					t.Fatalf("%d blocks were forgotten of %d", n, len(model[id]))
				}
				delete(model, id)
			},
			"ask": func(t *rapid.T) {
				c := rapid.IntRange(1, 40).Draw(t, "asked")
				x.Ask(testKey.BlockSize, c)
				asked = max(asked, c)
				capacity = asked
				for id, l := range model {
					model[id] = l[:min(len(l), capacity)]
				}
			},
			"renumber": func(t *rapid.T) {
				for _, p := range *x.forests.Load() {
					for _, h := range p.held {
						if h != nil {
							h.renumber()
						}
					}
				}
			},
			"": func(t *rapid.T) {
				x.check(t)
				for range 3 {
					chain := drawPath(t, 14)
					want := make([]uint32, len(all))
					for i, id := range all {
						want[i] = model[id].matched(chain)
					}
					if diff := cmp.Diff(want, match(x, testKey, chain, all)); diff != "" {
						t.Fatalf("matched blocks of %x (-model +index):\n%s", chain, diff)
					}
				}
			},
		})
	})
}

// TestAdoptedIndexIsTheSame copies one index into another by export and adoption,
// and wants the same answers, also after both have learned more and have had to let
// go of the least recent.
func TestAdoptedIndexIsTheSame(t *testing.T) {
	ids := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		cfg := DefaultConfig()
		cfg.DefaultCapacity = rapid.IntRange(1, 40).Draw(t, "capacity")
		x, y := newIndex(t, cfg), newIndex(t, cfg)
		x.SetEndpoints(ids)
		y.SetEndpoints(ids)
		place := func(on ...*Index) {
			id, chain := rapid.SampledFrom(ids).Draw(t, "endpoint"), drawPath(t, 8)
			for _, i := range on {
				if _, err := i.Place(testKey, id, chain); err != nil {
					t.Fatalf("place: %v", err)
				}
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "before") {
			place(x)
		}
		e := x.Export()
		page := rapid.IntRange(1, 200).Draw(t, "page")
		for {
			segments := e.Next(page)
			for _, s := range segments {
				if added, full := y.Adopt(s); full || added != len(s.Blocks) {
					t.Fatalf("adopted %d of %d blocks, full %v", added, len(s.Blocks), full)
				}
			}
			if len(segments) == 0 {
				break
			}
		}
		if e.Left() != 0 {
			t.Fatalf("%d placements left after the last page", e.Left())
		}
		for range rapid.IntRange(0, 30).Draw(t, "after") {
			place(x, y)
		}
		y.check(t)
		for range 20 {
			chain := drawPath(t, 8)
			if diff := cmp.Diff(match(x, testKey, chain, ids), match(y, testKey, chain, ids)); diff != "" {
				t.Fatalf("matched blocks (-original +copy):\n%s", diff)
			}
		}
	})
}

// TestForeignChains places hashes that are no chains at all, as a faulty router might:
// the books must stay in order, and a match must stay within the chain.
func TestForeignChains(t *testing.T) {
	ids := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		x := newIndex(t, Config{MaxBytes: leastBytes, DefaultCapacity: rapid.IntRange(1, 12).Draw(t, "capacity")})
		x.SetEndpoints(ids)
		hashes := rapid.SliceOfN(rapid.Uint64Range(0, 6), 0, 8)
		for range rapid.IntRange(1, 40).Draw(t, "placements") {
			id, chain := rapid.SampledFrom(ids).Draw(t, "endpoint"), hashes.Draw(t, "chain")
			if rapid.Bool().Draw(t, "adopt") && len(chain) > 0 {
				x.Adopt(Segment{testKey, id, chain[0], chain[1:]})
			} else if _, err := x.Place(testKey, id, chain); err != nil && !errors.Is(err, ErrChain) {
				t.Fatalf("place: %v", err)
			}
			x.check(t)
			asked := hashes.Draw(t, "asked")
			for i, m := range match(x, testKey, asked, ids) {
				if int(m) > len(asked) {
					t.Fatalf("endpoint %d matches %d of %d blocks", i, m, len(asked))
				}
			}
		}
	})
}
