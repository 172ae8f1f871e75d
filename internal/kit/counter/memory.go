package counter

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Memory is the counts of a pool in the memory of one process. Each router has its own
// view of it: see [Memory.Router].
type Memory struct {
	lease time.Duration
	clock func() time.Time

	mu      sync.Mutex
	epoch   int
	sums    map[string]int64
	routers map[string]*sub
}

// sub is one router's sub-counters.
type sub struct {
	token  Token
	counts map[string]int64
	ends   time.Time
}

// NewMemory returns counts without any. lease is how long a router's counts live without
// being renewed; clock is time.Now, or a test's.
func NewMemory(lease time.Duration, clock func() time.Time) *Memory {
	return &Memory{lease: lease, clock: clock, sums: map[string]int64{}, routers: map[string]*sub{}}
}

// Router returns the store as the router sees it.
func (m *Memory) Router(id string) Store { return view{m, id} }

// Forget loses everything, as a restart does.
func (m *Memory) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch++
	m.sums, m.routers = map[string]int64{}, map[string]*sub{}
}

type view struct {
	*Memory
	id string
}

// Up implements Store.
func (v view) Up() bool { return true }

// sub returns the sub-counters under the token. It is called with mu held.
func (v view) sub(t Token) (*sub, error) {
	s := v.routers[v.id]
	if s == nil || s.token != t {
		return nil, errLapsed
	}
	return s, nil
}

// Pick implements Store.
func (v view) Pick(_ context.Context, t Token, q Request) (Picked, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, err := v.sub(t)
	if err != nil {
		return Picked{}, err
	}
	p := Picked{Floored: v.tell(s, q.Deltas)}
	var ties []int
	for i, e := range q.Candidates {
		c := v.sums[e]
		switch {
		case q.Limit > 0 && c >= q.Limit:
		case len(ties) == 0 || c < v.sums[q.Candidates[ties[0]]]:
			ties = append(ties[:0], i)
		case c == v.sums[q.Candidates[ties[0]]]:
			ties = append(ties, i)
		}
	}
	if len(ties) == 0 {
		return p, ErrFull
	}
	p.Index = ties[0]
	if !q.First {
		p.Index = ties[int(q.Lot)%len(ties)]
	}
	e := q.Candidates[p.Index]
	s.counts[e]++
	v.sums[e]++
	p.Requests = v.sums[e]
	return p, nil
}

// add changes the sum of an endpoint. It is called with mu held.
func (m *Memory) add(e string, change int64) {
	if m.sums[e] += change; m.sums[e] <= 0 {
		delete(m.sums, e)
	}
}

// Adjust implements Store.
func (v view) Adjust(_ context.Context, t Token, deltas []Delta) (floored int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, err := v.sub(t)
	if err != nil {
		return 0, err
	}
	return v.tell(s, deltas), nil
}

// tell takes changes over. It is called with mu held.
func (m *Memory) tell(s *sub, deltas []Delta) (floored int) {
	for _, d := range deltas {
		change := d.Change
		if now := s.counts[d.Endpoint] + change; now < 0 {
			floored++
			change -= now
		}
		if s.counts[d.Endpoint] += change; s.counts[d.Endpoint] == 0 {
			delete(s.counts, d.Endpoint)
		}
		m.add(d.Endpoint, change)
	}
	return floored
}

// Replace implements Store.
func (v view) Replace(_ context.Context, generation uint64, counts []Count) (t Token, expired []string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.routers[v.id]; s != nil {
		if s.token.Generation >= generation {
			return Token{}, nil, errLapsed
		}
		for e, n := range s.counts {
			v.add(e, -n)
		}
	}
	s := &sub{token: Token{strconv.Itoa(v.epoch), generation}, counts: map[string]int64{}, ends: v.clock().Add(v.lease)}
	for _, c := range counts {
		s.counts[c.Endpoint] = c.Requests
		v.add(c.Endpoint, c.Requests)
	}
	v.routers[v.id] = s
	return s.token, v.expired(), nil
}

// Renew implements Store.
func (v view) Renew(_ context.Context, t Token) (expired []string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, err := v.sub(t)
	if err != nil {
		return nil, err
	}
	s.ends = v.clock().Add(v.lease)
	return v.expired(), nil
}

// expired is called with mu held.
func (m *Memory) expired() []string {
	now := m.clock()
	var out []string
	for _, id := range slices.Sorted(maps.Keys(m.routers)) {
		if !m.routers[id].ends.After(now) {
			out = append(out, id)
		}
	}
	return out
}

// End implements Store.
func (v view) End(_ context.Context, router string) (requests int64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.routers[router]
	if s == nil || router != v.id && s.ends.After(v.clock()) {
		return 0, nil
	}
	for e, n := range s.counts {
		requests += n
		v.add(e, -n)
	}
	delete(v.routers, router)
	return requests, nil
}

// Counts implements Store.
func (v view) Counts(context.Context) (map[string]int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.sums), nil
}
