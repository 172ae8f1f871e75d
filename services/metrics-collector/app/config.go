package app

import (
	"errors"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/broadcast"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/discover"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/kube"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/scrape"
)

// Config is what an operator can set.
type Config struct {
	// Pool names the pool whose endpoints are collected. Default "default". With
	// kubernetes.watchAllPools it says nothing.
	Pool string `yaml:"pool"`
	// NATS is where figures are told.
	NATS bus.Config `yaml:"nats"`
	// Discover is, at the top level, where endpoints are found: endpoints, dns,
	// endpointsFile, defaults, discovery.
	Discover discover.Config `yaml:",inline"`
	// Kubernetes is which InferencePools are followed, in place of the endpoints above.
	Kubernetes kube.Config `yaml:"kubernetes"`
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
		Pool:       "default",
		NATS:       bus.DefaultConfig(),
		Discover:   discover.DefaultConfig(),
		Kubernetes: kube.DefaultConfig(),
		Scrape:     scrape.DefaultConfig(),
		Broadcast:  broadcast.DefaultConfig(),
		Telemetry:  telemetry.DefaultConfig(),
	}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults []error
	if c.Pool == "" {
		faults = append(faults, errors.New("pool: must not be empty"))
	}
	if d := &c.Discover; c.Kubernetes.On() && (len(d.Endpoints) > 0 || len(d.DNS) > 0 || d.EndpointsFile != "" || !d.Empty()) {
		faults = append(faults, errors.New("kubernetes: cannot be combined with endpoints, dns, endpointsFile, objectives, rewrites, models and criticalModels, which are all read from the API server: keep one"))
	}
	return errors.Join(append(faults,
		conf.Prefix("kubernetes", c.Kubernetes.Validate()),
		conf.Prefix("nats", c.NATS.Validate()),
		c.Discover.Validate(),
		conf.Prefix("scrape", c.Scrape.Validate()),
		conf.Prefix("broadcast", c.Broadcast.Validate()),
		c.Telemetry.Validate(),
	)...)
}
