package remote

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

const (
	maxWorkers = 1024             // calls under way to one replica
	idleWorker = 10 * time.Second // how long a worker waits for its next call
)

// unary carries each call as an RPC of its own. An RPC needs a goroutine to wait for
// it; goroutines are kept for the next call, since a fresh one would grow its stack
// anew each time.
type unary struct {
	session *session
	work    chan *flight

	mu      sync.Mutex
	closed  bool
	workers int
	running sync.WaitGroup
	ctx     context.Context // until hangUp
	cancel  context.CancelFunc
}

func newUnary(s *session) *unary {
	u := &unary{session: s, work: make(chan *flight)}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	return u
}

func (u *unary) hangUp() { u.cancel() }

// run waits for the end, then for the calls under way.
func (u *unary) run() error {
	<-u.ctx.Done()
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.running.Wait()
	return u.ctx.Err()
}

// submit hands the flight to an idle worker or a new one.
func (u *unary) submit(f *flight) error {
	select {
	case u.work <- f:
		return nil
	default:
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.closed:
		return errClosed
	case u.workers >= maxWorkers:
		return errFull
	}
	u.workers++
	u.running.Go(func() { u.worker(f) })
	return nil
}

// abandon cancels the flight's RPC, if it is under way.
func (u *unary) abandon(f *flight) {
	if cancel := f.cancel.Load(); cancel != nil {
		(*cancel)()
	}
}

func (u *unary) worker(f *flight) {
	idle := time.NewTimer(idleWorker)
	defer idle.Stop()
	for {
		u.fly(f)
		idle.Reset(idleWorker)
		select {
		case f = <-u.work:
			continue
		case <-u.ctx.Done():
		case <-idle.C:
		}
		u.mu.Lock()
		u.workers--
		u.mu.Unlock()
		return
	}
}

// fly carries one call.
func (u *unary) fly(f *flight) {
	ctx, cancel := context.WithDeadline(u.ctx, f.call.Deadline())
	f.cancel.Store(&cancel)
	if !f.call.Waiting() {
		cancel() // it was given up before there was anything to cancel
	}
	if tp := f.streamCall.Traceparent; tp != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", tp)
	}
	resp, err := u.session.score(ctx, f)
	f.cancel.Store(nil)
	cancel()
	if err == nil {
		f.answered(u.session, resp)
		return
	}
	if s := status.Convert(err); tooLarge(s) {
		u.session.breach("too_large", s.Message())
		f.faulted(u.session, fault{verdict: route.Failed, reason: s.Message(), blame: true})
		return
	}
	f.faulted(u.session, judgeError(err))
}

// score asks by table reference if the replica accepts that, and once more with the
// candidates listed if it does not hold the table.
func (s *session) score(ctx context.Context, f *flight) (*scorerv1.ScoreResponse, error) {
	set := s.replica.service.set
	if s.info.references {
		if s.info.follows && set.pending != nil && !s.replica.service.target.embedded {
			f.request.Pending = set.pending.Pending(s.applied.Load(), f.call.Snapshot().Table)
		}
		resp, err := s.invoke(ctx, f)
		if status.Code(err) != codes.FailedPrecondition || !judgeError(err).table {
			return resp, err
		}
		s.replica.service.tally.tableRetries.Add(1)
		f.request.Pending = nil
	}
	snapshot := f.call.Snapshot()
	f.request.Candidates = listed(snapshot, f.call.Candidates(), f.binding.needs, set.deps.Roster.Now(), time.Now())
	return s.invoke(ctx, f)
}

func (s *session) invoke(ctx context.Context, f *flight) (*scorerv1.ScoreResponse, error) {
	return s.client.Score(ctx, &f.request, s.options...)
}
