package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/scorersvc"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/feed"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

// Config is what an operator can set.
type Config struct {
	scorersvc.Config `yaml:",inline"`

	// Index bounds the memory.
	Index index.Config `yaml:"index"`
	// Join says how the index is copied from another prefix-indexer at the start.
	Join feed.Config `yaml:"join"`
	// Store is where prefixes are looked up: "memory", the index, which remembers everybody
	// who was sent a prompt; or "redis", which remembers who served it last, for KeyTTL,
	// over restarts of all prefix-indexers. The index is kept all the same, and gone by
	// while Redis is away. Default memory.
	Store string `yaml:"store"`
	// KeyTTL is how long Redis remembers a prefix after it was last served. Default 30m.
	KeyTTL conf.Duration `yaml:"keyTTL"`
	// Redis says where Redis is; for store: redis.
	Redis redis.Config `yaml:"redis"`
}

// Stores.
const (
	storeMemory = "memory"
	storeRedis  = "redis"
)

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Config: scorersvc.DefaultConfig(), Index: index.DefaultConfig(), Join: feed.DefaultConfig(),
		Store: storeMemory, KeyTTL: conf.Duration(30 * time.Minute), Redis: redis.DefaultConfig(),
	}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	return errors.Join(
		c.Config.Validate(),
		conf.Prefix("index", c.Index.Validate()),
		conf.Prefix("join", c.Join.Validate()),
		c.validateStore(),
		conf.Prefix("redis", c.Redis.Validate()),
	)
}

func (c Config) validateStore() error {
	var faults []error
	switch {
	case c.Store != storeMemory && c.Store != storeRedis:
		faults = append(faults, fmt.Errorf("store: %q is neither memory nor redis", c.Store))
	case c.Store == storeRedis && !c.Redis.Enabled():
		faults = append(faults, errors.New("redis.address: missing; store: redis wants it"))
	}
	if c.KeyTTL.D() < time.Second {
		faults = append(faults, fmt.Errorf("keyTTL: %v is less than 1s", c.KeyTTL))
	}
	return errors.Join(faults...)
}
