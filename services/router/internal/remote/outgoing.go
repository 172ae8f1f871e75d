package remote

import (
	"time"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// outgoing is the writer's end of a stream. One goroutine uses it.
type outgoing struct {
	batch     []*flight
	cancelled []uint64
	lessons   lessons
	began     bool
	message   scorerv1.ScoreStreamRequest
	calls     []*scorerv1.StreamCall
	pending   []pendingOf
}

// pendingOf is the pending picks for one table, the same for all calls of a batch.
type pendingOf struct {
	digest uint64
	picks  *scorerv1.PendingPicks
}

// send writes the batch down and sends it, after the tables that it refers to. The
// peer handles tables first, so they may be in a message of their own, which keeps a
// large one from making a batch too large.
func (o *outgoing) send(s *session, send func(any) error, now time.Time) error {
	m := &o.message
	o.calls, o.pending = o.calls[:0], o.pending[:0]
	m.Tables, m.Loads = nil, nil
	for _, f := range o.batch {
		left := f.call.Deadline().Sub(now).Microseconds()
		if left <= 0 {
			continue // whoever waits gives it up this moment
		}
		if t := o.lessons.table(f, s.wants.Load()); t != nil {
			if err := o.sendOne(s, send, &scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{t}}); err != nil {
				return err
			}
			s.replica.service.tally.taught.Add(1)
		}
		f.streamCall.TimeoutUs = uint32(min(left, 1<<32-1)) //nolint:gosec // bounded
		f.request.Pending = o.pendingFor(s, f)
		o.calls = append(o.calls, &f.streamCall)
	}
	if s.wants.Load()&(wantLoad|wantAdapters) != 0 && !s.info.follows {
		m.Loads = o.lessons.loads(s.replica.service.set.deps.Roster, o.batch, s.wants.Load())
	}
	m.Calls, m.CancelledCallIds = o.calls, o.cancelled
	if len(o.calls) == 0 && len(o.cancelled) == 0 {
		return nil // all were given up in the queue
	}
	if len(o.calls) > 0 {
		s.replica.service.set.metrics.batchCalls.Record(background, int64(len(o.calls)), s.replica.service.tally.labels...)
	}
	return o.sendOne(s, send, m)
}

func (o *outgoing) sendOne(s *session, send func(any) error, m *scorerv1.ScoreStreamRequest) error {
	m.RouterId, m.AcceptsSameAnswers = "", false
	if !o.began {
		m.RouterId, m.AcceptsSameAnswers, o.began = s.replica.service.set.deps.RouterID, true, true
	}
	return send(m)
}

// pendingFor returns the picks that the peer may not have heard of, asked for once per
// batch and table.
func (o *outgoing) pendingFor(s *session, f *flight) *scorerv1.PendingPicks {
	if !s.info.follows || s.replica.service.set.pending == nil {
		return nil
	}
	digest := f.table.TableDigest
	for _, p := range o.pending {
		if p.digest == digest {
			return p.picks
		}
	}
	picks := s.replica.service.set.pending.Pending(s.applied.Load(), f.call.Snapshot().Table)
	o.pending = append(o.pending, pendingOf{digest, picks})
	return picks
}

// cells is how many scores the answer to the call will have, for bounding messages.
// Words take much more room than scores.
func (f *flight) cells() int {
	n := len(f.call.Candidates())
	if f.request.Explain {
		n *= 32
	}
	return n
}
