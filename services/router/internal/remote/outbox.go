package remote

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

const (
	outboxEvents  = 8192                  // that wait for one replica at most
	outcomeBatch  = 1000                  // events in one message, by the contract
	outcomePause  = 20 * time.Millisecond // between two messages, in which events gather
	reportTimeout = time.Second           // for one message
)

// outbox is the outcome events for one replica. They are sent at most once: what does
// not fit, or fails, is lost, and the batch sequence shows that.
type outbox struct {
	replica *replica
	wake    chan struct{}

	mu       sync.Mutex
	events   []*scorerv1.Outcome
	sequence uint64 // of the last batch
	lost     bool   // events since the last batch
}

func newOutbox(r *replica) *outbox { return &outbox{replica: r, wake: make(chan struct{}, 1)} }

// add queues an event, which is not changed afterwards.
func (b *outbox) add(o *scorerv1.Outcome) {
	b.mu.Lock()
	full := len(b.events) >= outboxEvents
	if full {
		b.lost = true
	} else {
		b.events = append(b.events, o)
	}
	b.mu.Unlock()
	if full {
		b.count(outcomeDropped, 1)
		return
	}
	select {
	case b.wake <- struct{}{}:
	default: // it is awake
	}
}

// run sends what gathers until ctx ends.
func (b *outbox) run(ctx context.Context, client scorerv1.ScorerServiceClient) {
	all := &b.replica.service.set.outboxes
	all.open(b)
	defer b.discard()
	defer all.close(b)
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(outcomePause):
		}
		for m := b.take(); m != nil; m = b.take() {
			b.send(ctx, client, m)
		}
	}
}

func (b *outbox) send(ctx context.Context, client scorerv1.ScorerServiceClient, m *scorerv1.ReportOutcomesRequest) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if _, err := client.ReportOutcomes(ctx, m); err != nil {
		b.count(outcomeFailed, len(m.Outcomes))
		b.replica.service.failed(b.replica.address + ": report outcomes: " + plain(err))
		return
	}
	b.count(outcomeSent, len(m.Outcomes))
}

// take returns the next batch, nil if nothing waits. Lost events use up a sequence.
func (b *outbox) take() *scorerv1.ReportOutcomesRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.events), outcomeBatch)
	if n == 0 {
		return nil
	}
	b.sequence++
	m := &scorerv1.ReportOutcomesRequest{
		RouterId: b.replica.service.set.deps.RouterID, BatchSequence: b.sequence, Outcomes: slices.Clone(b.events[:n]),
	}
	b.events = slices.Delete(b.events, 0, n)
	if len(b.events) == 0 && b.lost {
		b.lost = false
		b.sequence++ // what was lost came after all that waited
	}
	return m
}

// discard loses what waits.
func (b *outbox) discard() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) > 0 {
		b.count(outcomeDropped, len(b.events))
		b.events, b.lost = nil, false
		b.sequence++
	}
}

func (b *outbox) count(what, n int) {
	b.replica.service.tally.outcomes[what].Add(uint64(n)) //nolint:gosec // a length
}

// outboxes are those whose replicas take outcomes now.
type outboxes struct {
	mu  sync.Mutex
	all atomic.Pointer[[]*outbox]
}

// list returns them; nearly always there are none.
func (o *outboxes) list() []*outbox {
	if p := o.all.Load(); p != nil {
		return *p
	}
	return nil
}

func (o *outboxes) open(b *outbox) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := append(slices.Clone(o.list()), b)
	o.all.Store(&next)
}

func (o *outboxes) close(b *outbox) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(o.list()), func(x *outbox) bool { return x == b })
	o.all.Store(&next)
}
