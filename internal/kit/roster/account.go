package roster

import "sync"

// account counts what was sent to one endpoint. Counts are read without a lock.
type account struct {
	slot

	mu       sync.Mutex
	uncaught []*pick // credited picks, oldest first
}

// pick is one request on one endpoint.
type pick struct {
	account  *account
	at       int64 // ns of the roster's clock
	tokens   int64 // uncached prompt tokens
	credited bool  // guarded by account.mu
}

func (a *account) add(tokens, at int64, credited bool) *pick {
	p := &pick{account: a, at: at, tokens: tokens, credited: credited}
	a.inFlight().Add(1)
	a.inFlightTokens().Add(tokens)
	if !credited {
		return p
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uncaught = append(a.uncaught, p)
	a.credit().Add(1)
	a.creditTokens().Add(tokens)
	return p
}

func (p *pick) end() {
	a := p.account
	a.inFlight().Add(-1)
	a.inFlightTokens().Add(-p.tokens)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !p.credited {
		return
	}
	for i, q := range a.uncaught {
		if q == p {
			a.uncaught = append(a.uncaught[:i], a.uncaught[i+1:]...)
			break
		}
	}
	a.uncredit(p)
}

// settle ends the credit of the picks that a scrape must have seen.
func (a *account) settle(saw func(at int64) bool) {
	if a.credit().Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := a.uncaught[:0]
	for _, p := range a.uncaught {
		if saw(p.at) {
			a.uncredit(p)
			continue
		}
		kept = append(kept, p)
	}
	clear(a.uncaught[len(kept):])
	a.uncaught = kept
}

func (a *account) uncredit(p *pick) {
	p.credited = false
	a.credit().Add(-1)
	a.creditTokens().Add(-p.tokens)
}
