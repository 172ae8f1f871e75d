package feed

import (
	"sync"
	"time"

	"github.com/pointsman/pointsman/services/prefix-indexer/internal/audit"
)

const (
	// mostPicks bounds the memory of picks whose end is waited for, at some 200 bytes
	// each. Those beyond are not followed.
	mostPicks = 1 << 16
	// pickLife is how long an end is waited for.
	pickLife = 15 * time.Minute
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
	chains    [][]uint64 // of the claims; none unless they are wanted at the end
}

// picks is all of them. Safe for concurrent use.
type picks struct {
	mu   sync.Mutex
	open map[pickID]*pick
}

// change calls f with the pick, a new one if need be, unless there are too many.
func (p *picks) change(id pickID, now time.Time, f func(*pick)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.open[id]
	if o == nil {
		if len(p.open) >= mostPicks {
			return
		}
		o = &pick{begun: now}
		p.open[id] = o
	}
	f(o)
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

// end returns a pick and waits for it no longer; nil if it is not known.
func (p *picks) end(id pickID) *pick {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.open[id]
	delete(p.open, id)
	return o
}

// leave forgets the picks of a router.
func (p *picks) leave(router string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.open {
		if id.router == router {
			delete(p.open, id)
		}
	}
}

func (p *picks) sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, o := range p.open {
		if now.Sub(o.begun) > pickLife {
			delete(p.open, id)
		}
	}
}
