package index

import (
	"math/bits"
	"sync/atomic"
)

// MaxEndpoints is the most endpoints that an index knows at once.
const MaxEndpoints = 4096

// holders is a set of endpoint ordinals in one word. Up to inlineHolders ordinals of
// 12 bits stand in the word itself, sorted by nothing, with their number in the low
// 4 bits. A larger set is a bitmap:
//
//	bits 0–3 isBitmap · 4–7 class (1<<class words) · 8–20 members · 32–63 slab
type holders uint64

const (
	inlineHolders = 5
	isBitmap      = 15
	ordinalBits   = 12
	// A bitmap goes back into the word below this, so that a set around the limit
	// does not change form with every member.
	shrinkBelow = 4
	classes     = 7 // 1<<6 words hold MaxEndpoints bits
)

func oneHolder(ordinal uint32) holders { return holders(ordinal)<<4 | 1 }

func (h holders) bitmap() bool { return h&15 == isBitmap }
func (h holders) class() uint32 {
	return uint32(h>>4) & 15
}
func (h holders) slab() uint32 { return uint32(h >> 32) }

// len returns the number of members.
func (h holders) len() int {
	if h.bitmap() {
		return int(h>>8) & 0x1fff
	}
	return int(h & 15)
}

func bitmapHolders(class, members, slab uint32) holders {
	return holders(slab)<<32 | holders(members)<<8 | holders(class)<<4 | isBitmap
}

// member returns the i-th member of a set that is not a bitmap.
func (h holders) member(i int) uint32 {
	return uint32(h>>(4+ordinalBits*i)) & (1<<ordinalBits - 1)
}

// slabs holds the bitmaps of one forest, one arena per class.
type slabs struct {
	words [classes]arena[atomic.Uint64]
	used  [classes]uint32 // slabs ever given out
	free  [classes]uint32 // 1 + a free slab, which begins with the next; 0: none
}

func (s *slabs) init() {
	for c := range s.words {
		s.words[c].init()
	}
}

// at returns the words of a bitmap.
func (s *slabs) at(class, slab uint32) []atomic.Uint64 {
	return s.words[class].run(slab<<class, 1<<class)
}

// alloc returns a bitmap of zeros, and the bytes that this took from the heap.
func (s *slabs) alloc(class uint32) (slab uint32, grown int64) {
	if s.free[class] != 0 {
		slab = s.free[class] - 1
		w := s.at(class, slab)
		s.free[class] = uint32(w[0].Load())
		w[0].Store(0)
		return slab, 0
	}
	slab = s.used[class]
	if slab<<class >= s.words[class].len() {
		s.words[class].grow()
		grown = chunkLen * 8
	}
	s.used[class]++
	return slab, grown
}

// release gives a bitmap back. Readers that still look at it must find out by
// other means.
func (s *slabs) release(class, slab uint32) {
	w := s.at(class, slab)
	for i := range w {
		w[i].Store(0)
	}
	w[0].Store(uint64(s.free[class]))
	s.free[class] = slab + 1
}

// with returns the set with one more member, which must not be in it. old is set if
// a bitmap is no longer used, to be released after the new set is in place.
func (s *slabs) with(h holders, ordinal uint32) (next, old holders, grown int64) {
	n := h.len()
	if !h.bitmap() && n < inlineHolders {
		return h + 1 | holders(ordinal)<<(4+ordinalBits*n), 0, 0
	}
	if h.bitmap() && ordinal>>6 < 1<<h.class() {
		w := s.at(h.class(), h.slab())
		w[ordinal>>6].Store(w[ordinal>>6].Load() | 1<<(ordinal&63))
		return h + 1<<8, 0, 0
	}
	top := ordinal
	if !h.bitmap() {
		for i := range n {
			top = max(top, h.member(i))
		}
	}
	class := uint32(bits.Len32(top >> 6))
	slab, grown := s.alloc(class)
	w := s.at(class, slab)
	if h.bitmap() {
		old = h
		from := s.at(h.class(), h.slab())
		for i := range from {
			w[i].Store(from[i].Load())
		}
	} else {
		for i := range n {
			m := h.member(i)
			w[m>>6].Store(w[m>>6].Load() | 1<<(m&63))
		}
	}
	w[ordinal>>6].Store(w[ordinal>>6].Load() | 1<<(ordinal&63))
	return bitmapHolders(class, uint32(n)+1, slab), old, grown
}

// without returns the set without a member, which must be in it.
func (s *slabs) without(h holders, ordinal uint32) (next, old holders) {
	n := h.len()
	if !h.bitmap() {
		rest := holders(0)
		for i := range n {
			if m := h.member(i); m != ordinal {
				rest, _, _ = s.with(rest, m)
			}
		}
		return rest, 0
	}
	w := s.at(h.class(), h.slab())
	if n-1 >= shrinkBelow {
		w[ordinal>>6].Store(w[ordinal>>6].Load() &^ (1 << (ordinal & 63)))
		return h - 1<<8, 0
	}
	rest := holders(0)
	for i := range w {
		for b := w[i].Load(); b != 0; b &= b - 1 {
			if m := uint32(i<<6 + bits.TrailingZeros64(b)); m != ordinal {
				rest, _, _ = s.with(rest, m)
			}
		}
	}
	return rest, h
}

// split divides in into the members of h and the rest, word by word, and says
// whether either is empty. All three have the same length.
func (s *slabs) split(h holders, in, with, without []uint64) (some, rest bool) {
	var anyIn, anyOut uint64
	if h.bitmap() {
		w := s.at(h.class(), h.slab())
		for i, b := range in {
			var held uint64
			if i < len(w) {
				held = w[i].Load()
			}
			with[i], without[i] = b&held, b&^held
			anyIn |= with[i]
			anyOut |= without[i]
		}
		return anyIn != 0, anyOut != 0
	}
	copy(without, in)
	clear(with)
	for i := range min(h.len(), inlineHolders) {
		m := h.member(i)
		if at, bit := int(m>>6), uint64(1)<<(m&63); at < len(in) && in[at]&bit != 0 {
			with[at] |= bit
			without[at] &^= bit
			anyIn = 1
		}
	}
	for _, b := range without {
		anyOut |= b
	}
	return anyIn != 0, anyOut != 0
}
