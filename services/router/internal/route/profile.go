package route

import (
	"context"
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// Cycle is the scheduling of one request: everything that filters, scorers and
// pickers may look at.
type Cycle struct {
	// Request is what is to be routed.
	Request *Request
	// Snapshot is the roster as it stood when the cycle began. Candidates are
	// positions in its table.
	Snapshot *roster.Snapshot
	// Now is the time of the cycle on the roster's clock, in ns.
	Now int64
	// Explain asks scorers for words and records which filter dropped whom.
	Explain bool
	// Rand returns a uniform number in [0, n). It is safe for concurrent use.
	Rand func(n int) int
}

// Filter drops candidates. It is a pure function of the cycle, safe for concurrent
// use.
type Filter interface {
	// Name is the plug-in's name in the configuration.
	Name() string
	// Filter returns the candidates that stay, in their order. It may write into
	// the array of in. An empty answer means that nobody fits.
	Filter(c *Cycle, in []int32) []int32
}

// LoadFilter is a Filter that drops candidates for being loaded: when it leaves
// nobody, the client is told to come back (429) and not that nobody is there (503).
type LoadFilter interface {
	Filter
	// FiltersLoad marks the filter.
	FiltersLoad()
}

// Scorer is one scorer instance in a profile.
type Scorer struct {
	// Plugin is the instance's name in the configuration.
	Plugin string
	// Type is the scorer type, as configured.
	Type string
	// Service is the scorer service that answers for the type.
	Service string
	// Weight multiplies its scores. Any finite number.
	Weight float64
	// Asked is what the fan-out calls; it belongs to the implementation.
	Asked any
	// FailClosed fails the request if this scorer gives no answer.
	FailClosed bool
}

// Verdict says how a scorer call went.
type Verdict uint8

// Verdicts.
const (
	Scored    Verdict = iota + 1 // scores came
	Abstained                    // it abstained on every candidate
	TimedOut                     // it was too late
	Failed                       // it failed or broke the contract
	Skipped                      // it was not asked: breaker open, or not connected
)

// String returns the verdict as in metrics: "scored", "abstained", "timeout",
// "failed", "skipped".
func (v Verdict) String() string {
	switch v {
	case Scored:
		return "scored"
	case Abstained:
		return "abstained"
	case TimedOut:
		return "timeout"
	case Failed:
		return "failed"
	case Skipped:
		return "skipped"
	default:
		return "unknown"
	}
}

// Scores is one scorer's answer in one profile run.
type Scores struct {
	// Verdict says how the call went. Values are only read for Scored.
	Verdict Verdict
	// Reason says in words why there are no scores.
	Reason string
	// Values holds one score per candidate, 0..1, finite.
	Values []float32
	// AbstainedOn holds the candidate indices without an opinion, ascending.
	AbstainedOn []uint32
	// Matched holds the leading prompt blocks that each candidate holds; nil
	// unless it is a prefix scorer.
	Matched []uint32
	// BlockSize is the bytes of prompt in one of Matched's blocks.
	BlockSize int
	// Blocks is how many blocks of the prompt there were to match.
	Blocks int
	// StateAge is the age of the oldest state used; negative if not state-based.
	StateAge time.Duration
	// Elapsed is the time from asking to the answer.
	Elapsed time.Duration
	// RequestsPerPoint is how many more requests take one whole point from a
	// candidate, if the scorer rates by counts of requests, so that picks made since
	// the call have changed its opinion; 0 if it does not.
	RequestsPerPoint float64
	// Texts holds explanations by candidate index; nil unless asked for.
	Texts map[uint32]string
	// Neutral is what the candidates in AbstainedOn were given instead: the mean of
	// the scores that came. Set by the Scheduler.
	Neutral float64
}

// Of returns the scorer's own score of a candidate, and false if it gave none.
func (s *Scores) Of(candidate int) (float32, bool) {
	if s.Verdict != Scored || candidate < 0 || candidate >= len(s.Values) {
		return 0, false
	}
	if _, abstained := slices.BinarySearch(s.AbstainedOn, uint32(candidate)); abstained { //nolint:gosec // an index
		return 0, false
	}
	return s.Values[candidate], true
}

// Believed returns Matched of an answer that kept the rules of the contract, and nil of
// one that did not.
func (s *Scores) Believed() []uint32 {
	if s.Verdict != Scored && s.Verdict != Abstained {
		return nil
	}
	return s.Matched
}

// Fan asks scorers. An implementation never blocks past ctx's deadline or its own.
type Fan interface {
	// Score asks every scorer about every candidate at once. out has one entry
	// per scorer, to be filled in whatever happens, and in the room that its Values and
	// Matched have, if any. candidates are ascending and
	// must not be changed. It takes no longer than the Fan's own time and the request's
	// Deadline allow, and ends with ctx.
	Score(ctx context.Context, c *Cycle, scorers []Scorer, candidates []int32, out []Scores)
}

// Picker orders candidates by their totals. It is safe for concurrent use.
type Picker interface {
	// Name is the plug-in's name in the configuration.
	Name() string
	// Max is how many endpoints the configuration asks for, at least 1.
	Max() int
	// Pick returns at most n indices into candidates, best first, appended to dst,
	// and says in words how a tie for the first place was broken ("" if none was).
	// inFlight gives the requests in flight per candidate index.
	Pick(c *Cycle, candidates []int32, totals []float64, inFlight []int64, n int, dst []int32) (picked []int32, tieBreak string)
}

// Profile is a named list of plug-ins.
type Profile struct {
	// Name is the SchedulingProfile's name.
	Name string
	// Filters run in order, from the first ScoredFilter on after scoring; a profile
	// without any keeps every candidate.
	Filters []Filter
	// Scorers are asked all at once.
	Scorers []Scorer
	// Learners are scorers of other profiles which are told of this profile's picks too,
	// since what its endpoints then hold is theirs to know. They are not asked.
	Learners []Scorer
	// Picker is never nil.
	Picker Picker
}

// Handler decides which profiles run and which result is the request's. The pick of
// every profile that runs is reserved at once. It is safe for concurrent use.
type Handler interface {
	// Name is the plug-in's name in the configuration.
	Name() string
	// Next returns the profiles to run now, given the results so far; none means
	// that all is done.
	Next(c *Cycle, profiles []*Profile, done []*ProfileResult) []*Profile
	// Primary returns the result that names the endpoint.
	Primary(c *Cycle, done []*ProfileResult) (*ProfileResult, error)
}

// ProfileResult is how one profile went.
type ProfileResult struct {
	// Profile is the profile.
	Profile *Profile
	// Candidates are the positions that were scored, less those that a filter dropped
	// after scoring. Ascending.
	Candidates []int32
	// Scores has one entry per Profile.Scorers.
	Scores []Scores
	// Totals are the weighted sums, one per candidate, corrected for picks made
	// since scoring. With LeastLoad they are 1/(1+load).
	Totals []float64
	// LeastLoad is true if the profile has scorers and none of them gave a score,
	// so that candidates went by the load known to the router.
	LeastLoad bool
	// Corrected is true if picks made since scoring changed Totals, so that they
	// are no longer the plain weighted sums.
	Corrected bool
	// InFlight are the requests in flight per candidate when the pick was made.
	InFlight []int64
	// Ranked are indices into Candidates, best first; the first is the pick.
	Ranked []int32
	// TieBreak says how a tie was broken; empty if there was none.
	TieBreak string
	// DroppedBy names, per table position, the filter that dropped it. Nil unless
	// Cycle.Explain.
	DroppedBy []string
	// Work is what the pick is to do.
	Work Work
	// Place is the pick's over all routers, if it was reserved so; it belongs to the
	// Reservation, which releases it.
	Place Place
	// Reservation is the pick's; nil for a dry run or without a pick.
	Reservation Reservation
	// Err is why the profile came to nothing.
	Err error
}

// Best returns the position of the pick and true, or false if there is none.
func (r *ProfileResult) Best() (int32, bool) {
	if r == nil || r.Err != nil || len(r.Ranked) == 0 {
		return 0, false
	}
	return r.Candidates[r.Ranked[0]], true
}
