package scorersvc

import (
	"errors"
	"fmt"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// Config is what an operator can set in every scorer service. A service with
// settings of its own embeds it, inlined, and hides Validate by one that calls it.
type Config struct {
	// Pool names the pool whose broadcast is followed. Default "default".
	Pool string `yaml:"pool"`
	// NATS is where the broadcast is.
	NATS bus.Config `yaml:"nats"`
	// Listen has the listeners.
	Listen ListenConfig `yaml:"listen"`
	// Roster says which figures are believed.
	Roster RosterConfig `yaml:"roster"`

	// Telemetry is, at the top level, log, admin port and traces.
	Telemetry telemetry.Config `yaml:",inline"`
}

// ListenConfig has the listeners.
type ListenConfig struct {
	// GRPC serves the scorer contract. Default ":9100".
	GRPC rpc.ServerConfig `yaml:"grpc"`
}

// RosterConfig says which figures are believed.
type RosterConfig struct {
	// StalenessLimit is the age above which an endpoint's figures are not believed,
	// so that types which go by them abstain on it. Default 5s. Raise it above the
	// scrape interval of the slowest endpoint.
	StalenessLimit conf.Duration `yaml:"stalenessLimit"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Pool:      "default",
		NATS:      bus.DefaultConfig(),
		Listen:    ListenConfig{GRPC: rpc.DefaultServerConfig(":9100")},
		Roster:    RosterConfig{StalenessLimit: conf.Duration(roster.DefaultConfig().StalenessLimit)},
		Telemetry: telemetry.DefaultConfig(),
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
		c.Telemetry.Validate(),
	)...)
}

// Common returns the settings that all scorer services have; it makes Config, and
// what embeds it, [Settings].
func (c *Config) Common() *Config { return c }

// Settings is all that an operator can set in one service: a pointer to a [Config] or
// to a struct that embeds one.
type Settings interface {
	Common() *Config
	Validate() error
}
