package scorer

import (
	"bytes"
	"slices"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// mostRecent is how many different questions of one message are remembered: one for each
// instance that a profile asks of a service is enough.
const mostRecent = 4

// asked is what a call asks, apart from the request to be routed. It is a part of the call.
type asked struct {
	scorerType string
	parameters []byte
	table      *scorerv1.TableReference // nil: it cannot be compared
	pending    *scorerv1.PendingPicks
}

func question(req *scorerv1.ScoreRequest) asked {
	if req.GetExplain() {
		return asked{}
	}
	return asked{req.GetScorerType(), req.GetParametersJson(), req.GetTable(), req.GetPending()}
}

func (a *asked) equal(b *asked) bool {
	return a.scorerType == b.scorerType && bytes.Equal(a.parameters, b.parameters) &&
		a.table.GetTableDigest() == b.table.GetTableDigest() && slices.Equal(a.table.GetPositions(), b.table.GetPositions()) &&
		(a.pending == nil) == (b.pending == nil) && a.pending.GetRouterId() == b.pending.GetRouterId() &&
		slices.Equal(a.pending.GetSequences(), b.pending.GetSequences()) && slices.Equal(a.pending.GetPositions(), b.pending.GetPositions()) &&
		slices.Equal(a.pending.GetUncachedTokenCounts(), b.pending.GetUncachedTokenCounts())
}

// recent are answers of the message that is being made which would be the same for any
// request.
type recent struct {
	all  [mostRecent]answered
	next int
}

type answered struct {
	asked asked
	slot  *slot // nil: none
}

// note remembers an answer. Types count what they abstain on by themselves, so answers with
// abstentions are made anew.
func (r *recent) note(a asked, s *slot) {
	if a.table == nil || s.response.GetAbstainedOnAll() || len(s.response.GetAbstainedIndices()) > 0 {
		return
	}
	r.all[r.next%mostRecent] = answered{a, s}
	r.next++
}

// find returns the answer to a call that is like another; nil if there is none.
func (r *recent) find(req *scorerv1.ScoreRequest) *answered {
	if r.next == 0 {
		return nil
	}
	a := question(req)
	if a.table == nil {
		return nil
	}
	for i := range r.all {
		if b := &r.all[i]; b.slot != nil && a.equal(&b.asked) && checkRequest(req) == nil {
			return b
		}
	}
	return nil
}

// forget lets go of all of them.
func (r *recent) forget() { *r = recent{} }
