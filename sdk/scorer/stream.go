package scorer

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

const (
	// An answer batch goes out early when it is this large, so that it stays below
	// the 4 MiB that gRPC takes by default,
	sendBytes = 1 << 20
	// or when its first answers have waited this long.
	sendAfter = time.Millisecond
)

// errDrained has no reason: the scorer is well, and another replica answers.
var errDrained error = &Error{codes.Unavailable, "", "this replica is shutting down; go to another"}

// session is one stream. Everything happens on the goroutine of run.
type session struct {
	server *Server
	stream grpc.BidiStreamingServer[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]
	tables tables
	slots  slots
	bytes  int // of answers that are not sent yet, about
	recent recent
	same   bool // the router accepts answers that refer to others

	mu   sync.Mutex // held while a batch is handled
	over bool       // no further batch is to be begun
}

// ScoreStream implements the contract. The goroutine it is called on waits for
// the end only: a receive cannot be interrupted in any other way than by
// returning from here.
func (s *Server) ScoreStream(stream grpc.BidiStreamingServer[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]) error {
	if !s.capabilities[scorerv1.Capability_CAPABILITY_STREAM] {
		return missing("CAPABILITY_STREAM")
	}
	select {
	case <-s.drain:
		return errDrained
	default:
	}
	se := &session{server: s, stream: stream}
	over := make(chan error, 1)
	go func() { over <- se.run() }()
	select {
	case err := <-over:
		return err
	case <-s.drain:
		se.mu.Lock()
		defer se.mu.Unlock()
		se.over = true
		return errDrained
	}
}

func (se *session) run() (err error) {
	defer func() {
		if v := recover(); v != nil {
			se.server.log.Error("a stream panicked", "panic", panicText(v), "stack", string(debug.Stack()))
			err = internal("the scorer panicked; its log says where")
		}
	}()
	batch := &scorerv1.ScoreStreamRequest{} // received into again and again: with package wire it keeps its room
	for first := true; ; first = false {
		if len(batch.GetCalls()) > mostSlots {
			batch = &scorerv1.ScoreStreamRequest{}
		}
		err := se.stream.RecvMsg(batch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		received := time.Now()
		if first && batch.GetRouterId() == "" {
			return InvalidRequest("router_id: missing in the first message of the stream")
		}
		if err := se.handle(batch, received); err != nil {
			return err
		}
	}
}

// handle takes tables, then loads, then calls, and sends the answers.
func (se *session) handle(batch *scorerv1.ScoreStreamRequest, received time.Time) error {
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.over {
		return errDrained
	}
	for _, m := range batch.GetTables() {
		if err := se.tables.teach(m); err != nil {
			return err
		}
	}
	for _, m := range batch.GetLoads() {
		if err := se.tables.load(m, received); err != nil {
			return err
		}
	}
	se.same = se.same || batch.GetAcceptsSameAnswers()
	defer se.recent.forget() // what it knows is a part of the batch
	calls := batch.GetCalls()
	contexts := make([]callContext, len(calls))
	unsent := received
	for i, c := range calls {
		if cancelled(batch, c.GetCallId()) {
			continue
		}
		now := received
		if i > 0 {
			now = time.Now()
		}
		if se.bytes >= sendBytes || now.Sub(unsent) >= sendAfter {
			if err := se.send(); err != nil {
				return err
			}
			unsent = now
		}
		ctx := &contexts[i]
		ctx.Context, ctx.traceparent = se.stream.Context(), c.GetTraceparent()
		ctx.deadline = received.Add(time.Duration(c.GetTimeoutUs()) * time.Microsecond)
		se.answer(ctx, c, now)
	}
	return se.send()
}

// answer puts the answer of one call into the batch to be sent.
func (se *session) answer(ctx *callContext, c *scorerv1.StreamCall, now time.Time) {
	slot := se.slots.next()
	slot.answer.CallId, slot.answer.SameAsCallId = c.GetCallId(), 0
	req := c.GetRequest()
	var err error
	switch {
	case c.GetTimeoutUs() == 0:
		err = InvalidRequest("timeout_us: missing")
	case !now.Before(ctx.deadline):
		err = context.DeadlineExceeded
	default:
		if before := se.recent.find(req); before != nil {
			se.server.observe(before.slot.served, &before.slot.response, nil, now, true)
			se.bytes += slot.repeat(before.slot, se.same)
			return
		}
		asked := question(req) // which changes while it is answered
		slot.served, err = se.server.answer(ctx, req, &slot.response, &se.tables)
		if err == nil && slot.served.ignores {
			se.recent.note(asked, slot)
		}
	}
	ctx.end()
	if err != nil {
		slot.fail(contract(err))
	} else {
		slot.answer.Result = &slot.ok
	}
	se.bytes += slot.size()
}

func (se *session) send() error {
	if se.slots.used == 0 {
		return nil
	}
	err := se.stream.Send(se.slots.batch())
	se.recent.forget() // answers refer to those in the same message
	se.slots.reset()
	se.bytes = 0
	return err
}

// cancelled reports whether nobody waits for the call any more. A cancellation
// that comes in a later batch finds the call answered.
func cancelled(batch *scorerv1.ScoreStreamRequest, id uint64) bool {
	for _, c := range batch.GetCancelledCallIds() {
		if c == id {
			return true
		}
	}
	return false
}
