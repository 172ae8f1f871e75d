package app

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// Config is what an operator can set.
type Config struct {
	// Pool names the pool whose broadcast is followed. Default "default".
	Pool string `yaml:"pool"`
	// NATS is where the broadcast is.
	NATS bus.Config `yaml:"nats"`
	// Listen has the listeners.
	Listen ListenConfig `yaml:"listen"`
	// Roster says which figures are believed.
	Roster RosterConfig `yaml:"roster"`

	telemetry.Config `yaml:",inline"`
}

// ListenConfig has the listeners.
type ListenConfig struct {
	// GRPC serves the scorer contract. Default ":9100".
	GRPC rpc.ServerConfig `yaml:"grpc"`
}

// RosterConfig says which figures are believed.
type RosterConfig struct {
	// StalenessLimit is the age above which an endpoint's figures are not believed,
	// so that it is abstained on. Default 5s. Raise it above the scrape interval of
	// the slowest endpoint.
	StalenessLimit conf.Duration `yaml:"stalenessLimit"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Pool:   "default",
		NATS:   bus.DefaultConfig(),
		Listen: ListenConfig{GRPC: rpc.DefaultServerConfig(":9100")},
		Roster: RosterConfig{StalenessLimit: conf.Duration(roster.DefaultConfig().StalenessLimit)},
		Config: telemetry.DefaultConfig(),
	}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults []error
	if c.Pool == "" {
		faults = append(faults, errors.New("pool: must not be empty"))
	}
	if c.Roster.StalenessLimit <= 0 {
		faults = append(faults, fmt.Errorf("roster.stalenessLimit: must be above 0, not %v", c.Roster.StalenessLimit))
	}
	return errors.Join(append(faults,
		conf.Prefix("nats", c.NATS.Validate()),
		conf.Prefix("listen.grpc", c.Listen.GRPC.Validate()),
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
