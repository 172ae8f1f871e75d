package counter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pointsman/pointsman/internal/kit/redis"
)

// memory is for how many TTLs Redis keeps what no router renews any longer.
const memory = 20

// Redis is a Store in Redis.
type Redis struct {
	client  *redis.Client
	direct  goredis.UniversalClient // for probes: past the breaker
	scripts *scripts
	router  string
	prefix  string
	lease   time.Duration
}

// NewRedis returns the store of a pool for the router, whose id no other process ever
// has. lease is how long its counts live without being renewed.
func NewRedis(client *redis.Client, pool, router string, lease time.Duration) *Redis {
	return &Redis{client: client, scripts: newScripts(), router: router, prefix: "pointsman:{" + tag(pool) + "}:", lease: lease}
}

// tag writes a pool's name so that it can stand between braces: what is no letter,
// digit, '.', '_' or '-' as %XX.
func tag(pool string) string {
	var b strings.Builder
	for i := range len(pool) {
		switch c := pool[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// probing returns the store as a probe sees it: with calls that the breaker lets through.
func (s *Redis) probing(r goredis.UniversalClient) *Redis {
	p := *s
	p.direct = r
	return &p
}

// Up implements Store.
func (s *Redis) Up() bool { return s.direct != nil || s.client.Up() }

func (s *Redis) sums() string { return s.prefix + "inflight" }

func (s *Redis) own(router string) string { return s.prefix + "inflight:" + router }

func (s *Redis) routers() string { return s.prefix + "routers" }

// run runs a script; its answer is a list that begins with a number.
func (s *Redis) run(ctx context.Context, op string, script *redis.Script, keys []string, args ...any) (first int64, rest []any, err error) {
	call := func(ctx context.Context, r goredis.UniversalClient) error {
		v, err := script.Run(ctx, r, keys, args...)
		if err != nil {
			return err
		}
		list, ok := v.([]any)
		if ok && len(list) > 0 {
			if first, ok = list[0].(int64); ok {
				rest = list[1:]
				return nil
			}
		}
		return fmt.Errorf("script %s answers %v", op, v)
	}
	if s.direct != nil {
		err = call(ctx, s.direct)
	} else {
		err = s.client.Do(ctx, op, 0, call)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", op, err)
	}
	if first < 0 {
		return 0, nil, errLapsed
	}
	return first, rest, nil
}

// Pick implements Store.
func (s *Redis) Pick(ctx context.Context, t Token, q Request) (Picked, error) {
	lot := int64(q.Lot)
	if q.First {
		lot = -1
	}
	args := make([]any, 0, 5+2*len(q.Deltas)+len(q.Candidates))
	args = append(args, t.Epoch, t.Generation, q.Limit, lot, 6+2*len(q.Deltas))
	for _, d := range q.Deltas {
		args = append(args, d.Change, d.Endpoint)
	}
	for _, e := range q.Candidates {
		args = append(args, e)
	}
	at, rest, err := s.run(ctx, "reserve", s.scripts.pick, []string{s.sums(), s.own(s.router)}, args...)
	switch {
	case err != nil:
		return Picked{}, err
	case at > int64(len(q.Candidates)) || len(rest) != 2:
		return Picked{}, fmt.Errorf("reserve: the answer %d %v is out of range", at, rest)
	}
	p := Picked{Index: int(at - 1), Requests: number(rest), Floored: int(number(rest[1:]))}
	if at == 0 {
		return p, ErrFull
	}
	return p, nil
}

// Adjust implements Store.
func (s *Redis) Adjust(ctx context.Context, t Token, deltas []Delta) (floored int, err error) {
	args := make([]any, 0, 2+2*len(deltas))
	args = append(args, t.Epoch, t.Generation)
	for _, d := range deltas {
		args = append(args, d.Change, d.Endpoint)
	}
	_, rest, err := s.run(ctx, "adjust", s.scripts.adjust, []string{s.sums(), s.own(s.router)}, args...)
	if err != nil {
		return 0, err
	}
	return int(number(rest)), nil
}

// Replace implements Store.
func (s *Redis) Replace(ctx context.Context, generation uint64, counts []Count) (t Token, expired []string, err error) {
	args := make([]any, 0, 5+2*len(counts))
	args = append(args, s.router, generation, s.lease.Milliseconds(), memory*s.lease.Milliseconds(), newEpoch(s.router, generation))
	for _, c := range counts {
		args = append(args, c.Requests, c.Endpoint)
	}
	_, rest, err := s.run(ctx, "replace", s.scripts.replace, []string{s.sums(), s.own(s.router), s.routers()}, args...)
	if err != nil {
		return Token{}, nil, err
	}
	if len(rest) != 2 {
		return Token{}, nil, fmt.Errorf("replace: the answer has %d parts", len(rest))
	}
	epoch, _ := rest[0].(string)
	return Token{epoch, generation}, texts(rest[1]), nil
}

// newEpoch returns a name for a life of the sums. It is longer than 64 bytes, whence Redis
// keeps a hash that holds it as a table however few fields there are: as a list, which it
// would search from the start for every candidate, a pick among 500 takes 15 times as long.
func newEpoch(router string, generation uint64) string {
	return fmt.Sprintf("%-72s", router+"/"+strconv.FormatUint(generation, 10))
}

// Renew implements Store.
func (s *Redis) Renew(ctx context.Context, t Token) (expired []string, err error) {
	_, rest, err := s.run(ctx, "renew", s.scripts.renew, []string{s.sums(), s.own(s.router), s.routers()},
		t.Epoch, t.Generation, s.router, s.lease.Milliseconds(), memory*s.lease.Milliseconds())
	if err != nil {
		return nil, err
	}
	if len(rest) != 1 {
		return nil, errors.New("renew: the answer has no list")
	}
	return texts(rest[0]), nil
}

// End implements Store.
func (s *Redis) End(ctx context.Context, router string) (requests int64, err error) {
	own := "0"
	if router == s.router {
		own = "1"
	}
	_, rest, err := s.run(ctx, "end", s.scripts.end, []string{s.sums(), s.own(router), s.routers()}, router, own)
	if err != nil {
		return 0, err
	}
	return number(rest), nil
}

// Counts implements Store.
func (s *Redis) Counts(ctx context.Context) (map[string]int64, error) {
	counts := map[string]int64{}
	err := s.client.Do(ctx, "counts", 0, func(ctx context.Context, r goredis.UniversalClient) error {
		all, err := r.HGetAll(ctx, s.sums()).Result()
		for e, text := range all {
			if e == "" {
				continue
			}
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("count of %q: %w", e, err)
			}
			counts[e] = n
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("counts: %w", err)
	}
	return counts, nil
}

// number is the first of a list, 0 if it has none.
func number(list []any) int64 {
	if len(list) == 0 {
		return 0
	}
	n, _ := list[0].(int64)
	return n
}

func texts(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
