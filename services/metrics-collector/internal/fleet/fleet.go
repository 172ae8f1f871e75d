package fleet

import (
	"sync"
	"time"
)

// Config is how a Fleet judges other collectors.
type Config struct {
	// Self is this collector's identity on the bus.
	Self string
	// DeadAfter is the silence after which a collector is taken for dead. Default 1 s,
	// four heartbeats.
	DeadAfter time.Duration
}

// Fleet is the knowledge of one collector. Safe for concurrent use.
type Fleet struct {
	cfg Config

	mu         sync.Mutex
	targets    map[string]*Target // by key
	lives      lives
	peers      map[string]*peer
	details    map[ID]Details
	readings   map[ID]Reading
	ticked     time.Time
	discovered bool      // a set of targets was told
	joined     bool      // the others were asked
	fresh      bool      // targets changed since the last Refresh
	dirty      bool      // anything changed since the last Refresh
	newest     time.Time // newest change time heard of
	view       *View
	takeOvers  uint64
	notify     func()
}

// New returns a fleet without endpoints. notify is called, outside of any lock, when
// Refresh would return something new; nil is allowed.
func New(cfg Config, notify func()) *Fleet {
	if notify == nil {
		notify = func() {}
	}
	return &Fleet{
		cfg: cfg, targets: make(map[string]*Target), lives: make(lives), peers: make(map[string]*peer),
		details: make(map[ID]Details), readings: make(map[ID]Reading), notify: notify,
	}
}

// Discovered tells the endpoints that there are now, all of them. Keys must differ.
func (f *Fleet) Discovered(now time.Time, targets []*Target) {
	defer f.changed()()
	fresh := make(map[string]*Target, len(targets))
	for _, t := range targets {
		key := t.Key()
		fresh[key] = t
		old := f.targets[key]
		if old != nil && old.Equal(t) {
			fresh[key] = old
		} else {
			f.fresh, f.dirty = true, true
		}
		if t.GivenID == "" {
			f.lives.appear(key, f.liveNumber(key), now)
		}
	}
	for key, t := range f.targets {
		if fresh[key] == nil {
			f.fresh, f.dirty = true, true
			if t.GivenID == "" {
				f.lives.leave(key, now)
			}
		}
	}
	f.targets = fresh
	if !f.discovered {
		f.discovered, f.fresh, f.dirty = true, true, true
	}
}

// liveNumber is the highest life under which a live collector has the address.
func (f *Fleet) liveNumber(address string) (highest int) {
	for _, p := range f.peers {
		if p.alive {
			highest = max(highest, p.numbers[address])
		}
	}
	return highest
}

// Joined says that the other collectors were asked for what they know, and have been
// heard or not. Before, nothing is announced and nothing is scraped.
func (f *Fleet) Joined() {
	defer f.changed()()
	f.joined, f.dirty = true, true
}

// HeardFrom notes a sign of life of another collector.
func (f *Fleet) HeardFrom(now time.Time, collector string) {
	if collector == f.cfg.Self {
		return
	}
	defer f.changed()()
	p := f.peer(collector)
	p.heard = now
	if !p.alive {
		p.alive, f.dirty = true, true
	}
}

// Left notes that another collector leaves.
func (f *Fleet) Left(collector string) {
	defer f.changed()()
	if f.peers[collector] != nil {
		delete(f.peers, collector)
		f.dirty = true
	}
}

// HeardTable notes another collector's table.
func (f *Fleet) HeardTable(now time.Time, collector string, changed time.Time, entries []TableEntry) {
	if collector == f.cfg.Self {
		return
	}
	defer f.changed()()
	p := f.peer(collector)
	p.changed = changed
	if changed.After(f.newest) {
		f.newest = changed
	}
	numbers := make(map[string]int)
	for _, e := range entries {
		if n, ok := lifeNumber(e.ID, e.Address); ok {
			numbers[e.Address] = n
			if f.lives.hear(e.Address, n, now) {
				f.dirty = true
			}
		}
	}
	if p.table != nil && p.sameAs(entries) {
		return
	}
	p.numbers, p.table = numbers, make(map[ID]Details, len(entries))
	for _, e := range entries {
		p.table[e.ID] = e.Details
	}
	f.dirty = true
}

// peer returns what is known of a collector. One that was only heard of through its
// table does not count as alive.
func (f *Fleet) peer(collector string) *peer {
	p := f.peers[collector]
	if p == nil {
		p = &peer{}
		f.peers[collector] = p
	}
	return p
}

// Observed notes a reading of an endpoint, by this collector or another. An older one
// than is known is dropped.
func (f *Fleet) Observed(id ID, r Reading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old, ok := f.readings[id]; !ok || r.At.After(old.At) {
		f.readings[id] = r
	}
}

// Learned notes details that this collector has read from an endpoint.
func (f *Fleet) Learned(id ID, d Details) {
	defer f.changed()()
	if !f.details[id].Equal(d) {
		f.details[id] = d
		f.dirty = true
	}
}

// Tick lets time pass: silent collectors die. They do not while the bus is away, nor
// if the last Tick is so long ago that it is rather this collector that was asleep.
func (f *Fleet) Tick(now time.Time, connected bool) {
	defer f.changed()()
	deaf := !connected || now.Sub(f.ticked) > f.cfg.DeadAfter*3/4
	f.ticked = now
	for id, p := range f.peers {
		switch {
		case deaf:
			p.heard = now
		case now.Sub(p.heard) <= f.cfg.DeadAfter:
		case p.alive:
			p.alive, f.dirty = false, true
		case now.Sub(p.heard) > settleTime:
			delete(f.peers, id)
		}
	}
	f.lives.expire(now)
}

// changed locks the fleet and returns the function that unlocks it and tells of changes.
func (f *Fleet) changed() func() {
	f.mu.Lock()
	return func() {
		tell := f.dirty
		f.mu.Unlock()
		if tell {
			f.notify()
		}
	}
}

// Readings returns the newest reading of each member of the view, by position.
func (f *Fleet) Readings(v *View, into []Reading) []Reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	into = into[:0]
	for i := range v.Members {
		r, ok := f.readings[v.Members[i].ID]
		if !ok {
			r = unread()
		}
		into = append(into, r)
	}
	return into
}

// View returns what the last Refresh came to; nil before.
func (f *Fleet) View() *View {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view
}

// TakeOvers returns how many endpoints of collectors that died or left this one has
// taken over.
func (f *Fleet) TakeOvers() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.takeOvers
}
