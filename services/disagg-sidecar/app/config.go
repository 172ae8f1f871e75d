package app

import (
	"errors"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/disagg-sidecar/internal/proxy"
)

// Config is what an operator can set.
type Config struct {
	// Pool names the pool whose endpoints may be called. Default "default".
	Pool string `yaml:"pool"`
	// NATS is where they are broadcast. It is not used with allow.pool: false.
	NATS bus.Config `yaml:"nats"`
	// Proxy is, at the top level, listen, decode, prefill, allow and limits.
	Proxy proxy.Config `yaml:",inline"`
	// Telemetry is, at the top level, log, admin port and traces.
	Telemetry telemetry.Config `yaml:",inline"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Pool: "default", NATS: bus.DefaultConfig(), Proxy: proxy.DefaultConfig(), Telemetry: telemetry.DefaultConfig()}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var noPool error
	if c.Pool == "" {
		noPool = errors.New("pool: must not be empty")
	}
	return errors.Join(noPool, conf.Prefix("nats", c.NATS.Validate()), c.Proxy.Validate(), c.Telemetry.Validate())
}
