package counter

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// Leases are the requests that this router holds on endpoints, and their copy in a Store.
// Safe for concurrent use.
type Leases struct {
	cfg    Config
	store  Store
	router string
	meters *instruments
	log    *slog.Logger
	wake   chan struct{}

	rewriting sync.Mutex // one rewrite at a time

	mu      sync.Mutex
	on      bool
	held    map[string]*count
	changes map[string]int64 // of held, that the store has not been told
	// inStep is true while the store is known to hold held less changes, up to the calls
	// under way.
	inStep     bool
	doubted    bool // a count was floored since the last rewrite
	token      Token
	generation uint64
	calls      int           // under way with token
	idle       chan struct{} // closed when calls gets to 0; nil: nobody waits
}

// New returns leases without any, kept in store for the router that it is a view of.
// Nothing is shared before Enable(true).
func New(cfg Config, store Store, router string, tel *telemetry.Telemetry) (*Leases, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l := &Leases{
		cfg: cfg, store: store, router: router, log: tel.Log, wake: make(chan struct{}, 1),
		held: map[string]*count{}, changes: map[string]int64{},
	}
	var err error
	l.meters, err = newInstruments(tel.Meter, l)
	return l, err
}

// InRedis returns leases of a pool in Redis. While Redis is away, Reserve fails at once;
// all that is held is written before anybody reads it again. Must be called before the
// client's part runs.
func InRedis(cfg Config, client *redis.Client, pool, router string, tel *telemetry.Telemetry) (*Leases, error) {
	store := NewRedis(client, pool, router, cfg.Lease())
	l, err := New(cfg, store, router, tel)
	if err != nil {
		return nil, err
	}
	client.OnProbe(func(ctx context.Context, r goredis.UniversalClient) error {
		if !l.enabled() {
			return nil
		}
		return l.rewrite(ctx, store.probing(r))
	})
	return l, nil
}

// Enable says whether counts are to be shared: whether anybody decides by them.
func (l *Leases) Enable(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on == on {
		return
	}
	l.on, l.inStep = on, false
	clear(l.changes)
	l.notify()
}

func (l *Leases) enabled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.on
}

// Reserve reserves a place on the candidate with the fewest requests in flight over all
// routers. q.Lot is chosen here. It returns the candidate's index, its requests then, the
// new one included, and a lease to be released. The error is ErrFull, ErrApart,
// redis.ErrAway or one of the connection; nothing is held then.
func (l *Leases) Reserve(ctx context.Context, q Request) (index int, requests int64, lease *Lease, err error) {
	t, ok := l.begin(&q)
	if !ok {
		l.meters.reserved(ErrApart)
		return 0, 0, nil, ErrApart
	}
	q.Lot = rand.Uint32()
	p, err := l.store.Pick(ctx, t, q)
	l.mu.Lock()
	l.end(err, q.Deltas, p.Floored)
	if err == nil {
		c := l.count(q.Candidates[p.Index])
		c.requests++
		if c.gone {
			l.change(c.endpoint, -1) // it left meanwhile
		}
		lease = &Lease{leases: l, count: c}
	}
	l.mu.Unlock()
	l.meters.reserved(err)
	return p.Index, p.Requests, lease, err
}

// Adopt counts a request that was placed in another way.
func (l *Leases) Adopt(endpoint string) *Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.count(endpoint)
	c.requests++
	if !c.gone {
		l.change(endpoint, 1)
	}
	return &Lease{leases: l, count: c}
}

// Retain takes the endpoints that are not known out of the counts, and counts those that
// have come back.
func (l *Leases) Retain(known func(endpoint string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e, c := range l.held {
		switch gone := !known(e); {
		case gone && c.requests == 0:
			delete(l.held, e)
		case gone != c.gone:
			c.gone = gone
			if gone {
				l.change(e, -c.requests)
			} else {
				l.change(e, c.requests)
			}
		}
	}
}

// Counts returns the requests in flight of all routers, as the store has them.
func (l *Leases) Counts(ctx context.Context) (map[string]int64, error) { return l.store.Counts(ctx) }

// Held returns how many requests this router holds.
func (l *Leases) Held() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int64(0)
	for _, c := range l.held {
		n += c.requests
	}
	return n
}

// InStep reports whether the store counts what this router holds.
func (l *Leases) InStep() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inStep && l.store.Up()
}

// count returns the count of an endpoint. It is called with mu held.
func (l *Leases) count(endpoint string) *count {
	c := l.held[endpoint]
	if c == nil {
		c = &count{endpoint: endpoint}
		l.held[endpoint] = c
	}
	return c
}

// change notes what the store is to be told. It is called with mu held.
func (l *Leases) change(endpoint string, by int64) {
	if !l.on || !l.inStep {
		return // a rewrite will tell everything
	}
	if l.changes[endpoint] += by; l.changes[endpoint] == 0 {
		delete(l.changes, endpoint)
		return
	}
	l.notify()
}

// begin begins a call under the token, if the store is in step. q takes along what the
// store has not been told yet.
func (l *Leases) begin(q *Request) (Token, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.on || !l.inStep {
		return Token{}, false
	}
	l.calls++
	if q != nil {
		q.Deltas = l.take(mostTaken)
	}
	return l.token, true
}

// take takes at most n of the changes. It is called with mu held.
func (l *Leases) take(n int) []Delta {
	if len(l.changes) == 0 {
		return nil
	}
	deltas := make([]Delta, 0, min(n, len(l.changes)))
	for e, by := range l.changes {
		if len(deltas) == n {
			break
		}
		deltas = append(deltas, Delta{e, by})
		delete(l.changes, e)
	}
	return deltas
}

// end ends a call that began and told deltas. It is called with mu held. An error other
// than that nothing was done leaves open whether anything was. A count that was floored is
// one too high or soon will be, for what it lacked is under way (one's end overtook its
// beginning on another connection): it is written anew soon, and gone by until then.
func (l *Leases) end(err error, deltas []Delta, floored int) {
	if floored > 0 {
		l.meters.flooredBy(floored)
		l.doubted = true
		l.notify()
	}
	if l.calls--; l.calls == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
	switch {
	case err == nil, errors.Is(err, ErrFull):
		return
	case errors.Is(err, redis.ErrAway):
		for _, d := range deltas {
			l.change(d.Endpoint, d.Change)
		}
		return
	case errors.Is(err, errLapsed) && l.inStep:
		l.meters.lapsed(l.sum())
	}
	if l.inStep {
		l.inStep = false
		clear(l.changes)
		l.notify()
	}
}

// sum is called with mu held.
func (l *Leases) sum() int64 {
	n := int64(0)
	for _, c := range l.held {
		if !c.gone {
			n += c.requests
		}
	}
	return n
}

func (l *Leases) notify() {
	select {
	case l.wake <- struct{}{}:
	default: // awake already
	}
}
