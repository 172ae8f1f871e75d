package feed

import (
	"sync"
	"time"

	"github.com/pointsman/pointsman/services/prefix-indexer/internal/audit"
)

const (
	// mostPicks bounds the memory of picks whose end is waited for, at some 200 bytes
	// each and their chains. Those beyond are not followed.
	mostPicks = 1 << 16
	// mostHashes bounds the memory of their chains, at 8 bytes a hash. Chains beyond
	// are not kept, so that nobody is told who served them.
	mostHashes = 1 << 23
	// pickLife is how long an end is waited for.
	pickLife = 15 * time.Minute
	// mostEnded is how many ended picks are kept for prompts that come after the end. An
	// end that came first is rare and early by milliseconds; most of them have no prompt.
	mostEnded = 1 << 12
)

// pickID names a pick.
type pickID struct {
	router string
	pick   uint64
}

// pick is one whose end is waited for. What is known of it comes on two subjects, in
// any order.
type pick struct {
	begun     time.Time
	estimated uint32 // tokens of the prompt; 0: not told
	claims    []audit.Claim
	chains    [][]uint64 // of the claims; nil where it is not wanted or not kept

	ended bool // before its prompt came
	full  bool // it ended so, and was answered in full
	usage usage
}

// usage is what an engine reports of a request; told.NotReported each.
type usage struct{ prompt, cached int64 }

// picks is all of them. Safe for concurrent use.
type picks struct {
	mu     sync.Mutex
	open   map[pickID]*pick
	hashes int               // in the chains of all that are open
	ended  [mostEnded]pickID // those whose prompt may come yet, in a ring
	next   int
}

// pick returns the open pick of that name, a new one if need be; nil if there are too
// many. Call it with the lock.
func (p *picks) pick(id pickID, now time.Time) *pick {
	o := p.open[id]
	if o == nil && len(p.open) < mostPicks {
		o = &pick{begun: now}
		p.open[id] = o
	}
	return o
}

// take forgets an open pick and returns it; nil if there is none. Call it with the lock.
func (p *picks) take(id pickID) *pick {
	o := p.open[id]
	if o == nil {
		return nil
	}
	delete(p.open, id)
	for _, c := range o.chains {
		p.hashes -= len(c)
	}
	return o
}

// estimate notes the tokens of a pick's prompt. It returns false if there are too many
// picks to follow this one.
func (p *picks) estimate(id pickID, now time.Time, tokens uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.pick(id, now)
	if o == nil {
		return false
	}
	o.estimated = tokens
	return true
}

// claim notes what was believed of a pick, and the chain, unless it is nil. It returns
// false if there are too many picks to follow this one, or too many hashes to keep the
// chain.
func (p *picks) claim(id pickID, now time.Time, c audit.Claim, chain []uint64) (followed, kept bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.pick(id, now)
	if o == nil {
		return false, false
	}
	if p.hashes+len(chain) > mostHashes {
		chain = nil
	} else {
		kept = true
	}
	p.hashes += len(chain)
	o.claims, o.chains = append(o.claims, c), append(o.chains, chain)
	return true, kept
}

// claims returns what was believed of a pick.
func (p *picks) claims(id pickID) []audit.Claim {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.open[id]; o != nil {
		return o.claims
	}
	return nil
}

// end notes that a pick has ended; u is nil if it was not answered in full. It returns the
// pick, which is forgotten, if its prompt has come; else nil, and the end is kept for
// placed.
func (p *picks) end(id pickID, now time.Time, u *usage) *pick {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.pick(id, now)
	switch {
	case o == nil:
		return nil
	case len(o.claims) > 0:
		return p.take(id)
	}
	o.ended = true
	if u != nil {
		o.full, o.usage = true, *u
	}
	if old := p.open[p.ended[p.next]]; old != nil && old.ended {
		p.take(p.ended[p.next])
	}
	p.ended[p.next] = id
	p.next = (p.next + 1) % mostEnded
	return nil
}

// placed returns a pick that had ended before its prompt came, and forgets it; nil if
// it has not.
func (p *picks) placed(id pickID) *pick {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.open[id]; o == nil || !o.ended {
		return nil
	}
	return p.take(id)
}

// leave forgets the picks of a router.
func (p *picks) leave(router string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.open {
		if id.router == router {
			p.take(id)
		}
	}
}

func (p *picks) sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, o := range p.open {
		if now.Sub(o.begun) > pickLife {
			p.take(id)
		}
	}
}
