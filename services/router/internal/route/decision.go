package route

import (
	"errors"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// Reasons why there is no pick. Fronts map them to statuses: 503, 429, 503. A
// decision whose context ended while scorers were being asked has the context's
// error instead.
var (
	// ErrNoEndpoint says that nobody can serve the request.
	ErrNoEndpoint = errors.New("no endpoint can serve the request")
	// ErrShed says that there is no room for the request now.
	ErrShed = errors.New("no room for the request")
	// ErrScorerFailed says that a scorer with failurePolicy Fail gave no answer.
	ErrScorerFailed = errors.New("a scorer that must answer did not")
)

// Decision is how one request was decided. It is immutable once made; see Keep for what
// does not last.
type Decision struct {
	// Request is what was decided.
	Request *Request
	// Snapshot is what it was decided on.
	Snapshot *roster.Snapshot
	// Config is the configuration it was decided by, all of it.
	Config *Config
	// Time is when, by the wall clock.
	Time time.Time
	// Elapsed is how long it took.
	Elapsed time.Duration
	// Results are the profiles that ran, in order.
	Results []*ProfileResult
	// Endpoint is the pick; nil if there is none.
	Endpoint *roster.Endpoint
	// Fallbacks are further endpoints of the primary profile, best first.
	Fallbacks []*roster.Endpoint
	// Reservation is that of Endpoint; nil for a dry run or without a pick. Whoever
	// carries the request out must finish it, which ends those of the other profiles
	// too; they may be ended before, by ProfileResult.Reservation.
	Reservation Reservation
	// Plan is how further endpoints take part. Nil: the request goes to Endpoint, and all
	// is said.
	Plan *Plan
	// Err is why there is no pick: wraps one of the errors above.
	Err error
	// Admission is whether the request was let in. A request that was not has no
	// Results.
	Admission Admission
	// QuarantineWaived is true if every endpoint that could serve the request, or that the
	// profiles' filters let through, was in quarantine, so that quarantine was not heeded.
	QuarantineWaived bool
	// DryRun is true if nothing was reserved.
	DryRun bool
	// Pool is the pool that was decided about.
	Pool string
	// SessionHeaders are the lower-case names of the response headers in which the
	// client is to be given a token for the endpoint: see ResponseHeaders.
	SessionHeaders []string

	columns *columns // that its results were lent; nil: none
	kept    bool
}

// Keep has the decision keep its columns, for an Observer that looks at them later: the
// Totals and InFlight of its results, and the Values and Matched of their Scores. They are nil
// else once all observers have been told, since an answer may be minutes in coming. Those of
// a dry run stay. It must be called within Observer.Decided.
func (d *Decision) Keep() { d.kept = true }

// forget lets other decisions use the columns of this one, unless somebody keeps them.
func (d *Decision) forget() {
	c := d.columns
	if c == nil || d.kept {
		return
	}
	d.columns = nil
	for _, r := range d.Results {
		r.Totals, r.InFlight = nil, nil
		for i := range r.Scores {
			r.Scores[i].Values, r.Scores[i].Matched = nil, nil
		}
	}
	c.home.Put(c)
}

// Usage is what the model server says it has done. Negative: not reported.
type Usage struct {
	PromptTokens, CachedPromptTokens, OutputTokens int64
}

// NoUsage is a Usage in which nothing is reported.
func NoUsage() Usage { return Usage{-1, -1, -1} }

// Reservation is one pick's place on an endpoint. It ends once: the first Finish
// counts, later ones do nothing. Safe for concurrent use.
type Reservation interface {
	// PickID names the pick, unique in all routers.
	PickID() string
	// FirstToken reports the first byte of the answer.
	FirstToken()
	// Move ends the reservation on its endpoint, which failed, and makes one on
	// another, for a retry. Does nothing after Finish.
	Move(to *roster.Endpoint)
	// Finish ends it; completed says that the endpoint answered in full.
	Finish(completed bool, u Usage)
}

// Ledger makes reservations.
type Ledger interface {
	// Reserve counts a pick on the endpoint, here at once and everywhere soon. res
	// is the profile result that chose it.
	Reserve(c *Cycle, e *roster.Endpoint, res *ProfileResult) Reservation
}

// Quarantine says which endpoints are not to be picked for now.
type Quarantine interface {
	// Reason returns why the endpoint is out, "" if it is in. now is on the
	// roster's clock.
	Reason(id roster.ID, now int64) string
	// Suspects returns those who may be out, each once; nil if nobody is. The slice
	// is shared and must not be changed.
	Suspects() []roster.ID
}
