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
	soonPause   = 2 * time.Millisecond  // between batches that somebody waits for
	latePause   = 10 * time.Millisecond // between others
	soonPicks   = 16                    // from which on picks go soon: they are all sent along with every score call
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
	leases   Leases     // nil: nobody counts over all routers
	others   func() int // routers that are heard; nil: not known

	mu     sync.Mutex
	asleep bool             // the publisher waits to be woken
	waits  int              // picks among events
	picks  uint64           // ids given
	next   uint64           // sequence of the batch being filled
	open   map[uint64]*pick // not ended
	recent []*pick          // by sequence, oldest first, ended ones included
	events []event          // not yet published
	placed []*statev1.PrefixPlacement

	reservations metric.Int64UpDownCounter
	speeds       speeds
	unseen       metric.Int64Counter
	endings      [endings][]metric.AddOption
}

// Leases counts picks over all routers at once.
type Leases interface {
	// Adopt counts a pick that was not reserved over all routers.
	Adopt(id roster.ID) route.Place
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
	if err = l.countUnseen(tel.Meter); err != nil {
		return nil, err
	}
	bus.Respond(b, bus.GetPicks, func() *statev1.GetPicksRequest { return &statev1.GetPicksRequest{} }, l.openPicks)
	return l, nil
}

// CountIn has every pick counted in leases too, until it ends. Must be called before the
// first pick.
func (l *Ledger) CountIn(leases Leases) { l.leases = leases }

// HurryFor has picks published soon only while there are other routers, which others
// counts. Must be called before the part runs.
func (l *Ledger) HurryFor(others func() int) { l.others = others }

// Reserve counts a pick here at once and everywhere soon, and tells the prefix
// indexers which prompt went where.
func (l *Ledger) Reserve(c *route.Cycle, e *roster.Endpoint, res *route.ProfileResult) route.Reservation {
	r := &reservation{ledger: l, tokens: uncached(c.Request, res)}
	if res != nil {
		r.work = res.Work
	}
	r.pick = l.begin(e.ID, c.Request.PromptTokens, r.prefills(r.tokens), placeOf(res))
	r.first = r.pick.id
	if r.work != route.WorkEncode { // it sees no prompt
		r.placed = l.place(c, r.pick, res)
	}
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

// placeOf returns the pick's place over all routers, nil if it has none yet.
func placeOf(res *route.ProfileResult) route.Place {
	if res == nil {
		return nil
	}
	return res.Place
}

// begin opens a pick. place is nil if it was not reserved over all routers.
func (l *Ledger) begin(id roster.ID, prompt, uncached uint32, place route.Place) *pick {
	if place == nil && l.leases != nil {
		place = l.leases.Adopt(id)
	}
	p := &pick{endpoint: id, prompt: prompt, uncached: uncached, at: l.roster.Now(), place: place}
	l.mu.Lock()
	l.picks++
	p.id, p.sequence = l.picks, l.next
	l.open[p.id] = p
	l.recent = append(l.recent, p)
	l.events = append(l.events, event{kind: picked, pick: p})
	l.waits++
	wake := l.asleep || l.waits == soonPicks || l.waits == 1 && l.watched()
	l.mu.Unlock()
	l.roster.Pick(l.id, p.id, id, uncached, p.at)
	l.reservations.Add(noContext, 1)
	if wake {
		l.notify()
	}
	return p
}

// finish ends a pick.
func (l *Ledger) finish(p *pick, completed bool, u route.Usage) {
	l.mu.Lock()
	p.ended = true
	delete(l.open, p.id)
	l.events = append(l.events, event{kind: finished, pick: p, elapsed: l.roster.Now() - p.at, completed: completed, usage: u})
	wake := l.asleep
	l.mu.Unlock()
	l.roster.Finish(l.id, p.id)
	if p.place != nil {
		p.place.Release()
	}
	l.reservations.Add(noContext, -1)
	if wake {
		l.notify()
	}
}

// firstToken notes the first token, which changes no count.
func (l *Ledger) firstToken(p *pick, elapsed int64) {
	l.mu.Lock()
	l.events = append(l.events, event{kind: firstToken, pick: p, elapsed: elapsed})
	wake := l.asleep
	l.mu.Unlock()
	if wake {
		l.notify()
	}
}

// watched says whether other processes than scorers go by this router's picks. Scorers
// hear of them with every call.
func (l *Ledger) watched() bool { return l.others == nil || l.others() > 0 }

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
	open := 0 // above after, from where on
	from := len(l.recent)
	for ; from > 0 && l.recent[from-1].sequence > after && open < maxPending; from-- {
		if p := l.recent[from-1]; !p.ended && p.positionIn(table) >= 0 {
			open++
		}
	}
	if open == 0 {
		return nil
	}
	m := &scorerv1.PendingPicks{
		RouterId: l.id, Sequences: make([]uint64, 0, open), Positions: make([]uint32, 0, open), UncachedTokenCounts: make([]uint32, 0, open),
	}
	for i := len(l.recent) - 1; i >= from; i-- {
		p := l.recent[i]
		pos := p.positionIn(table)
		if p.ended || pos < 0 {
			continue
		}
		m.Sequences = append(m.Sequences, p.sequence)
		m.Positions = append(m.Positions, uint32(pos)) //nolint:gosec // a table position
		m.UncachedTokenCounts = append(m.UncachedTokenCounts, p.uncached)
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
