package broadcast

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

const (
	// calm is the least time between two tables that differ.
	calm = 20 * time.Millisecond
	// quiet after the last answer ends the asking at the start.
	quiet = 100 * time.Millisecond
	// maxParts is the most messages that loads are sent in.
	maxParts = 64
)

// foreignPause is the least time between complaints of tables that are not understood.
const foreignPause = 10 * time.Second

// Broadcaster is a fleet's voice and ears on the bus.
type Broadcaster struct {
	cfg    Config
	bus    *bus.Bus
	fleet  *fleet.Fleet
	assign func(*fleet.View)
	wake   <-chan struct{}
	resets chan struct{}
	log    *slog.Logger

	policyChanged chan struct{}

	tables   *bus.Publisher[*statev1.EndpointTable]
	policies *bus.Publisher[*statev1.PoolPolicy]
	loads    *bus.Publisher[*statev1.EndpointLoads]
	beats    *bus.Publisher[*statev1.CollectorHeartbeat]
	held     held

	mu     sync.Mutex // guards what follows
	table  *statev1.EndpointTable
	policy *statev1.PoolPolicy // nil: not known yet
	view   *fleet.View         // that the table is made of, or a later one with the same table

	// Used by the part alone.
	sample     loads
	readings   []fleet.Reading
	parts      int
	trouble    map[string]string
	quietUntil atomic.Int64 // unix ns; until then foreign tables are not complained of
}

// New returns a broadcaster of the fleet. It subscribes on the bus, so call it before
// the bus runs. wake tells that the fleet has something new; assign is called with
// the view whenever what this collector scrapes has changed.
func New(cfg Config, b *bus.Bus, f *fleet.Fleet, wake <-chan struct{}, tel *telemetry.Telemetry, assign func(*fleet.View)) (*Broadcaster, error) {
	c := &Broadcaster{
		cfg: cfg, bus: b, fleet: f, assign: assign, wake: wake, resets: make(chan struct{}, 1), log: tel.Log, parts: 1, trouble: make(map[string]string),
		policyChanged: make(chan struct{}, 1),
		policies:      bus.NewPublisher(b, bus.Policy, func(m *statev1.PoolPolicy, s *statev1.Stamp) { m.Stamp = s }),
		tables:        bus.NewPublisher(b, bus.Table, func(m *statev1.EndpointTable, s *statev1.Stamp) { m.Stamp = s }),
		loads:         bus.NewPublisher(b, bus.Load, func(m *statev1.EndpointLoads, s *statev1.Stamp) { m.Stamp = s }),
		beats:         bus.NewPublisher(b, bus.Collector, func(m *statev1.CollectorHeartbeat, s *statev1.Stamp) { m.Stamp = s }),
	}
	bus.Subscribe(b, bus.Table, func() *statev1.EndpointTable { return &statev1.EndpointTable{} }, func(m *statev1.EndpointTable, _ bus.Meta) { c.hearTable(m) })
	bus.Subscribe(b, bus.Load, func() *statev1.EndpointLoads { return &statev1.EndpointLoads{} }, func(m *statev1.EndpointLoads, meta bus.Meta) { c.hearLoads(m, meta.Received) })
	bus.Subscribe(b, bus.Collector, func() *statev1.CollectorHeartbeat { return &statev1.CollectorHeartbeat{} }, func(m *statev1.CollectorHeartbeat, _ bus.Meta) { c.hearBeat(m) })
	bus.Respond(b, bus.GetState, func() *statev1.GetStateRequest { return &statev1.GetStateRequest{} }, func(*statev1.GetStateRequest) *statev1.GetStateResponse { return c.state() })
	b.OnReset(func() {
		select {
		case c.resets <- struct{}{}:
		default:
		}
	})
	return c, c.instruments(tel.Meter)
}

// Part asks the others, and tells and hears until its context ends. It is ready once
// the others were asked. The bus must be connected before it runs.
func (c *Broadcaster) Part() run.Part {
	return func(ctx context.Context, ready func()) error {
		c.join(ctx)
		c.tellPolicy()
		c.refresh()
		c.beat(false)
		ready()
		c.loop(ctx)
		c.beat(true)
		return nil
	}
}

func (c *Broadcaster) loop(ctx context.Context) {
	load, table, beat := time.NewTicker(c.cfg.Interval.D()), time.NewTicker(c.cfg.TableInterval.D()), time.NewTicker(c.cfg.HeartbeatInterval.D())
	defer load.Stop()
	defer table.Stop()
	defer beat.Stop()
	calmed := time.NewTimer(calm)
	defer calmed.Stop()
	wake := c.wake
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
			// Not again before some time has passed, however often it is woken.
			c.refresh()
			wake = nil
			calmed.Reset(calm)
		case <-calmed.C:
			wake = c.wake
		case <-load.C:
			c.tellLoads(time.Now())
		case <-beat.C:
			c.fleet.Tick(time.Now(), c.bus.Connected())
			c.beat(false)
		case <-c.policyChanged:
			c.tellPolicy()
		case <-table.C:
			c.tellPolicy()
			c.tellTable()
		case <-c.resets:
			c.tellPolicy()
			c.tellTable()
			c.beat(false)
		}
	}
}

// join asks the other collectors for what they know.
func (c *Broadcaster) join(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, c.cfg.JoinTimeout.D())
	defer cancel()
	answers, err := bus.RequestMany(within, c.bus, bus.GetState, &statev1.GetStateRequest{}, func() *statev1.GetStateResponse { return &statev1.GetStateResponse{} }, quiet)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("other collectors could not be asked; going on as if there were none until they are heard", "error", err)
	}
	for _, a := range answers {
		if t := a.GetTable(); t != nil {
			c.fleet.HeardFrom(time.Now(), t.GetStamp().GetPublisherId())
			c.hearTable(t)
		}
		if l := a.GetLoads(); l != nil {
			c.hearLoads(l, time.Now())
		}
	}
	c.fleet.Joined()
}

// refresh tells what is new, and has it scraped.
func (c *Broadcaster) refresh() {
	v, table, owned := c.fleet.Refresh(time.Now())
	switch {
	case v == nil:
		return
	case !table:
		c.mu.Lock()
		c.view = v
		c.mu.Unlock()
	case c.make(v):
		c.tellTable()
	}
	if owned {
		c.assign(v)
	}
}

// make puts the view's table where it is told from.
func (c *Broadcaster) make(v *fleet.View) bool {
	m, err := tableProto(v)
	if err != nil {
		c.complain("table", err)
		return false
	}
	ids := make([]fleet.ID, 0, len(v.Members))
	for i := range v.Members {
		ids = append(ids, v.Members[i].ID)
	}
	c.held.put(m.GetDigest(), ids)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table, c.view = m, v
	return true
}

func (c *Broadcaster) tellTable() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table != nil {
		c.complain("table", c.tables.Publish(c.table))
	}
}

// told is the view that was told, and the digest of its table; nil before the first.
func (c *Broadcaster) told() (*fleet.View, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view, c.table.GetDigest()
}

// tellLoads tells the figures of the endpoints that are scraped here.
func (c *Broadcaster) tellLoads(now time.Time) {
	v, digest := c.told()
	if v == nil {
		return
	}
	c.readings = c.fleet.Readings(v, c.readings)
	var trouble error // of the last part that had any: one complaint a round
	for start := 0; start < len(v.Owned); {
		size := (len(v.Owned) + c.parts - 1) / c.parts
		end := min(start+size, len(v.Owned))
		if !c.sample.fill(digest, v.Owned[start:end], c.readings, now) {
			start = end
			continue
		}
		err := c.loads.Publish(&c.sample.message)
		if errors.Is(err, bus.ErrTooLarge) && size > 1 && c.parts < maxParts {
			c.parts *= 2 // from now on
			continue
		}
		if err != nil {
			trouble = err
		}
		start = end
	}
	c.complain("loads", trouble)
}

func (c *Broadcaster) beat(leaving bool) {
	m := &statev1.CollectorHeartbeat{Leaving: leaving}
	if v, _ := c.told(); v != nil {
		m.ScrapedEndpointCount = uint32(len(v.Owned)) //nolint:gosec // at most 4096
	}
	c.complain("heartbeat", c.beats.Publish(m))
}

// complain logs an error of publishing when it begins or changes. That the bus is
// away is the bus's to tell.
func (c *Broadcaster) complain(what string, err error) {
	text := ""
	if err != nil && !errors.Is(err, bus.ErrOffline) {
		text = err.Error()
	}
	if text != "" && c.trouble[what] != text {
		c.log.Error("the pool cannot be told; raise max_payload of the NATS server if a message is too large", "what", what, "error", err)
	}
	c.trouble[what] = text
}

func (c *Broadcaster) self(s *statev1.Stamp) bool { return s.GetPublisherId() == c.bus.PublisherID() }

func (c *Broadcaster) hearTable(m *statev1.EndpointTable) {
	if c.self(m.GetStamp()) {
		return
	}
	es, ids, err := entries(m)
	if err != nil {
		if now := time.Now().UnixNano(); now > c.quietUntil.Load() {
			c.quietUntil.Store(now + int64(foreignPause)) // whoever sends one may send many
			c.log.Warn("another collector's table is not understood", "collector", m.GetStamp().GetPublisherId(), "error", err)
		}
		return
	}
	c.held.put(m.GetDigest(), ids)
	c.fleet.HeardTable(time.Now(), m.GetStamp().GetPublisherId(), m.GetChangeTime().AsTime(), es)
}

func (c *Broadcaster) hearLoads(m *statev1.EndpointLoads, received time.Time) {
	if c.self(m.GetStamp()) {
		return
	}
	readings(m, c.held.get(m.GetTableDigest()), received, c.fleet.Observed)
}

func (c *Broadcaster) hearBeat(m *statev1.CollectorHeartbeat) {
	id := m.GetStamp().GetPublisherId()
	switch {
	case c.self(m.GetStamp()):
	case m.GetLeaving():
		c.fleet.Left(id)
	default:
		c.fleet.HeardFrom(time.Now(), id)
	}
}

// state answers a question for everything. Nil before there is a table.
func (c *Broadcaster) state() *statev1.GetStateResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.view
	if v == nil || c.table.GetStamp() == nil {
		return nil
	}
	out := &statev1.GetStateResponse{Table: proto.CloneOf(c.table)}
	if c.policy.GetStamp() != nil {
		out.Policy = proto.CloneOf(c.policy)
	}
	all := make([]int, len(v.Members))
	for i := range all {
		all[i] = i
	}
	var l loads
	if l.fill(c.table.GetDigest(), all, c.fleet.Readings(v, nil), time.Now()) {
		l.message.Stamp = &statev1.Stamp{PublisherId: c.bus.PublisherID(), Sequence: c.loads.Sequence(), PublishTime: out.Table.GetStamp().GetPublishTime()}
		out.Loads = &l.message
	}
	return out
}
