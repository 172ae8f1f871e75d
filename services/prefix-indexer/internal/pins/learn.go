package pins

import (
	"context"
	"errors"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

const (
	// mostQueued bounds the prompts that wait to be written, of at most 64 KiB each.
	mostQueued = 1024
	// mostTogether is how many are written by one pipeline.
	mostTogether = 16
	// writeBudget is how long writing may take; no request waits for it.
	writeBudget = 250 * time.Millisecond

	leaseLife  = 5 * time.Second
	leaseRenew = time.Second
)

var errShort = errors.New("redis answered with fewer values than keys")

// renew takes the lease or renews it; release ends it. KEYS: the lease. ARGV: who, and for
// how many ms.
var (
	renew   = redis.NewScript(`local who = redis.call('GET', KEYS[1]) if who and who ~= ARGV[1] then return 0 end redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1`)
	release = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
)

// Learn notes that an endpoint served a prompt. It does not block; without the lease it
// does nothing. chain must not be changed afterwards.
func (s *Store) Learn(k index.Key, endpoint string, chain []uint64) {
	if !s.holds.Load() || len(chain) == 0 {
		return
	}
	select {
	case s.queue <- learned{k, endpoint, chain[:min(len(chain), index.MaxChain)]}:
	default:
		s.meters.wrote(dropped, 1)
	}
}

// Part holds the lease, if it can be had, and writes what is learned.
func (s *Store) Part() run.Part {
	return func(ctx context.Context, ready func()) error {
		ready()
		lease := time.NewTicker(leaseRenew)
		defer lease.Stop()
		s.hold(ctx)
		for {
			select {
			case <-ctx.Done():
				s.letGo()
				return nil
			case <-lease.C:
				s.hold(ctx)
			case first := <-s.queue:
				s.write(ctx, first)
			}
		}
	}
}

// hold takes or renews the lease.
func (s *Store) hold(ctx context.Context) {
	var held bool
	err := s.client.Do(ctx, opLease, writeBudget, func(ctx context.Context, r goredis.UniversalClient) error {
		v, err := renew.Run(ctx, r, []string{s.leaseKey()}, s.id, leaseLife.Milliseconds())
		held = v == int64(1)
		return err
	})
	// While Redis is away there is nothing to write; the lease is asked for again.
	if before := s.holds.Swap(err == nil && held); err == nil && held && !before {
		s.lost.Store(true) // another may have written meanwhile
	}
	s.meters.writer(err == nil && held)
}

// letGo ends the lease, so that another goes on at once.
func (s *Store) letGo() {
	if !s.holds.Swap(false) {
		return
	}
	s.meters.writer(false)
	// Its end comes by itself if this fails.
	_ = s.client.Do(context.Background(), opLease, writeBudget, func(ctx context.Context, r goredis.UniversalClient) error {
		_, err := release.Run(ctx, r, []string{s.leaseKey()}, s.id)
		return err
	})
}

func (s *Store) leaseKey() string { return s.prefix + "writer" }

// write pins a prompt, and others that wait, in one go.
func (s *Store) write(ctx context.Context, first learned) {
	all := []learned{first}
	for more := true; more && len(all) < mostTogether; {
		select {
		case l := <-s.queue:
			all = append(all, l)
		default:
			more = false
		}
	}
	if s.lost.Swap(false) {
		s.fresh.clear()
	}
	s.fresh.turn(time.Now(), s.ttl)
	stale := make([][]string, len(all))
	commands := 0
	for i, l := range all {
		for _, k := range s.keys(nil, l.key, l.chain, marks(nil, len(l.chain))) {
			if !s.fresh.is(k, l.endpoint) {
				stale[i] = append(stale[i], k)
			}
		}
		s.fresh.note(stale[i], l.endpoint)
		commands += len(stale[i])
	}
	if commands == 0 {
		s.meters.wrote(written, len(all))
		return
	}
	err := s.client.Do(ctx, opLearn, writeBudget, func(ctx context.Context, r goredis.UniversalClient) error {
		_, err := r.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for i, l := range all {
				// Last things first: who looks meanwhile finds the longest match.
				for _, k := range slices.Backward(stale[i]) {
					p.Set(ctx, k, l.endpoint, s.ttl)
				}
			}
			return nil
		})
		return err
	})
	if err != nil {
		s.fresh.clear() // some may not have been written
		s.meters.wrote(failed, len(all))
		return
	}
	s.meters.wrote(written, len(all))
}

// probe finds out whether Redis takes writes. One that only answers look-ups goes stale,
// and the index is better.
func (s *Store) probe(ctx context.Context, r goredis.UniversalClient) error {
	s.lost.Store(true) // it may have come back empty
	return r.Set(ctx, s.prefix+"probe", s.id, leaseLife).Err()
}
