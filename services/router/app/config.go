package app

import (
	"errors"
	"fmt"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/fanout"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc"
	"github.com/pointsman/pointsman/services/router/internal/front/httpproxy"
	"github.com/pointsman/pointsman/services/router/internal/inflight"
	"github.com/pointsman/pointsman/services/router/internal/remote"
)

// Config is the router's own settings. How requests are routed is not here but in
// the EndpointPickerConfig.
type Config struct {
	// Pool names the pool of endpoints that is served. Default "default". Every
	// service of one pool has the same.
	Pool string `yaml:"pool"`
	// Listen says where callers reach the router.
	Listen ListenConfig `yaml:"listen"`
	// NATS is where the state of endpoints and picks is shared.
	NATS bus.Config `yaml:"nats"`
	// Redis is where requests in flight are counted over all routers. It is asked only
	// while a picker is in use that goes by that (global-least-request-picker).
	Redis inflight.Config `yaml:"redis"`
	// Scorers is, at the top level, who is asked: scorers, scorerWait, …
	Scorers remote.Config `yaml:",inline"`
	// Scoring says how long scorers are waited for.
	Scoring ScoringConfig `yaml:"scoring"`
	// CacheSalt keeps tenants apart in the engines' prefix caches. Default: off.
	CacheSalt edge.SaltConfig `yaml:"cacheSalt"`
	// Roster says which figures are believed.
	Roster RosterConfig `yaml:"roster"`
	// DrainDelay is how long the router goes on taking requests after it has said that
	// it is not ready. Default 0. Set it to the time that a load balancer needs to
	// notice. Open requests then have the drainTimeout of their listener to end.
	DrainDelay conf.Duration `yaml:"drainDelay"`
	// Telemetry is, at the top level, log, admin port and traces.
	Telemetry telemetry.Config `yaml:",inline"`
}

// ListenConfig is the router's listeners.
type ListenConfig struct {
	// HTTP is the OpenAI-compatible front. Default address ":8080"; an empty one turns
	// it off.
	HTTP httpproxy.Config `yaml:"http"`
	// ExtProc is the endpoint picker for Envoy and gateways. Default address ":9002"; an
	// empty one turns it off.
	ExtProc extproc.Config `yaml:"extProc"`
	// GRPC is RouterService: picks, explanations, the command line. Default ":9004".
	GRPC rpc.ServerConfig `yaml:"grpc"`
}

// ScoringConfig is the budget of scoring.
type ScoringConfig struct {
	// Timeout is what all scorers of a profile together may take. Default 20 ms.
	// Raise it for scorers far away, at the price of waiting so long when one hangs.
	Timeout conf.Duration `yaml:"timeout"`
}

// RosterConfig says which figures are believed.
type RosterConfig struct {
	// StalenessLimit is the age above which an endpoint's figures are unknown.
	// Default 5 s. Keep it above the time of the slowest scrape.
	StalenessLimit conf.Duration `yaml:"stalenessLimit"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Pool: "default",
		Listen: ListenConfig{
			HTTP:    httpproxy.DefaultConfig(),
			ExtProc: extproc.DefaultConfig(),
			GRPC:    rpc.DefaultServerConfig(":9004"),
		},
		NATS:      bus.DefaultConfig(),
		Redis:     inflight.DefaultConfig(),
		Scorers:   remote.DefaultConfig(),
		Scoring:   ScoringConfig{Timeout: conf.Duration(fanout.DefaultConfig().Timeout)},
		Roster:    RosterConfig{StalenessLimit: conf.Duration(roster.DefaultConfig().StalenessLimit)},
		Telemetry: telemetry.DefaultConfig(),
	}
}

// Validate returns all faults, each beginning with its key.
func (c Config) Validate() error {
	var errs []error
	if c.Pool == "" {
		errs = append(errs, errors.New("pool: must not be empty"))
	}
	for _, d := range []struct {
		key string
		conf.Duration
	}{{"scoring.timeout", c.Scoring.Timeout}, {"roster.stalenessLimit", c.Roster.StalenessLimit}} {
		if d.Duration <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be above zero, not %v", d.key, d.Duration))
		}
	}
	if c.DrainDelay < 0 {
		errs = append(errs, fmt.Errorf("drainDelay: must not be below zero, not %v", c.DrainDelay))
	}
	return errors.Join(append(errs, conf.Prefix("listen.grpc", c.Listen.GRPC.Validate()), conf.Prefix("nats", c.NATS.Validate()), conf.Prefix("redis", c.Redis.Validate()),
		c.Scorers.Validate(), conf.Prefix("cacheSalt", c.CacheSalt.Validate()), conf.Prefix("listen.http", c.Listen.HTTP.Validate()), conf.Prefix("listen.extProc", c.Listen.ExtProc.Validate()), c.Telemetry.Validate())...)
}
