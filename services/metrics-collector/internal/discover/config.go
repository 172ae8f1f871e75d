package discover

import (
	"errors"
	"fmt"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// Config says where endpoints are found.
type Config struct {
	// List are the endpoints and names of the configuration itself.
	List `yaml:",inline"`
	// EndpointsFile is a YAML file with the keys endpoints, dns, objectives, rewrites,
	// models and criticalModels, read anew whenever it changes. Default none.
	EndpointsFile string `yaml:"endpointsFile"`
	// Defaults hold for endpoints that do not say otherwise.
	Defaults DefaultsConfig `yaml:"defaults"`
	// Discovery is how often sources are looked at.
	Discovery PaceConfig `yaml:"discovery"`
}

// DefaultsConfig is what endpoints do not have to say themselves.
type DefaultsConfig struct {
	// Metrics is the metrics page. Default: /metrics (/prometheus/metrics if the engine
	// is said to be trtllm-serve) on the port and scheme of the inference API, without
	// token.
	Metrics SourceConfig `yaml:"metrics"`
	// ModelList is the list of models. Default: /v1/models, likewise.
	ModelList SourceConfig `yaml:"modelList"`
}

// PaceConfig is how often sources are looked at.
type PaceConfig struct {
	// FileInterval is how often EndpointsFile is read even if the system tells of no
	// change, which it does not for some network file systems. Default 1 s.
	FileInterval conf.Duration `yaml:"fileInterval"`
	// DNSInterval is how often names are resolved. Default 5 s.
	DNSInterval conf.Duration `yaml:"dnsInterval"`
	// DNSTimeout is how long an answer is waited for. Default 2 s.
	DNSTimeout conf.Duration `yaml:"dnsTimeout"`
}

// DefaultConfig returns the defaults named above.
func DefaultConfig() Config {
	return Config{Discovery: PaceConfig{
		FileInterval: conf.Duration(time.Second),
		DNSInterval:  conf.Duration(5 * time.Second),
		DNSTimeout:   conf.Duration(2 * time.Second),
	}}
}

// Validate returns all faults, each beginning with its key.
func (c Config) Validate() error {
	faults := []error{c.List.Validate()}
	faults = append(faults, c.Defaults.Metrics.validate("defaults.metrics"), c.Defaults.ModelList.validate("defaults.modelList"))
	for _, d := range []struct {
		key   string
		value conf.Duration
	}{
		{"discovery.fileInterval", c.Discovery.FileInterval}, {"discovery.dnsInterval", c.Discovery.DNSInterval}, {"discovery.dnsTimeout", c.Discovery.DNSTimeout},
	} {
		if d.value.D() < time.Millisecond {
			faults = append(faults, fmt.Errorf("%s: must be at least 1ms, not %s", d.key, d.value))
		}
	}
	return errors.Join(faults...)
}
