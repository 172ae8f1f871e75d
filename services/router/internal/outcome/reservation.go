package outcome

import (
	"strconv"
	"sync"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// reservation is one request's place on an endpoint. A retry moves it, which ends
// one pick and begins another.
type reservation struct {
	ledger *Ledger
	report Reporter // nil if nobody wants to know
	first  uint64   // pick

	mu         sync.Mutex
	work       route.Work
	tokens     uint32 // of the prompt, that the endpoint would have to prefill
	pick       *pick  // nil once finished
	firstToken bool
	placed     []*statev1.PrefixPlacement // of the pick; nil once it cannot move
	unseen     *unseen                    // nil: whoever carries the work out tells when it is done
}

// pick is one entry of the ledger.
type pick struct {
	id       uint64
	sequence uint64 // of the batch that carries it
	endpoint roster.ID
	prompt   uint32      // tokens
	uncached uint32      // tokens
	at       int64       // ns of the roster's clock
	ended    bool        // guarded by Ledger.mu
	place    route.Place // over all routers; nil: not counted there

	table    *roster.Table // that position is in; guarded by Ledger.mu
	position int
}

// positionIn returns the endpoint's position in the table, below 0 if it has none. It
// looks once, since scorers are told of a pick many times. Call it with Ledger.mu held.
func (p *pick) positionIn(t *roster.Table) int {
	if p.table != t {
		pos, in := t.Position(p.endpoint)
		if !in {
			pos = -1
		}
		p.table, p.position = t, pos
	}
	return p.position
}

var (
	_ route.Reservation = (*reservation)(nil)
	_ route.Unseen      = (*reservation)(nil)
)

// PickID names the reservation by its first pick.
func (r *reservation) PickID() string { return pickName(r.ledger.id, r.first) }

// FirstToken reports the first byte of the answer, once.
func (r *reservation) FirstToken() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pick == nil || r.firstToken {
		return
	}
	r.firstToken = true
	r.placed = nil // nobody is tried after the first byte
	elapsed := r.ledger.roster.Now() - r.pick.at
	r.ledger.firstToken(r.pick, elapsed)
	if r.report != nil {
		r.report.FirstToken(time.Duration(elapsed))
	}
}

// Move ends the pick, whose endpoint failed, and begins one on another endpoint,
// which is not believed to hold anything of the prompt.
func (r *reservation) Move(to *roster.Endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pick == nil {
		return
	}
	old := r.pick
	r.ledger.finish(old, false, route.NoUsage())
	r.pick, r.tokens = r.ledger.begin(to.ID, old.prompt, r.prefills(old.prompt), nil), old.prompt
	r.firstToken = false
	r.placed = r.ledger.replace(r.placed, r.pick)
	if r.report != nil {
		r.report.Finished(time.Duration(r.ledger.roster.Now()-old.at), false, route.NoUsage())
		r.report.Moved(to.ID)
	}
}

// PrefillHere counts the prompt's tokens at the endpoint, which was to decode only and has
// to prefill as well: its pick ends, and another one begins. Implements
// route.LocalPrefiller.
func (r *reservation) PrefillHere() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pick == nil || r.work != route.WorkDecode {
		return
	}
	r.work = route.WorkAll
	if r.tokens == 0 {
		return
	}
	old := r.pick
	r.ledger.finish(old, false, route.NoUsage())
	r.pick = r.ledger.begin(old.endpoint, old.prompt, r.tokens, nil)
	r.placed = r.ledger.replace(r.placed, r.pick)
}

// prefills returns the tokens that the endpoint prefills, of as many as it would have to.
func (r *reservation) prefills(tokens uint32) uint32 {
	if r.work == route.WorkDecode || r.work == route.WorkEncode {
		return 0
	}
	return tokens
}

// Finish ends the reservation; only the first call counts.
func (r *reservation) Finish(completed bool, u route.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(completed, u, byAnswer)
}

// end ends the reservation. Call it with mu held.
func (r *reservation) end(completed bool, u route.Usage, by ending) {
	if r.pick == nil {
		return
	}
	if r.work == route.WorkDecode {
		u.CachedPromptTokens = -1 // what was transferred to the endpoint was not in its cache
	}
	elapsed := r.ledger.roster.Now() - r.pick.at
	r.ledger.finish(r.pick, completed, u)
	if r.unseen != nil {
		r.unseen.settle(r.ledger, r.pick, completed, by, elapsed)
	}
	r.pick, r.placed = nil, nil
	if r.report != nil {
		r.report.Finished(time.Duration(elapsed), completed, u)
	}
}

func pickName(router string, id uint64) string { return router + "/" + strconv.FormatUint(id, 10) }

// milliseconds turns ns into ms, as the wire has it.
func milliseconds(ns int64) uint32 {
	return uint32(min(max(ns, 0)/int64(time.Millisecond), 1<<31)) //nolint:gosec // bounded
}
