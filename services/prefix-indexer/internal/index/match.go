package index

import (
	"math/bits"
	"sync"
)

const (
	words = MaxEndpoints / 64
	// depth is the most intervals open at once: one more at each halving.
	depth = 18
)

// matcher is the scratch memory of one Match.
type matcher struct {
	open    [depth]interval
	with    [words]uint64
	without [words]uint64
	matched [MaxEndpoints]uint32 // by ordinal
}

// interval is endpoints that hold the chain's first low blocks and at most high.
type interval struct {
	low, high int
	who       [words]uint64
}

// Match tells for each endpoint, given by ordinal, how many of the chain's first
// blocks it holds, in matched, which must be as long as ordinals; 0 for Unknown. It
// allocates nothing.
func (x *Index) Match(k Key, chain []uint64, ordinals []int32, matched []uint32) {
	f := (*x.forests.Load())[k]
	if f == nil || len(chain) == 0 || len(ordinals) == 0 {
		clear(matched)
		return
	}
	m := x.scratch.Get().(*matcher)
	defer x.scratch.Put(m)
	chain = chain[:min(len(chain), MaxChain)]
	n := m.gather(ordinals)
	clear(m.matched[:n<<6])
	m.divide(&x.mu, f.forest, chain, n)
	for i, o := range ordinals {
		matched[i] = 0
		if o >= 0 {
			matched[i] = m.matched[o]
		}
	}
}

// gather makes the endpoints those of the first interval, and returns how many words of
// it they need. Ordinals mostly ascend, so each word is put together before it is stored.
func (m *matcher) gather(ordinals []int32) (n int) {
	who := &m.open[0].who
	clear(who[:])
	at, word, top := int32(0), uint64(0), int32(0)
	for _, o := range ordinals {
		if o < 0 {
			continue
		}
		if o>>6 != at {
			who[at] |= word
			at, word = o>>6, 0
			top = max(top, at)
		}
		word |= 1 << (o & 63)
	}
	who[at] |= word
	return int(top) + 1
}

// divide fills in matched for the endpoints of the first interval. Since who holds a
// block holds all before it, asking for one block halves an interval: those who hold
// it are above, the others below. The first block is asked for first, since often
// nobody holds it; then the last, since often all hold the whole chain.
func (m *matcher) divide(writer *sync.Mutex, f *forest, chain []uint64, n int) {
	m.open[0].low, m.open[0].high = 0, len(chain)
	for open := 1; open > 0; {
		v := &m.open[open-1]
		if v.low == v.high {
			m.settle(v.who[:n], v.low)
			open--
			continue
		}
		at := v.low + (v.high-v.low+1)/2
		switch {
		case v.low == 0:
			at = 1
		case v.low == 1 && v.high == len(chain):
			at = len(chain)
		}
		some, rest := f.split(writer, readTries, chain[at-1], v.who[:n], m.with[:n], m.without[:n])
		switch {
		case !rest:
			v.low = at
		case !some:
			v.high = at - 1
		default:
			up := &m.open[open]
			up.low, up.high = at, v.high
			copy(up.who[:n], m.with[:n])
			copy(v.who[:n], m.without[:n])
			v.high = at - 1
			open++
		}
	}
}

// settle gives the endpoints of a bitmap their result, which is 0 until then.
func (m *matcher) settle(who []uint64, n int) {
	if n == 0 {
		return
	}
	for i, b := range who {
		for ; b != 0; b &= b - 1 {
			m.matched[i<<6+bits.TrailingZeros64(b)] = uint32(n)
		}
	}
}
