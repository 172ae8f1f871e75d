package fanout

import (
	"time"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Instance is one scorer instance that can be asked: what route.Scorer.Asked holds.
// Safe for concurrent use.
type Instance interface {
	// Timeout is the most time that a call may take; zero for no limit of its own.
	Timeout() time.Duration
	// Start asks and returns at once. Each Start leads to one call of Call.Claim,
	// Call.Answer or Call.Refuse, at once or later, on any goroutine. Whoever uses the call
	// after Start has returned holds it (Call.Hold).
	Start(call *Call)
	// End tells what came of a call, once for each Start, on the request's
	// goroutine. Unless e is Answered, nobody waits any more and the work should
	// stop.
	End(call *Call, s *route.Scores, e Ending)
}

// Ending says how the wait for a call ended.
type Ending uint8

// Endings.
const (
	Answered Ending = iota + 1 // an answer or a refusal came in time
	Late                       // the call's time was up
	GivenUp                    // the whole request was given up
)

// Needs is what an instance must be given with each request.
type Needs struct {
	// Prefix asks for prefix blocks of BlockSize bytes, at most BlockLimit.
	Prefix                bool
	BlockSize, BlockLimit int
	// FollowsCache makes blocks as large as those of the endpoints' KV cache instead,
	// where endpoints tell.
	FollowsCache bool
	// PromptText asks for the prompt itself. It holds user data.
	PromptText bool
	// Headers are the lower-case names of the headers asked for.
	Headers []string
}

// Expect is what an answer is held against, and what is added to it.
type Expect struct {
	// BlockSize is the bytes in one block of the prefix that was sent; 0 if none was.
	BlockSize int
	// Blocks is how many were sent.
	Blocks int
}

// Breach is a rule of the contract that an answer broke. The zero Breach is none.
type Breach struct {
	// Kind is one word, for metrics: "count", "not_finite", "range", "abstained",
	// "requests_per_point", "matched".
	Kind string
	// Reason says it in words.
	Reason string
}

// Broken says whether there is one.
func (b Breach) Broken() bool { return b.Kind != "" }
