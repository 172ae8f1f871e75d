package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

const (
	askTimeout   = 2 * time.Second // for GetScorerInfo and ValidateParameters
	maxInfoBytes = 1 << 20         // of either answer
	drainTimeout = time.Second     // for open calls, when a session ends in peace
)

// errConnection says that the connection went away; errLeaving that the replica did.
var (
	errConnection = errors.New("the connection was closed")
	errLeaving    = errors.New("its address is gone")
)

// session is one connected life of a replica: from GetScorerInfo to the loss of the
// connection or of the stream. What a replica said holds for a session.
type session struct {
	replica *replica
	info    *info
	client  scorerv1.ScorerServiceClient
	options []grpc.CallOption // of a unary Score
	streams bool
	line    line
	ready   atomic.Bool   // calls may go to it
	silent  sync.Map      // scorer types about whose parameters it was asked last and did not answer
	applied atomic.Uint64 // the last outcome batch of ours that it has applied
	wants   atomic.Uint32 // what of the endpoints any instance asked for: want*
}

// What instances ask for of the endpoints, as bits.
const (
	wantLabels uint32 = 1 << iota
	wantLoad
	wantAdapters
)

// line carries calls to a replica.
type line interface {
	// submit takes a flight, whose fate it then decides, or returns an error.
	submit(f *flight) error
	// abandon stops what nobody waits for, if it is here.
	abandon(f *flight)
	// run carries calls until the line breaks or is hung up. Then it lands what is
	// open, or sends it elsewhere.
	run() error
	// hangUp ends the line.
	hangUp()
}

// session runs one session and returns why it ended.
func (r *replica) session(ctx context.Context, l link) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stop := context.AfterFunc(r.leaving, func() { end(errLeaving) })
	defer stop()
	s := &session{replica: r, client: l.client()}
	s.options = []grpc.CallOption{grpc.MaxCallRecvMsgSize(r.service.set.cfg.ScorerAnswerBytes)}
	if err := s.ask(ctx); err != nil {
		return err
	}
	var err error
	if s.line, err = l.open(s); err != nil {
		return err
	}
	defer s.line.hangUp()
	r.service.enter(s)
	defer s.withdraw()
	s.checkInstances(ctx)
	return s.serve(ctx, l)
}

// serve is the working life of a session.
func (s *session) serve(ctx context.Context, l link) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r := s.replica
	r.breaker.reset()
	r.connected.Store(true)
	r.found(s)
	var running sync.WaitGroup
	running.Go(func() { end(s.line.run()) })
	running.Go(func() { l.watchHealth(ctx, s) })
	running.Go(func() { s.keepChecking(ctx) })
	running.Go(func() {
		if l.lost(ctx) {
			end(errConnection)
		}
	})
	if s.info.outcomes && !s.info.follows {
		running.Go(func() { r.outbox.run(ctx, s.client) })
	}
	<-ctx.Done()
	s.ready.Store(false)
	r.connected.Store(false)
	s.withdraw()
	s.drain()
	s.line.hangUp()
	running.Wait()
	return context.Cause(ctx)
}

// connectionLost waits until the connection is not ready any more; false if ctx ended
// first. A connection that has just carried a call may still say that it is connecting.
func connectionLost(ctx context.Context, conn *grpc.ClientConn) bool {
	if conn.GetState() == connectivity.Connecting && !conn.WaitForStateChange(ctx, connectivity.Connecting) {
		return false
	}
	return conn.WaitForStateChange(ctx, connectivity.Ready)
}

// withdraw keeps further calls away.
func (s *session) withdraw() {
	s.replica.service.exit(s)
	for _, in := range s.replica.service.live() {
		in.unbind(s)
	}
}

// drain waits for the open calls. They have deadlines, so this takes no longer than
// the longest of those.
func (s *session) drain() {
	end := time.Now().Add(drainTimeout)
	for s.replica.open.Load() > 0 && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
}

// ask learns what the replica serves.
func (s *session) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m, err := s.client.GetScorerInfo(ctx, &scorerv1.GetScorerInfoRequest{}, grpc.MaxCallRecvMsgSize(maxInfoBytes))
	if err != nil {
		return fmt.Errorf("get scorer info: %s", plain(err))
	}
	s.info, err = readInfo(m)
	if err != nil {
		s.breach("info", err.Error())
		return fmt.Errorf("get scorer info: %w", err)
	}
	return nil
}

// openLine chooses the line over a connection.
func (s *session) openLine() (line, error) {
	r := s.replica
	r.mu.Lock()
	streams := s.info.streams && !r.noStream
	r.mu.Unlock()
	switch r.service.cfg.Transport {
	case Unary:
		streams = false
	case Stream:
		if !streams {
			return nil, errors.New("it has no stream, and transport: stream is set")
		}
	}
	s.streams = streams
	if !streams {
		return newUnary(s), nil
	}
	t, err := newStream(s)
	if err != nil {
		return nil, fmt.Errorf("open the stream: %s", plain(err))
	}
	return t, nil
}

func (s *session) transport() Transport {
	if s.replica.service.target.embedded {
		return embeddedTarget
	}
	if s.streams {
		return Stream
	}
	return Unary
}

func (s *session) submit(f *flight) error { return s.line.submit(f) }
func (s *session) abandon(f *flight)      { s.line.abandon(f) }

// want adds to what is sent of the endpoints.
func (s *session) want(n *needs) {
	var bits uint32
	if n.labels {
		bits |= wantLabels
	}
	if n.load {
		bits |= wantLoad
	}
	if n.adapters {
		bits |= wantAdapters
	}
	s.wants.Or(bits)
}

// heard notes which outcome batch of ours the replica has applied.
func (s *session) heard(sequence uint64) {
	for {
		old := s.applied.Load()
		if sequence <= old || s.applied.CompareAndSwap(old, sequence) {
			return
		}
	}
}

// breach counts and remembers a broken rule of the contract.
func (s *session) breach(kind, reason string) {
	s.replica.service.set.metrics.breach(s.replica.service, kind)
	s.replica.service.failed(fmt.Sprintf("%s breaks the contract: %s", s.replica.address, reason))
}

// plain is an error of gRPC without its prefix.
func plain(err error) string {
	s := status.Convert(err)
	if s.Message() == "" {
		return s.Code().String()
	}
	return s.Code().String() + ": " + cut(s.Message())
}
