package fanout

import (
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// States of a call. It leaves waiting once, by compare-and-swap, and only who moved
// it may write what came of it.
const (
	waiting uint32 = iota + 1
	answered
	late
	givenUp
)

// Call is one question to one instance. It belongs to a pool: it is valid during
// Instance.Start, and afterwards for as long as it is held.
type Call struct {
	// Own is the instance's to use. It outlives the call, so that what is kept here
	// can be used again; another kind of instance may have left something else.
	Own any

	round    *round
	asked    Instance
	state    atomic.Uint32
	began    time.Time
	deadline time.Time
	overdue  uint32       // the state it goes to at its deadline: late or givenUp
	scores   route.Scores // written by who moved state to answered
	values   []float32    // room for those of scores
	matched  []uint32     // the same
	span     trace.Span   // nil unless the request is traced

	inputs inputs
}

// Hold keeps the call alive until Release. Hold it before Start returns, or while
// another hold lasts.
func (c *Call) Hold() { c.round.refs.Add(1) }

// Release ends one Hold. The call must not be touched afterwards.
func (c *Call) Release() { c.round.release() }

// Waiting says whether somebody still waits for the answer.
func (c *Call) Waiting() bool { return c.state.Load() == waiting }

// Deadline is when nobody will wait any more.
func (c *Call) Deadline() time.Time { return c.deadline }

// Explain says whether words are asked for.
func (c *Call) Explain() bool { return c.round.explain }

// Snapshot is the view that the candidates are positions in.
func (c *Call) Snapshot() *roster.Snapshot { return c.round.snapshot }

// Candidates are the positions of the candidates, ascending. Not to be changed.
func (c *Call) Candidates() []uint32 { return c.round.candidates }

// WholeTable says whether the candidates are all endpoints of the table.
func (c *Call) WholeTable() bool { return len(c.round.candidates) == c.round.snapshot.Len() }

// Traceparent is the W3C trace context of the call; empty unless it is sampled.
func (c *Call) Traceparent() string { return traceparent(c.span) }

// Claim says that there is an answer, so that nobody gives the call up any more: Settle
// must follow at once. It returns false, and has done nothing, if nobody waits.
func (c *Call) Claim() bool { return c.state.CompareAndSwap(waiting, answered) }

// Check holds the scorer's answer to a claimed call against the contract; see the function
// Check. What it returns is for Settle, and shares no memory with resp.
func (c *Call) Check(resp *scorerv1.ScoreResponse, e Expect) (route.Scores, Breach) {
	return Check(resp, len(c.round.candidates), e, c.values, c.matched)
}

// Settle ends a claimed call.
func (c *Call) Settle(s route.Scores) {
	s.Elapsed = time.Since(c.began)
	c.scores = s
	if c.round.pending.Add(-1) == 0 {
		c.round.done <- struct{}{}
	}
}

// Answer ends the call with scores that keep the contract. It returns false, and has done
// nothing, if nobody waits any more.
func (c *Call) Answer(s route.Scores) bool {
	claimed := c.Claim()
	if claimed {
		c.Settle(s)
	}
	return claimed
}

// Refuse ends the call without scores: v is TimedOut, Failed or Skipped, reason says
// why. It returns false, and has done nothing, if nobody waits any more.
func (c *Call) Refuse(v route.Verdict, reason string) bool {
	return c.Answer(refused(v, reason, 0))
}
