package pins

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

const (
	opLookup = "prefix_lookup"
	opLearn  = "prefix_learn"
	opLease  = "prefix_lease"

	// afterTimeout is how long no look-up is tried after one that Redis let wait for the
	// whole budget: what waits behind it must not wait too.
	afterTimeout = 100 * time.Millisecond
)

// Store is the prefixes of one pool in Redis. Its Match and Learn are safe for concurrent
// use.
type Store struct {
	client *redis.Client
	index  *index.Index
	prefix string
	id     string
	ttl    time.Duration
	meters *meters

	quietUntil atomic.Int64 // ns, by the wall clock: no look-up before
	holds      atomic.Bool  // the lease
	lost       atomic.Bool  // what is in fresh may not be in Redis
	queue      chan learned
	fresh      fresh     // of the part
	scratch    sync.Pool // of *lookup
}

// learned is one prompt that an endpoint served.
type learned struct {
	key      index.Key
	endpoint string
	chain    []uint64
}

// lookup is the scratch memory of one Match.
type lookup struct {
	at   []int
	keys []string
}

// New returns the prefixes of a pool. x is what is matched against while Redis is away,
// and knows the endpoints; id is unique to the process; ttl is how long a prefix is
// remembered after it was last served. It starts nothing: see [Store.Part].
func New(client *redis.Client, x *index.Index, pool, id string, ttl time.Duration, tel *telemetry.Telemetry) (*Store, error) {
	m, err := newMeters(tel.Meter)
	if err != nil {
		return nil, err
	}
	s := &Store{
		client: client, index: x, prefix: "pointsman:{" + tag(pool) + "}:prefix:", id: id, ttl: ttl, meters: m,
		queue: make(chan learned, mostQueued),
	}
	s.fresh.clear()
	s.scratch.New = func() any { return new(lookup) }
	client.OnProbe(s.probe)
	return s, nil
}

// Match is index.Index.Match by what is in Redis.
func (s *Store) Match(ctx context.Context, k index.Key, chain []uint64, ordinals []int32, matched []uint32) {
	if len(chain) == 0 || len(ordinals) == 0 {
		clear(matched)
		return
	}
	l := s.scratch.Get().(*lookup)
	defer s.scratch.Put(l)
	l.at = marks(l.at[:0], min(len(chain), index.MaxChain))
	values, err := s.get(ctx, k, chain, l)
	if err != nil {
		s.meters.looked(local)
		s.index.Match(k, chain, ordinals, matched)
		return
	}
	clear(matched)
	result := miss
	endpoints := s.index.Endpoints()
	last, at := "", -1
	for i := len(values) - 1; i >= 0; i-- { // the deepest first
		id, ok := values[i].(string)
		if !ok {
			continue
		}
		if id != last {
			last, at = id, place(endpoints.Ordinal(id), ordinals)
		}
		if at >= 0 && matched[at] == 0 {
			matched[at], result = uint32(l.at[i]), hit //nolint:gosec // at most index.MaxChain
		}
	}
	s.meters.looked(result)
}

// place returns which candidate has the ordinal, −1 if none has.
func place(ordinal int32, ordinals []int32) int {
	if ordinal == index.Unknown {
		return -1
	}
	for i, o := range ordinals {
		if o == ordinal {
			return i
		}
	}
	return -1
}

// get asks Redis who is pinned to the marks of a prompt.
func (s *Store) get(ctx context.Context, k index.Key, chain []uint64, l *lookup) (values []any, err error) {
	now := time.Now()
	if now.UnixNano() < s.quietUntil.Load() {
		return nil, redis.ErrAway
	}
	if !s.client.Up() { // spares the keys
		return nil, redis.ErrAway
	}
	budget := s.client.Budget()
	if end, ok := ctx.Deadline(); ok {
		// Who is asked late answers by the index still in time.
		budget = min(budget, end.Sub(now)/2)
	}
	if budget <= 0 {
		return nil, context.DeadlineExceeded
	}
	l.keys = s.keys(l.keys[:0], k, chain, l.at)
	err = s.client.Do(ctx, opLookup, budget, func(ctx context.Context, r goredis.UniversalClient) error {
		var err error
		values, err = r.MGet(ctx, l.keys...).Result()
		return err
	})
	if redis.KindOf(err) == redis.Budget {
		s.quietUntil.Store(time.Now().Add(afterTimeout).UnixNano())
	}
	if err == nil && len(values) != len(l.at) {
		return nil, errShort
	}
	return values, err
}
