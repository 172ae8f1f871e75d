package prompt

import (
	"encoding/binary"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// Prompt is the canonical prompt of one request. It implements route.Prompt and is
// safe for concurrent use.
type Prompt struct {
	mu       sync.Mutex
	segments []segment
	bytes    int64
	ids      bool // token ids, no text
	seed     uint64
	chains   []chain
	few      [6]segment // the memory of segments, if there are no more
	one      [1]chain   // the memory of chains, as for segments
	work     hashing
	done     func() // lets go of a decoded copy; nil if there is none
}

// Bytes returns the length of the canonical prompt.
func (p *Prompt) Bytes() int64 { return p.bytes }

// Blocks returns the prefix chain in blocks of size bytes, at most limit of them,
// under route.Scheme. A trailing partial block is not in it. The slice is shared and
// not to be changed. After Release it returns what had been asked for before, else
// nil.
func (p *Prompt) Blocks(size, limit int) []uint64 {
	if size <= 0 || limit <= 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.chains {
		c := &p.chains[i]
		if c.size != size {
			continue
		}
		if limit > c.limit && p.segments != nil {
			*c = p.work.hash(p.segments, p.bytes, p.seed, size, limit)
		}
		n := min(limit, len(c.hashes))
		return c.hashes[:n:n]
	}
	if p.segments == nil {
		return nil
	}
	c := p.work.hash(p.segments, p.bytes, p.seed, size, limit)
	if p.chains == nil {
		p.chains = p.one[:0]
	}
	p.chains = append(p.chains, c)
	return c.hashes
}

// Text returns the canonical prompt in valid UTF-8: invalid bytes are replaced. It
// is empty for token ids and after Release. It holds user data and must not be
// logged.
func (p *Prompt) Text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ids {
		return ""
	}
	var t text
	t.Grow(int(p.bytes))
	e := emitter{sink: &t}
	for i := range p.segments {
		e.segment(&p.segments[i])
	}
	return strings.ToValidUTF8(t.String(), "\uFFFD")
}

// Release lets go of the body, whose bytes may then be used for something else.
func (p *Prompt) Release() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.segments = nil
	clear(p.few[:])
	if p.done != nil {
		p.done()
		p.done = nil
	}
	p.mu.Unlock()
}

// text is a sink that keeps everything.
type text struct{ strings.Builder }

func (t *text) write(p []byte) bool {
	t.Write(p)
	return true
}

// chain is a prefix chain that was computed.
type chain struct {
	size, limit int // what was asked for
	hashes      []uint64
}

// hash computes the first limit hashes over blocks of size bytes. bytes is about how
// many there are.
func (w *hashing) hash(segments []segment, bytes int64, seed uint64, size, limit int) chain {
	h, e, block := &w.hasher, &w.emitter, w.room[:]
	if len(block) < size+8 {
		block = make([]byte, size+8)
	}
	*h = hasher{size: size, limit: limit, last: seed, block: block[:size+8], hashes: make([]uint64, 0, min(int64(limit), bytes/int64(size)))}
	e.sink = h
	for i := range segments {
		if !e.segment(&segments[i]) {
			break
		}
	}
	out := chain{size: size, limit: limit, hashes: h.hashes}
	h.hashes, h.block = nil, nil
	return out
}

// hashing is the memory of hash.
type hashing struct {
	hasher  hasher
	emitter emitter
	room    [128 + 8]byte // for a block of the usual size
}

// hasher is a sink that hashes blocks: h_i = XXH64(block_i ‖ LE8(h_{i-1})).
type hasher struct {
	size, limit int
	last        uint64
	block       []byte // the block that is being filled, and 8 bytes
	n           int
	hashes      []uint64
}

func (h *hasher) write(p []byte) bool {
	for len(p) > 0 {
		n := copy(h.block[h.n:h.size], p)
		p = p[n:]
		if h.n += n; h.n < h.size {
			break
		}
		h.n = 0
		binary.LittleEndian.PutUint64(h.block[h.size:], h.last)
		h.last = xxhash.Sum64(h.block)
		h.hashes = append(h.hashes, h.last)
		if len(h.hashes) == h.limit {
			return false
		}
	}
	return true
}

// seedOf is the hash before the first block. It is not a block itself.
func seedOf(model, adapter, salt string) uint64 {
	if adapter == "" && salt == "" {
		return xxhash.Sum64String(model)
	}
	framed := make([]byte, 0, 24+len(model)+len(adapter)+len(salt))
	for _, s := range [...]string{model, adapter, salt} {
		framed = appendFramed(framed, s)
	}
	return xxhash.Sum64(framed)
}

// appendFramed appends the length in 8 bytes, little endian, and the string.
func appendFramed(dst []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(dst, uint64(len(s))), s...)
}
