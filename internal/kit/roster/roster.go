package roster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// heldTables is how many tables are remembered, so that messages that refer to a
// table of a moment ago are still understood.
const heldTables = 8

// ErrTableNotHeld says that a message refers to a table that is not, or no longer, known.
var ErrTableNotHeld = errors.New("table not held")

// Config is how a Roster judges figures.
type Config struct {
	// StalenessLimit is the age above which figures are no longer believed.
	// Default 5 s. Raise it above the scrape interval of the slowest endpoint.
	StalenessLimit time.Duration
	// ReachAllowance is how long a pick may take to show in an endpoint's own
	// counts. Default 10 ms. Too long counts picks twice for that time, too short
	// not at all.
	ReachAllowance time.Duration
	// Clock returns monotonic ns. Default: since the process began.
	Clock func() int64
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{StalenessLimit: 5 * time.Second, ReachAllowance: 10 * time.Millisecond}
}

// Roster is the newest that is known of a pool. Safe for concurrent use.
type Roster struct {
	cfg     Config
	current atomic.Pointer[Snapshot]

	tableMu sync.Mutex // serialises SetTable with its listeners
	onTable []func(before, after *Table)

	// loadsMu makes taking over figures and building the view of them one step. A
	// state's figures change only under both loadsMu and mu, so either is enough to
	// read them, and a pick does not wait for a view to be built.
	loadsMu sync.Mutex

	mu     sync.Mutex // guards what follows
	states map[ID]*state
	slots  slots
	held   []heldTable // newest last
	loads  uint64      // generation: grows with every change of a state

	picksMu sync.Mutex
	routers map[string]*router
}

// state is an endpoint's figures, whichever tables it is in.
type state struct {
	account          account
	waiting, running int32
	kv               float32
	observedAt       int64
	adapters         *Adapters
}

type heldTable struct {
	table    *Table
	states   []*state // in table order
	live     []slot   // their counts
	snapshot *Snapshot
	loads    uint64 // generation the snapshot was made of
}

type router struct {
	picks   map[uint64]*pick
	applied uint64
}

// New returns an empty roster. Zero fields of cfg take their defaults.
func New(cfg Config) *Roster {
	d := DefaultConfig()
	if cfg.StalenessLimit == 0 {
		cfg.StalenessLimit = d.StalenessLimit
	}
	if cfg.ReachAllowance == 0 {
		cfg.ReachAllowance = d.ReachAllowance
	}
	if cfg.Clock == nil {
		began := time.Now()
		cfg.Clock = func() int64 { return int64(time.Since(began)) }
	}
	r := &Roster{cfg: cfg, states: make(map[ID]*state), routers: make(map[string]*router)}
	r.current.Store(&Snapshot{Table: &Table{}, staleness: int64(cfg.StalenessLimit)})
	return r
}

// Now returns the roster's clock, in ns.
func (r *Roster) Now() int64 { return r.cfg.Clock() }

// Snapshot returns the current view: that of an empty table before the first.
func (r *Roster) Snapshot() *Snapshot { return r.current.Load() }

// SnapshotOf returns the view of a table by its digest, with the newest loads, if it
// is one of the last 8.
func (r *Roster) SnapshotOf(digest uint64) (*Snapshot, bool) {
	if s := r.current.Load(); s.Table.Digest == digest && len(s.Table.Endpoints) > 0 {
		return s, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.find(digest)
	if h == nil {
		return nil, false
	}
	if h.snapshot == nil || h.loads != r.loads {
		h.snapshot, h.loads = r.view(*h), r.loads
	}
	return h.snapshot, true
}

// OnTable calls f, in order and outside the roster's locks, whenever membership or
// details of endpoints change. Call it before the first SetTable.
func (r *Roster) OnTable(f func(before, after *Table)) { r.onTable = append(r.onTable, f) }

// SetTable makes t the current table. The same table again does nothing.
func (r *Roster) SetTable(t *Table) {
	r.tableMu.Lock()
	defer r.tableMu.Unlock()
	old := r.current.Load().Table
	if old.Equal(t) {
		return
	}
	r.loadsMu.Lock()
	r.mu.Lock()
	r.held = slices.DeleteFunc(r.held, func(h heldTable) bool { return h.table.Digest == t.Digest })
	if len(r.held) == heldTables {
		r.held = slices.Delete(r.held, 0, 1)
	}
	h := heldTable{table: t, states: make([]*state, t.Len()), live: make([]slot, t.Len())}
	for i := range t.Endpoints {
		h.states[i] = r.stateOf(t.Endpoints[i].ID)
		h.live[i] = h.states[i].account.slot
	}
	r.held = append(r.held, h)
	r.forget()
	r.current.Store(r.view(h))
	r.mu.Unlock()
	r.loadsMu.Unlock()
	for _, f := range r.onTable {
		f(old, t)
	}
}

// forget drops the states of endpoints that are in no table held and have no picks.
func (r *Roster) forget() {
	for id, s := range r.states {
		if s.account.inFlight().Load() != 0 {
			continue
		}
		if !slices.ContainsFunc(r.held, func(h heldTable) bool { _, in := h.table.positions[id]; return in }) {
			delete(r.states, id)
		}
	}
}

func (r *Roster) stateOf(id ID) *state {
	s := r.states[id]
	if s == nil {
		s = &state{account: account{slot: r.slots.next()}, waiting: Unknown, running: Unknown, kv: Unknown, observedAt: Never}
		r.states[ID(strings.Clone(string(id)))] = s // which may be a part of a message
	}
	return s
}

func (r *Roster) find(digest uint64) *heldTable {
	for i := range r.held {
		if r.held[i].table.Digest == digest {
			return &r.held[i]
		}
	}
	return nil
}

// view builds a snapshot of a table from the states.
func (r *Roster) view(h heldTable) *Snapshot {
	t, n := h.table, h.table.Len()
	s := &Snapshot{
		Table: t, Waiting: make([]int32, n), Running: make([]int32, n), KV: make([]float32, n), ObservedAt: make([]int64, n),
		Adapters: make([]*Adapters, n), live: h.live, staleness: int64(r.cfg.StalenessLimit),
	}
	for i, st := range h.states {
		s.Waiting[i], s.Running[i], s.KV[i] = st.waiting, st.running, st.kv
		s.ObservedAt[i], s.Adapters[i] = st.observedAt, st.adapters
	}
	return s
}

// Loads is one sample in columns: entry i is the endpoint at Positions[i], or at i
// if Positions is empty. Negative figures are unknown.
type Loads struct {
	// TableDigest names the table that the positions belong to.
	TableDigest uint64
	// Positions are ascending table positions; empty for all.
	Positions []uint32
	// AgeMS is ms from the start of the scrape to the sending; negative: never.
	AgeMS []int32
	// Waiting, Running and KV are the figures. An empty column is unknown for all.
	Waiting, Running []int32
	KV               []float32
	// Adapters are by table position.
	Adapters map[uint32]*Adapters
}

// ApplyLoads takes over the figures that are newer than those held. received is
// when the sample arrived, on the roster's clock. It is an error wrapping
// ErrTableNotHeld if the table is unknown, and any error leaves all as it was.
func (r *Roster) ApplyLoads(l Loads, received int64) error {
	r.loadsMu.Lock()
	defer r.loadsMu.Unlock()
	current, err := r.takeLoads(&l, received)
	if err != nil || current == nil {
		return err
	}
	r.current.Store(r.view(*current))
	return nil
}

// takeLoads takes over what is newer and returns the current table, to be viewed
// again; nil if nothing was newer. It is called under loadsMu.
func (r *Roster) takeLoads(l *Loads, received int64) (current *heldTable, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.find(l.TableDigest)
	if h == nil {
		return nil, fmt.Errorf("loads refer to table %016x: %w", l.TableDigest, ErrTableNotHeld)
	}
	if err := l.check(h.table.Len()); err != nil {
		return nil, err
	}
	newer := false
	for i, age := range l.AgeMS {
		if age < 0 {
			continue
		}
		pos := uint32(i) //nolint:gosec // at most MaxEndpoints
		if len(l.Positions) > 0 {
			pos = l.Positions[i]
		}
		st := h.states[pos]
		observed := received - int64(age)*int64(time.Millisecond)
		if observed <= st.observedAt {
			continue
		}
		newer = true
		st.observedAt = observed
		st.waiting, st.running, st.kv = at(l.Waiting, i), at(l.Running, i), at(l.KV, i)
		st.adapters = l.Adapters[pos]
		st.account.settle(func(at int64) bool { return r.saw(observed, at) })
	}
	if !newer {
		return nil, nil
	}
	r.loads++
	now := *r.find(r.current.Load().Table.Digest)
	return &now, nil
}

func (l *Loads) check(endpoints int) error {
	n := len(l.AgeMS)
	if len(l.Positions) == 0 && n != endpoints || len(l.Positions) > 0 && len(l.Positions) != n {
		return fmt.Errorf("loads have %d ages for %d positions of a table of %d endpoints", n, len(l.Positions), endpoints)
	}
	for _, c := range []int{len(l.Waiting), len(l.Running), len(l.KV)} {
		if c != 0 && c != n {
			return fmt.Errorf("loads have a column of %d figures for %d ages", c, n)
		}
	}
	for _, p := range l.Positions {
		if int(p) >= endpoints {
			return fmt.Errorf("loads have position %d in a table of %d endpoints", p, endpoints)
		}
	}
	return nil
}

// at returns entry i of a column, Unknown if the column is empty or the figure is
// negative or not a number.
func at[T int32 | float32](column []T, i int) T {
	if i >= len(column) || !(column[i] >= 0) { //nolint:staticcheck // NaN is not >= 0 either
		return Unknown
	}
	return column[i]
}
