package remote

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/fanout"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

const (
	// maxCallBytes is the largest call that is sent, so that one prompt cannot break
	// a stream which other calls are on.
	maxCallBytes = 2 << 20
	// minMove is the least time left with which a call is asked a second time.
	minMove = time.Millisecond
)

// flight is one call on its way. It is kept in Call.Own and so used again; it is held
// from departure to landing, and belongs to whichever transport it is with.
type flight struct {
	call     *fanout.Call
	instance *Instance
	id       uint64
	binding  *binding
	moved    bool // it was with another replica before
	relearnt bool // its table was not held and it has been asked again
	queued   bool // guarded by stream.mu
	writing  bool // its request is being encoded; guarded by stream.mu
	bytes    int  // estimated size on the wire

	session atomic.Pointer[session]            // where it is
	cancel  atomic.Pointer[context.CancelFunc] // of a unary call under way
	until   until                              // of an embedded one

	request    scorerv1.ScoreRequest
	table      scorerv1.TableReference
	byTable    scorerv1.ScoreRequest_Table
	streamCall scorerv1.StreamCall
}

func newFlight(call *fanout.Call) *flight {
	f := &flight{call: call}
	f.byTable.Table = &f.table
	f.streamCall.Request = &f.request
	call.Own = f
	return f
}

func (f *flight) begin(in *Instance, id uint64) {
	f.instance, f.id, f.binding = in, id, nil
	f.moved, f.relearnt, f.queued = false, false, false
	f.session.Store(nil)
}

// fill writes the request down. It must run within Start.
func (f *flight) fill(n *needs) {
	r := &f.request
	r.ScorerType, r.ParametersJson = f.instance.typ, f.instance.parameters
	r.Request = f.call.Inference(&n.Needs)
	f.table.TableDigest = f.call.Snapshot().Table.Digest
	f.table.Positions = f.call.Candidates()
	if f.call.WholeTable() {
		f.table.Positions = nil
	}
	f.streamCall.CallId, f.streamCall.Traceparent = f.id, f.call.Traceparent()
	f.bytes = 512 + len(r.ParametersJson) + len(r.Request.PromptText) + 8*len(r.Request.Prefix.GetHashes()) + 3*len(f.table.Positions)
	for _, h := range r.Request.Headers {
		f.bytes += len(h.Name) + len(h.Value)
	}
}

// depart sends the call to a replica other than not, or refuses it and returns false.
// The caller's hold goes with it.
func (f *flight) depart(not *session, first bool) bool {
	for {
		b := f.instance.choose(f.id, not)
		if b == nil {
			f.call.Refuse(route.Skipped, f.instance.why())
			return false
		}
		if first {
			f.fill(b.needs)
			first = false
		}
		if f.bytes > maxCallBytes {
			b.session.replica.breaker.forget(f.id)
			f.call.Refuse(route.Skipped, "the request is larger than a scorer is sent")
			return false
		}
		f.binding = b
		f.request.Explain = b.session.info.explains && f.call.Explain()
		f.request.Candidates, f.request.Pending = &f.byTable, nil
		f.session.Store(b.session)
		b.session.replica.open.Add(1)
		err := b.session.submit(f)
		if err == nil {
			return true
		}
		b.session.replica.open.Add(-1)
		b.session.replica.breaker.forget(f.id)
		if errors.Is(err, errFull) {
			f.call.Refuse(route.Skipped, err.Error())
			return false
		}
		not = b.session // it ended this moment
	}
}

// abandon is called when nobody waits any more. late says that the scorer is to blame.
func (f *flight) abandon(late bool) {
	s := f.session.Load()
	if s == nil {
		return
	}
	if late {
		s.replica.failure(f.id, lateWords)
	} else {
		s.replica.breaker.forget(f.id)
	}
	s.abandon(f)
}

// answered lands the flight with a scorer's answer. What there is to count is counted
// before the request goes on.
func (f *flight) answered(s *session, resp *scorerv1.ScoreResponse) {
	s.heard(resp.GetAppliedOutcomeSequence())
	if !f.call.Claim() {
		f.land(s)
		return
	}
	prefix := f.request.Request.GetPrefix()
	scores, breach := f.call.Check(resp, fanout.Expect{
		BlockSize: int(prefix.GetBlockSizeBytes()), Blocks: len(prefix.GetHashes()),
	})
	if breach.Broken() {
		s.replica.failure(f.id, breach.Reason)
		s.breach(breach.Kind, breach.Reason)
	} else {
		s.replica.success(f.id)
	}
	s.replica.open.Add(-1)
	f.call.Settle(scores)
	f.call.Release()
}

// faulted lands the flight with an error, or sends it elsewhere. If nobody waits any
// more, whoever gave up has told the breaker.
func (f *flight) faulted(s *session, why fault) {
	if !f.call.Waiting() {
		f.land(s)
		return
	}
	if why.blame {
		s.replica.failure(f.id, why.reason)
	} else {
		s.replica.breaker.forget(f.id)
		s.replica.service.failed(why.reason)
	}
	s.replica.open.Add(-1)
	if why.elsewhere && f.mayMove() {
		f.move(s)
		return
	}
	f.call.Refuse(why.verdict, why.reason)
	f.call.Release()
}

// mayMove says whether the call may be asked of another replica.
func (f *flight) mayMove() bool {
	return !f.moved && f.call.Waiting() && time.Until(f.call.Deadline()) > minMove && f.instance.others(f.binding.session)
}

// move sends the flight to another replica than s.
func (f *flight) move(s *session) {
	f.moved = true
	s.replica.service.tally.moved.Add(1)
	f.call.Hold() // it may land at once
	defer f.call.Release()
	if !f.depart(s, false) {
		f.call.Release()
		return
	}
	f.recall()
}

// recall abandons a flight that was given up while it was between two places: whoever did
// that found it at neither. Call it with a hold of one's own.
func (f *flight) recall() {
	if s := f.session.Load(); !f.call.Waiting() {
		s.abandon(f)
	}
}

// land ends a flight that nobody waits for. Whoever gave up has told the breaker, but
// perhaps that of another replica, from which the flight moved at the same moment: a
// probe that ends here must not be waited for.
func (f *flight) land(s *session) {
	s.replica.breaker.forget(f.id)
	s.replica.open.Add(-1)
	f.call.Release()
}
