package index

import (
	"cmp"
	"slices"
)

// Segment is a piece of a chain that an endpoint holds: Blocks, which go on from the
// block with hash Parent, 0 for the beginning of a prompt.
type Segment struct {
	Key      Key
	Endpoint string
	Parent   uint64
	Blocks   []uint64
}

// segmentBytes is what a segment takes on the wire beside its strings and blocks.
const segmentBytes = 32

// Export hands out what an index holds, newest first, each entry once. So whoever
// adopts the segments in order knows every Parent before it is named, has the most
// useful part first, and may stop at any time. Not safe for concurrent use.
//
// The index may change meanwhile. What is placed after the export began is left out
// as far as it is new.
type Export struct {
	index   *Index
	sources []source
	items   []item
}

type source struct {
	held     *held
	key      Key
	endpoint string
}

type item struct{ source, stamp, leaf, tick uint32 }

// Export begins an export. It notes every placement, at 16 bytes each.
func (x *Index) Export() *Export {
	e := &Export{index: x}
	x.mu.Lock()
	names := make(map[int32]string)
	for id, o := range x.endpoints.Load().ordinals {
		names[o] = id
	}
	for k, p := range *x.forests.Load() {
		for o, h := range p.held {
			if h != nil {
				e.sources = append(e.sources, source{h, k, names[int32(o)]})
			}
		}
	}
	x.mu.Unlock()
	for i, s := range e.sources {
		e.note(uint32(i), s.held)
	}
	now := e.now()
	slices.SortStableFunc(e.items, func(a, b item) int { return cmp.Compare(now-a.tick, now-b.tick) })
	return e
}

// note lists what one endpoint was sent, newest first. Writers wait for one endpoint
// at a time.
func (e *Export) note(source uint32, h *held) {
	e.index.mu.Lock()
	defer e.index.mu.Unlock()
	for i := h.recency.n - 1; i >= 0; i-- {
		if p := h.recency.at(i); h.alive(p) {
			e.items = append(e.items, item{source, p.stamp, p.leaf, p.tick})
		}
	}
}

func (e *Export) now() uint32 {
	e.index.mu.Lock()
	defer e.index.mu.Unlock()
	return e.index.tick()
}

// Left returns how many placements are still to be handed out.
func (e *Export) Left() int { return len(e.items) }

// Next returns the next segments, until they take at least so many bytes on the wire.
// None: the end.
func (e *Export) Next(bytes int) []Segment {
	e.index.mu.Lock()
	defer e.index.mu.Unlock()
	var out []Segment
	for bytes > 0 && len(e.items) > 0 {
		it := e.items[0]
		e.items = e.items[1:]
		s := e.sources[it.source]
		parent, blocks := s.held.owned(it)
		if len(blocks) == 0 {
			continue
		}
		out = append(out, Segment{s.key, s.endpoint, parent, blocks})
		bytes -= segmentBytes + len(s.endpoint) + len(s.key.Scheme) + 8*len(blocks)
	}
	return out
}

// owned returns the blocks that still belong to a placement, and the one before.
func (h *held) owned(it item) (parent uint64, blocks []uint64) {
	id := it.leaf
	for id != 0 {
		if h.stamp(id) != it.stamp {
			break
		}
		b := h.blocks.at(id)
		blocks = append(blocks, b.hash.Load())
		id = b.parent
	}
	if len(blocks) == 0 {
		return 0, nil
	}
	slices.Reverse(blocks)
	if id != 0 {
		parent = h.blocks.at(id).hash.Load()
	}
	return parent, blocks
}

// Adopt learns a segment of another index's export as older than anything placed
// here. Nothing goes to make room for it. It returns how many entries were new, and
// true if there is no memory for more.
func (x *Index) Adopt(s Segment) (added int, full bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	ordinal := x.endpoints.Load().Ordinal(s.Endpoint)
	if ordinal == Unknown || !s.Key.valid() || len(s.Blocks) > MaxChain {
		return 0, false
	}
	p := x.plot(s.Key)
	if !x.fits(p, len(s.Blocks)) {
		return 0, true
	}
	// Ticks count down from the first placement's, as the segments get older.
	added = p.of(ordinal).extend(s.Parent, s.Blocks, p.capacity, ^uint32(x.adopted>>tickShift))
	x.adopted++
	return added, false
}
