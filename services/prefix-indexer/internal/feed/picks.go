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
	chains    [][]uint64 // of the claims; none unless they are wanted at the end

	ended bool // answered in full, before its prompt came
	usage usage
}

// usage is what an engine reports of a request; told.NotReported each.
type usage struct{ prompt, cached int64 }

// picks is all of them. Safe for concurrent use.
type picks struct {
	mu    sync.Mutex
	open  map[pickID]*pick
	ended [mostEnded]pickID // those whose prompt may come yet, in a ring
	next  int
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

// drop waits for the end of a pick no longer.
func (p *picks) drop(id pickID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, id)
}

// end notes that a pick was answered in full. It returns the pick, which is forgotten, if
// its prompt has come; else nil, and the end is kept for placed.
func (p *picks) end(id pickID, now time.Time, u usage) *pick {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.open[id]
	switch {
	case o != nil && len(o.claims) > 0:
		delete(p.open, id)
		return o
	case o == nil && len(p.open) >= mostPicks:
		return nil
	case o == nil:
		o = &pick{begun: now}
		p.open[id] = o
	}
	o.ended, o.usage = true, u
	if old := p.open[p.ended[p.next]]; old != nil && old.ended {
		delete(p.open, p.ended[p.next])
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
	o := p.open[id]
	if o == nil || !o.ended {
		return nil
	}
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
