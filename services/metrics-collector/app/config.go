package app

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/broadcast"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/discover"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/scrape"
)

// Config is what an operator can set.
type Config struct {
	// Pool names the pool whose endpoints are collected. Default "default".
	Pool string `yaml:"pool"`
	// NATS is where figures are told.
	NATS bus.Config `yaml:"nats"`
	// Discover is, at the top level, where endpoints are found: endpoints, dns,
	// endpointsFile, defaults, discovery.
	Discover discover.Config `yaml:",inline"`
	// Scrape is how endpoints are scraped.
	Scrape scrape.Config `yaml:"scrape"`
	// Broadcast is how often what is told.
	Broadcast broadcast.Config `yaml:"broadcast"`

	// Telemetry is, at the top level, log, admin port and traces.
	Telemetry telemetry.Config `yaml:",inline"`
}

// DefaultConfig returns the defaults: no endpoints, scraped every 50 ms.
func DefaultConfig() Config {
	return Config{
		Pool:      "default",
		NATS:      bus.DefaultConfig(),
		Discover:  discover.DefaultConfig(),
		Scrape:    scrape.DefaultConfig(),
		Broadcast: broadcast.DefaultConfig(),
		Telemetry: telemetry.DefaultConfig(),
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
		c.Discover.Validate(),
		conf.Prefix("scrape", c.Scrape.Validate()),
		conf.Prefix("broadcast", c.Broadcast.Validate()),
		c.Telemetry.Validate(),
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
