package outcome

import (
	"fmt"
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
	name   string   // of the first pick

	mu         sync.Mutex
	pick       *pick // nil once finished
	firstToken bool
}

// pick is one entry of the ledger.
type pick struct {
	id       uint64
	sequence uint64 // of the batch that carries it
	endpoint roster.ID
	prompt   uint32 // tokens
	uncached uint32 // tokens
	at       int64  // ns of the roster's clock
	ended    bool   // guarded by Ledger.mu
}

var _ route.Reservation = (*reservation)(nil)

// PickID names the reservation by its first pick.
func (r *reservation) PickID() string { return r.name }

// FirstToken reports the first byte of the answer, once.
func (r *reservation) FirstToken() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pick == nil || r.firstToken {
		return
	}
	r.firstToken = true
	elapsed := r.ledger.roster.Now() - r.pick.at
	r.ledger.add(r.pick.id, &statev1.OutcomeEvent_FirstToken{FirstToken: &statev1.FirstToken{ElapsedMs: milliseconds(elapsed)}})
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
	r.pick = r.ledger.begin(to.ID, old.prompt, old.prompt)
	r.firstToken = false
	if r.report != nil {
		r.report.Finished(time.Duration(r.ledger.roster.Now()-old.at), false, route.NoUsage())
		r.report.Moved(to.ID)
	}
}

// Finish ends the reservation; only the first call counts.
func (r *reservation) Finish(completed bool, u route.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pick == nil {
		return
	}
	elapsed := r.ledger.roster.Now() - r.pick.at
	r.ledger.finish(r.pick, completed, u)
	r.pick = nil
	if r.report != nil {
		r.report.Finished(time.Duration(elapsed), completed, u)
	}
}

func pickName(router string, id uint64) string { return fmt.Sprintf("%s/%d", router, id) }

// milliseconds turns ns into ms, as the wire has it.
func milliseconds(ns int64) uint32 {
	return uint32(min(max(ns, 0)/int64(time.Millisecond), 1<<31)) //nolint:gosec // bounded
}

func finished(elapsed int64, completed bool, u route.Usage) *statev1.Finished {
	f := &statev1.Finished{ElapsedMs: milliseconds(elapsed), Completed: completed}
	f.PromptTokenCount, f.CachedPromptTokenCount, f.OutputTokenCount = reported(u.PromptTokens), reported(u.CachedPromptTokens), reported(u.OutputTokens)
	return f
}

func reported(tokens int64) *uint32 {
	if tokens < 0 {
		return nil
	}
	n := uint32(min(tokens, 1<<31)) //nolint:gosec // bounded
	return &n
}
