package inflight

import (
	"context"
	"errors"
	"fmt"

	"github.com/pointsman/pointsman/internal/kit/counter"
	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Config says where Redis is, and how long counts live.
type Config struct {
	// Redis is, at the same level, where Redis is and what it may cost.
	Redis redis.Config `yaml:",inline"`
	// Counter is, at the same level, how long counts live.
	Counter counter.Config `yaml:",inline"`
}

// DefaultConfig returns a configuration without an address: counts are not shared.
func DefaultConfig() Config {
	return Config{Redis: redis.DefaultConfig(), Counter: counter.DefaultConfig()}
}

// Validate returns all faults.
func (c Config) Validate() error { return errors.Join(c.Redis.Validate(), c.Counter.Validate()) }

// Counts are this router's requests among the counts of all routers. Safe for concurrent
// use.
type Counts struct {
	client *redis.Client
	leases *counter.Leases
}

var _ route.Counts = (*Counts)(nil)

// New returns the counts of the pool for the router, whose id no other process ever has. They
// are not shared before Use.
func New(cfg Config, pool, router string, tel *telemetry.Telemetry) (*Counts, error) {
	client, err := redis.New(cfg.Redis, tel)
	if err != nil {
		return nil, err
	}
	leases, err := counter.InRedis(cfg.Counter, client, pool, router, tel)
	if err != nil {
		return nil, err
	}
	return &Counts{client: client, leases: leases}, nil
}

// ClientPart keeps the connection to Redis. It runs before Part.
func (c *Counts) ClientPart() run.Part { return c.client.Part() }

// Part keeps the counts.
func (c *Counts) Part() run.Part { return c.leases.Part() }

// Use shares counts if a picker of the configuration goes by them.
func (c *Counts) Use(cfg *route.Config) { c.leases.Enable(Wanted(cfg)) }

// Wanted tells whether a picker of the configuration goes by the counts of all routers.
func Wanted(cfg *route.Config) bool {
	for _, p := range cfg.Profiles {
		if _, shared := p.Picker.(route.SharedPicker); shared {
			return true
		}
	}
	return false
}

// Reserve implements route.Counts.
func (c *Counts) Reserve(ctx context.Context, ids []roster.ID, limit int64, first bool) (int, route.Place, error) {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	at, _, lease, err := c.leases.Reserve(ctx, counter.Request{Candidates: names, Limit: limit, First: first})
	if errors.Is(err, counter.ErrFull) {
		return 0, nil, fmt.Errorf("%w: each of %d endpoints has %d requests in flight over all routers, the most that are allowed", route.ErrShed, len(ids), limit)
	}
	if err != nil {
		return 0, nil, err
	}
	return at, lease, nil
}

// Adopt counts a pick that was not reserved over all routers.
func (c *Counts) Adopt(id roster.ID) route.Place { return c.leases.Adopt(string(id)) }

// Retain stops counting on endpoints that are not in the table. It is made for
// roster.OnTable.
func (c *Counts) Retain(_, table *roster.Table) {
	c.leases.Retain(func(id string) bool {
		_, there := table.Position(roster.ID(id))
		return there
	})
}
