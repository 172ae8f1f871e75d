package scrape

import (
	"errors"
	"fmt"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// Config is how endpoints are scraped.
type Config struct {
	// Interval from the beginning of one scrape of an endpoint to that of the next.
	// Default 50 ms. Raise it if engines are slowed down; figures are older then.
	Interval conf.Duration `yaml:"interval"`
	// Timeout of one scrape, the connection included. Default 5 s. A scrape that is
	// given up still costs the engine its page, so it should be longer than the
	// slowest page takes.
	Timeout conf.Duration `yaml:"timeout"`
	// ConnectTimeout of a connection, TLS included. Default 1 s.
	ConnectTimeout conf.Duration `yaml:"connectTimeout"`
	// MaxBackoff is the longest wait after a failed scrape; waits begin at Interval and
	// double. Default 2 s.
	MaxBackoff conf.Duration `yaml:"maxBackoff"`
	// MaxShare is the most of its time that an endpoint spends on being scraped, 0 to 1.
	// Default 0.2: a page that takes 100 ms is fetched every 500 ms.
	MaxShare float64 `yaml:"maxShare"`
	// MaxInterval bounds what MaxShare makes of a very slow page. Default 10 s.
	MaxInterval conf.Duration `yaml:"maxInterval"`
	// Jitter is how much waits are varied, as a share of them, so that endpoints are
	// not scraped in step. Default 0.1.
	Jitter float64 `yaml:"jitter"`
	// MaxPageBytes is the largest page that is read. Default 8 MiB.
	MaxPageBytes int64 `yaml:"maxPageBytes"`
	// ModelList is how often endpoints are asked for their models.
	ModelList ModelListConfig `yaml:"modelList"`
}

// ModelListConfig is how often endpoints are asked for their models.
type ModelListConfig struct {
	// Interval between two questions. Default 30 s; lower it if adapters are loaded at
	// run time and must be known sooner.
	Interval conf.Duration `yaml:"interval"`
	// Retry is the wait after a failed question, until one has succeeded. Default 2 s;
	// it doubles up to Interval for endpoints that answer with something else.
	Retry conf.Duration `yaml:"retry"`
}

// DefaultConfig returns the defaults named above.
func DefaultConfig() Config {
	return Config{
		Interval:       conf.Duration(50 * time.Millisecond),
		Timeout:        conf.Duration(5 * time.Second),
		ConnectTimeout: conf.Duration(time.Second),
		MaxBackoff:     conf.Duration(2 * time.Second),
		MaxShare:       0.2,
		MaxInterval:    conf.Duration(10 * time.Second),
		Jitter:         0.1,
		MaxPageBytes:   8 << 20,
		ModelList:      ModelListConfig{Interval: conf.Duration(30 * time.Second), Retry: conf.Duration(2 * time.Second)},
	}
}

// Validate returns all faults, each beginning with its key below "scrape".
func (c Config) Validate() error {
	var faults []error
	for _, d := range []struct {
		key   string
		value conf.Duration
	}{
		{"interval", c.Interval}, {"timeout", c.Timeout}, {"connectTimeout", c.ConnectTimeout}, {"maxBackoff", c.MaxBackoff},
		{"maxInterval", c.MaxInterval}, {"modelList.interval", c.ModelList.Interval}, {"modelList.retry", c.ModelList.Retry},
	} {
		if d.value.D() < time.Millisecond {
			faults = append(faults, fmt.Errorf("%s: must be at least 1ms, not %s", d.key, d.value))
		}
	}
	if !(c.MaxShare > 0 && c.MaxShare <= 1) {
		faults = append(faults, fmt.Errorf("maxShare: must be above 0 and at most 1, not %v", c.MaxShare))
	}
	if !(c.Jitter >= 0 && c.Jitter < 1) {
		faults = append(faults, fmt.Errorf("jitter: must be from 0 to below 1, not %v", c.Jitter))
	}
	if c.MaxPageBytes < 1<<10 || c.MaxPageBytes > 1<<30 {
		faults = append(faults, fmt.Errorf("maxPageBytes: must be from 1024 to %d, not %d", 1<<30, c.MaxPageBytes))
	}
	return errors.Join(faults...)
}
