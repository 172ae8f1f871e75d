package app

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/feed"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

// Config is what an operator can set.
type Config struct {
	// Pool names the pool whose broadcast is followed. Default "default".
	Pool string `yaml:"pool"`
	// NATS is where the broadcast is.
	NATS bus.Config `yaml:"nats"`
	// Listen has the listeners.
	Listen ListenConfig `yaml:"listen"`
	// Index bounds the memory.
	Index index.Config `yaml:"index"`
	// Join says how the index is copied from another prefix-indexer at the start.
	Join feed.Config `yaml:"join"`

	telemetry.Config `yaml:",inline"`
}

// ListenConfig has the listeners.
type ListenConfig struct {
	// GRPC serves the scorer contract. Default ":9100".
	GRPC rpc.ServerConfig `yaml:"grpc"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Pool:   "default",
		NATS:   bus.DefaultConfig(),
		Listen: ListenConfig{GRPC: rpc.DefaultServerConfig(":9100")},
		Index:  index.DefaultConfig(),
		Join:   feed.DefaultConfig(),
		Config: telemetry.DefaultConfig(),
	}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults []error
	if c.Pool == "" {
		faults = append(faults, errors.New("pool: must not be empty"))
	}
	return errors.Join(append(faults,
		conf.Prefix("nats", c.NATS.Validate()),
		conf.Prefix("listen.grpc", c.Listen.GRPC.Validate()),
		conf.Prefix("index", c.Index.Validate()),
		conf.Prefix("join", c.Join.Validate()),
		c.Config.Validate(),
	)...)
}

// load reads the command line and the configuration file it names.
func load(args []string, stdout io.Writer) (Config, error) {
	fs := flag.NewFlagSet(Name, flag.ContinueOnError)
	sources := conf.Flags(fs)
	pool := fs.String("pool", "", "`NAME` of the pool; goes before the key pool")
	if err := conf.ParseFlags(fs, args, stdout); err != nil {
		return Config{}, err
	}
	if *pool != "" {
		sources.Sets = append(sources.Sets, fmt.Sprintf("pool=%q", *pool))
	}
	cfg := DefaultConfig()
	return cfg, conf.Load(sources.File, sources.Sets, &cfg)
}
