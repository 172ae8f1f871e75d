package outcome

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

const (
	batchEvents = 256
	batchPause  = 2 * time.Millisecond
	heartbeat   = time.Second
	prefixBytes = 256 << 10 // of hashes in one prefix batch, well below the bus's payload limit
	maxPending  = 1024      // picks sent along with one score call
)

// Ledger keeps this router's picks. Safe for concurrent use.
type Ledger struct {
	roster   *roster.Roster
	id       string
	reporter Reporters
	batches  publisher[*statev1.OutcomeBatch]
	prefixes publisher[*statev1.PrefixBatch]
	wake     chan struct{}

	mu     sync.Mutex
	picks  uint64           // ids given
	next   uint64           // sequence of the batch being filled
	open   map[uint64]*pick // not ended
	recent []*pick          // by sequence, oldest first, ended ones included
	events []event          // not yet published
	placed []*statev1.PrefixPlacement

	reservations metric.Int64UpDownCounter
}

// event is an outcome that waits to be published.
type event struct {
	wire  *statev1.OutcomeEvent
	begun *pick // the pick that it tells of, if it is its beginning
}

// Reporters tells outcomes to the scorers that want them by call.
type Reporters interface {
	// Picked begins the report of a request. Nil if no scorer wants it.
	Picked(c *route.Cycle, e *roster.Endpoint, res *route.ProfileResult) Reporter
}

// Reporter is the report of one request.
type Reporter interface {
	// FirstToken tells the time from the pick to the first byte of the answer.
	FirstToken(elapsed time.Duration)
	// Moved tells that another endpoint was picked, after Finished for the first.
	Moved(to roster.ID)
	// Finished tells the end on the endpoint.
	Finished(elapsed time.Duration, completed bool, u route.Usage)
}

// publisher is the part of bus.Publisher that the ledger needs.
type publisher[M any] interface{ Publish(m M) error }

// New returns a ledger that publishes on the bus; call it before the bus runs.
// reporter may be nil.
func New(r *roster.Roster, b *bus.Bus, reporter Reporters, tel *telemetry.Telemetry) (*Ledger, error) {
	l := &Ledger{
		roster: r, id: b.PublisherID(), reporter: reporter, wake: make(chan struct{}, 1),
		next: 1, open: make(map[uint64]*pick),
		batches:  bus.NewPublisher(b, bus.Outcome, func(m *statev1.OutcomeBatch, s *statev1.Stamp) { m.Stamp = s }),
		prefixes: bus.NewPublisher(b, bus.Prefix, func(m *statev1.PrefixBatch, s *statev1.Stamp) { m.Stamp = s }),
	}
	var err error
	l.reservations, err = tel.Meter.Int64UpDownCounter("pointsman_router_reservations", metric.WithDescription("Picks of this router that have not ended."))
	if err != nil {
		return nil, err
	}
	bus.Respond(b, bus.GetPicks, func() *statev1.GetPicksRequest { return &statev1.GetPicksRequest{} }, l.openPicks)
	return l, nil
}

// Reserve counts a pick here at once and everywhere soon, and tells the prefix
// indexers which prompt went where.
func (l *Ledger) Reserve(c *route.Cycle, e *roster.Endpoint, res *route.ProfileResult) route.Reservation {
	r := &reservation{ledger: l}
	r.pick = l.begin(e.ID, c.Request.PromptTokens, uncached(c.Request, res))
	r.name = pickName(l.id, r.pick.id)
	l.place(c, e.ID, res)
	if l.reporter != nil {
		r.report = l.reporter.Picked(c, e, res)
	}
	return r
}

// uncached returns the prompt tokens that the picked endpoint is not believed to
// hold: all of them, less the longest match that a prefix scorer told.
func uncached(req *route.Request, res *route.ProfileResult) uint32 {
	if res == nil || len(res.Ranked) == 0 {
		return req.PromptTokens
	}
	held := uint32(0)
	for i := range res.Scores {
		s := &res.Scores[i]
		if matched := s.Believed(); s.BlockSize > 0 && int(res.Ranked[0]) < len(matched) {
			held = max(held, matched[res.Ranked[0]]*uint32(s.BlockSize)/4) //nolint:gosec // a block is at most some KiB
		}
	}
	return req.PromptTokens - min(held, req.PromptTokens)
}

// begin opens a pick.
func (l *Ledger) begin(id roster.ID, prompt, uncached uint32) *pick {
	p := &pick{endpoint: id, prompt: prompt, uncached: uncached, at: l.roster.Now()}
	l.mu.Lock()
	l.picks++
	p.id, p.sequence = l.picks, l.next
	l.open[p.id] = p
	l.recent = append(l.recent, p)
	l.events = append(l.events, event{begun: p, wire: &statev1.OutcomeEvent{PickId: p.id, Event: &statev1.OutcomeEvent_Picked{Picked: &statev1.Picked{
		EndpointId: string(id), PromptTokenCount: prompt, UncachedTokenCount: uncached,
	}}}})
	l.mu.Unlock()
	l.roster.Pick(l.id, p.id, id, uncached, p.at)
	l.reservations.Add(noContext, 1)
	l.notify()
	return p
}

// finish ends a pick.
func (l *Ledger) finish(p *pick, completed bool, u route.Usage) {
	l.mu.Lock()
	p.ended = true
	delete(l.open, p.id)
	l.events = append(l.events, event{wire: &statev1.OutcomeEvent{PickId: p.id, Event: &statev1.OutcomeEvent_Finished{Finished: finished(l.roster.Now()-p.at, completed, u)}}})
	l.mu.Unlock()
	l.roster.Finish(l.id, p.id)
	l.reservations.Add(noContext, -1)
	l.notify()
}

// add notes an event that changes no count.
func (l *Ledger) add(id uint64, e *statev1.OutcomeEvent_FirstToken) {
	l.mu.Lock()
	l.events = append(l.events, event{wire: &statev1.OutcomeEvent{PickId: id, Event: e}})
	l.mu.Unlock()
	l.notify()
}

// notify wakes the publisher.
func (l *Ledger) notify() {
	select {
	case l.wake <- struct{}{}:
	default: // awake already
	}
}

// Pending returns the picks that have not ended and are in outcome batches above
// after, at positions of the table. Nil if there are none. At most the newest 1024.
func (l *Ledger) Pending(after uint64, table *roster.Table) *scorerv1.PendingPicks {
	l.mu.Lock()
	defer l.mu.Unlock()
	var m *scorerv1.PendingPicks
	for i := len(l.recent) - 1; i >= 0 && l.recent[i].sequence > after; i-- {
		p := l.recent[i]
		if p.ended {
			continue
		}
		pos, in := table.Position(p.endpoint)
		if !in {
			continue
		}
		if m == nil {
			m = &scorerv1.PendingPicks{RouterId: l.id}
		}
		m.Sequences = append(m.Sequences, p.sequence)
		m.Positions = append(m.Positions, uint32(pos)) //nolint:gosec // a table position
		m.UncachedTokenCounts = append(m.UncachedTokenCounts, p.uncached)
		if len(m.Sequences) == maxPending {
			break
		}
	}
	return m
}

// openPicks answers a process that asks what is open.
func (l *Ledger) openPicks(q *statev1.GetPicksRequest) *statev1.GetPicksResponse {
	if q.GetRouterId() != "" && q.GetRouterId() != l.id {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &statev1.GetPicksResponse{Stamp: &statev1.Stamp{PublisherId: l.id, Sequence: l.next - 1}, Picks: make([]*statev1.OpenPick, 0, len(l.open))}
	now := l.roster.Now()
	for _, p := range l.open {
		a.Picks = append(a.Picks, &statev1.OpenPick{PickId: p.id, Picked: &statev1.Picked{
			EndpointId: string(p.endpoint), PromptTokenCount: p.prompt, UncachedTokenCount: p.uncached, AgeMs: milliseconds(now - p.at),
		}})
	}
	return a
}
