package app

import (
	"errors"

	"github.com/pointsman/pointsman/internal/kit/conf"
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
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Config: scorersvc.DefaultConfig(), Index: index.DefaultConfig(), Join: feed.DefaultConfig()}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	return errors.Join(
		c.Config.Validate(),
		conf.Prefix("index", c.Index.Validate()),
		conf.Prefix("join", c.Join.Validate()),
	)
}
