package state

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/roster"
)

// Config says whose broadcast is followed.
type Config struct {
	// Name names the process to NATS and in its own words. REQUIRED.
	Name string
	// Pool is the pool's name. Default "default".
	Pool string
	// URL of NATS, or several separated by commas. Default nats://127.0.0.1:4222.
	URL string
	// User and Password, or CredsFile with a JWT and its key, if NATS asks for them.
	User, Password, CredsFile string
	// StalenessLimit is the age above which figures are not believed. Default 5 s. Raise
	// it above the scrape interval of the slowest endpoint.
	StalenessLimit time.Duration
	// Log receives changes of the connection and messages that cannot be used. Nil:
	// nowhere.
	Log *slog.Logger
}

// DefaultConfig returns the defaults.
func DefaultConfig(name string) Config {
	return Config{Name: name, Pool: "default", URL: bus.DefaultConfig().URL, StalenessLimit: roster.DefaultConfig().StalenessLimit}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("the name is missing"))
	}
	if c.Pool == "" {
		errs = append(errs, errors.New("the pool is missing"))
	}
	if c.StalenessLimit <= 0 {
		errs = append(errs, fmt.Errorf("the staleness limit must be above 0, not %v", c.StalenessLimit))
	}
	return errors.Join(append(errs, c.nats().Validate())...)
}

func (c Config) nats() bus.Config {
	n := bus.DefaultConfig()
	n.URL, n.User, n.Password, n.CredsFile = c.URL, c.User, conf.Secret(c.Password), c.CredsFile
	return n
}
