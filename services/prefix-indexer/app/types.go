package app

import (
	"fmt"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/scorersvc"
	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/feed"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/pins"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/prefix"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/recency"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/session"
)

// types makes the index, which is filled from the broadcast, and lists what is served
// here.
func types(s *scorersvc.Service, cfg Config) ([]scorer.Type, error) {
	x, err := index.New(cfg.Index)
	if err != nil {
		return nil, conf.Prefix("index", err)
	}
	s.Roster.OnTable(func(_, now *roster.Table) { x.SetEndpoints(ids(now)) })
	used := &recency.Order{}
	placements, err := feed.New(x, used, s.Bus, cfg.Join, s.Telemetry)
	if err != nil {
		return nil, err
	}
	s.Add("placements", placements.Part())
	s.Roster.OnTable(func(_, now *roster.Table) { placements.Keep(ids(now)) })

	matches, err := newMatches(s.Telemetry.Meter)
	if err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	if err := showIndex(s.Telemetry.Meter, x); err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	indexed := prefix.Config{Roster: s.Roster, Index: x, Abstained: s.Abstained, Matched: matches.observe}
	if cfg.Store == storeRedis {
		keys, err := newPins(s, x, cfg)
		if err != nil {
			return nil, err
		}
		placements.OnServed(keys.Learn)
		indexed.Matcher = keys
	}
	indexed.Mismatched = func(blockSize uint32, endpoints int, tokens uint32) {
		s.Telemetry.Log.Warn("prefix blocks are not as large as the KV-cache blocks of some endpoints; autoTune makes them so",
			"block_bytes", blockSize, "endpoints", endpoints, "cache_block_tokens", tokens)
	}
	return []scorer.Type{
		prefix.New(indexed),
		prefix.NewNoHit(indexed, used),
		session.New(session.Config{Pool: s.Config.Pool, Roster: s.Roster, Abstained: s.Abstained}),
	}, nil
}

// newPins makes the prefixes in Redis.
func newPins(s *scorersvc.Service, x *index.Index, cfg Config) (*pins.Store, error) {
	client, err := redis.New(cfg.Redis, s.Telemetry)
	if err != nil {
		return nil, err
	}
	keys, err := pins.New(client, x, s.Config.Pool, s.Bus.PublisherID(), cfg.KeyTTL.D(), s.Telemetry)
	if err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	s.Add("redis", client.Part())
	s.Add("prefix keys", keys.Part())
	return keys, nil
}

func ids(t *roster.Table) []string {
	out := make([]string, t.Len())
	for i := range t.Endpoints {
		out[i] = string(t.Endpoints[i].ID)
	}
	return out
}
