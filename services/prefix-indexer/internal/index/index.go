package index

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"
)

const (
	// MaxChain is the most blocks of one prompt.
	MaxChain = 8192
	// MaxCapacity is the most blocks per endpoint.
	MaxCapacity = 1 << 27
	// MaxForests is how many (scheme, block size) pairs are indexed at once.
	MaxForests = 8

	longestScheme = 64
	// tickShift makes a tick of so many placements.
	tickShift = 6
)

// Errors of Place. The placement was not learned, except for ErrChain, where its
// beginning was.
var (
	// ErrUnknownEndpoint says that the endpoint is not, or no longer, in the pool.
	ErrUnknownEndpoint = errors.New("endpoint is not in the pool")
	// ErrKey says that a scheme or block size is missing or out of range.
	ErrKey = errors.New("scheme or block size is missing or out of range")
	// ErrChain says that a chain is longer than MaxChain or contradicts what is
	// known: one block after two different ones.
	ErrChain = errors.New("chain is too long or contradicts another")
)

// Key names blocks that can be compared.
type Key struct {
	// Scheme names the hash function, its seed and where blocks begin.
	Scheme string
	// BlockSize is the bytes of prompt in one block.
	BlockSize uint32
}

func (k Key) valid() bool { return k.Scheme != "" && len(k.Scheme) <= longestScheme && k.BlockSize > 0 }

// Index holds the prefixes of all endpoints, apart for each Key. Safe for
// concurrent use.
type Index struct {
	cfg       Config
	endpoints atomic.Pointer[Endpoints]
	forests   atomic.Pointer[map[Key]*plot]
	scratch   sync.Pool // of *matcher

	mu         sync.Mutex     // held by whoever writes
	asked      map[uint32]int // capacity by block size, the largest asked for
	placements uint64
	adopted    uint64 // segments
	evicted    Evictions
	refused    Refusals
}

// plot is a forest and what the endpoints hold of it.
type plot struct {
	*forest
	capacity   int
	lastPlaced uint64  // value of Index.placements
	held       []*held // by ordinal; nil: nothing
}

// New returns an empty index that knows no endpoint.
func New(cfg Config) (*Index, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	x := &Index{cfg: cfg, asked: make(map[uint32]int)}
	x.endpoints.Store(&Endpoints{})
	x.forests.Store(&map[Key]*plot{})
	x.scratch.New = func() any { return new(matcher) }
	return x, nil
}

// Endpoints returns the endpoints that are known now.
func (x *Index) Endpoints() *Endpoints { return x.endpoints.Load() }

// SetEndpoints replaces the endpoints. Those that left are unknown at once, and what
// they held is gone when it returns. Beyond MaxEndpoints, ids are left out.
func (x *Index) SetEndpoints(ids []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	// Only when nobody looks for those who left may their ordinals be given away.
	rest, left := x.endpoints.Load().without(ids)
	x.endpoints.Store(rest)
	for _, o := range left {
		x.clear(o)
	}
	x.endpoints.Store(rest.with(ids))
}

// Forget lets go of what an endpoint was sent no later than a mark, and not again
// since, as when it was found to be gone there. It returns how many blocks that were.
func (x *Index) Forget(k Key, endpoint string, upTo Mark) (forgotten int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	o, p := x.endpoints.Load().Ordinal(endpoint), (*x.forests.Load())[k]
	if p == nil || o == Unknown || int(o) >= len(p.held) || p.held[o] == nil {
		return 0
	}
	if uint32(upTo) > p.held[o].newest {
		return 0 // it was given before the endpoint left and came back, or before stamps ran out
	}
	forgotten = p.held[o].forget(uint32(upTo))
	x.evicted.Contradicted += uint64(forgotten)
	return forgotten
}

func (x *Index) clear(ordinal int32) {
	for _, p := range *x.forests.Load() {
		if int(ordinal) >= len(p.held) || p.held[ordinal] == nil {
			continue
		}
		x.evicted.Gone += uint64(p.held[ordinal].clear())
		p.held[ordinal] = nil
	}
}

// Ask says that somebody counts on a capacity, in blocks per endpoint, for prefixes
// in blocks of a size. The largest that was ever asked for counts.
func (x *Index) Ask(blockSize uint32, capacity int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if capacity = min(capacity, MaxCapacity); capacity <= x.asked[blockSize] {
		return
	}
	x.asked[blockSize] = capacity
	for k, p := range *x.forests.Load() {
		if k.BlockSize == blockSize {
			x.setCapacity(p, capacity)
		}
	}
}

func (x *Index) setCapacity(p *plot, capacity int) {
	p.capacity = capacity
	for _, h := range p.held {
		if h == nil || h.n <= capacity {
			continue
		}
		x.evicted.Capacity += uint64(h.evict(h.n - capacity))
	}
}

// Mark orders what one endpoint was sent of one Key: a later placement has a greater
// one. 0 is none.
type Mark uint32

// Placed tells of a placement.
type Placed struct {
	// Mark is its own.
	Mark Mark
	// Held is how many of the chain's first blocks the endpoint was believed to hold
	// already, and Last the placement that last used the deepest of them.
	Held int
	Last Mark
}

// Place learns that an endpoint was sent a prompt, which it holds from now on.
func (x *Index) Place(k Key, endpoint string, chain []uint64) (Placed, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	ordinal := x.endpoints.Load().Ordinal(endpoint)
	if ordinal == Unknown {
		x.refused.UnknownEndpoint++
		return Placed{}, ErrUnknownEndpoint
	}
	if !k.valid() {
		x.refused.Key++
		return Placed{}, ErrKey
	}
	p := x.plot(k)
	kept := chain[:min(len(chain), MaxChain)]
	x.makeRoom(p, len(kept))
	x.placements++
	p.lastPlaced = x.placements
	placed, evicted, sound := p.of(ordinal).place(kept, p.capacity, x.tick())
	x.evicted.Capacity += uint64(evicted)
	if !sound || len(kept) < len(chain) {
		x.refused.Chain++
		return placed, ErrChain
	}
	return placed, nil
}

func (x *Index) tick() uint32 { return uint32(x.placements >> tickShift) }

// plot returns the forest of the key, a new one if need be.
func (x *Index) plot(k Key) *plot {
	if p := (*x.forests.Load())[k]; p != nil {
		return p
	}
	return x.newPlot(k)
}

// newPlot adds a forest, in place of the one that was not placed into for longest if
// there are too many.
func (x *Index) newPlot(k Key) *plot {
	forests := maps.Clone(*x.forests.Load())
	if len(forests) >= MaxForests {
		var idle Key
		for o, p := range forests {
			if idle == (Key{}) || p.lastPlaced < forests[idle].lastPlaced {
				idle = o
			}
		}
		x.evicted.Gone += uint64(forests[idle].pairs)
		delete(forests, idle)
	}
	capacity, ok := x.asked[k.BlockSize]
	if !ok {
		capacity = x.cfg.DefaultCapacity
	}
	p := &plot{forest: newForest(), capacity: capacity}
	forests[k] = p
	x.forests.Store(&forests)
	return p
}

// of returns what an endpoint holds.
func (p *plot) of(ordinal int32) *held {
	for int(ordinal) >= len(p.held) {
		p.held = append(p.held, nil)
	}
	if p.held[ordinal] == nil {
		p.held[ordinal] = newHeld(p, uint32(ordinal))
	}
	return p.held[ordinal]
}
