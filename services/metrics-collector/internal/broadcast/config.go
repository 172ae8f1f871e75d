package broadcast

import (
	"errors"
	"fmt"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// Config is how often what is told.
type Config struct {
	// Interval between two messages of loads. Default 50 ms, as scrape.interval.
	Interval conf.Duration `yaml:"interval"`
	// TableInterval between two tables that say the same. Default 2 s. Holders forget
	// a collector's table after 6 s.
	TableInterval conf.Duration `yaml:"tableInterval"`
	// HeartbeatInterval between two signs of life. Default 250 ms.
	HeartbeatInterval conf.Duration `yaml:"heartbeatInterval"`
	// DeadAfter is the silence after which another collector's endpoints are taken
	// over. Default 1 s. All collectors should have the same; raise it, with the
	// interval, if collectors are taken for dead on a network that loses messages.
	DeadAfter conf.Duration `yaml:"deadAfter"`
	// JoinTimeout is how long the others are waited for at the start. Default 400 ms.
	JoinTimeout conf.Duration `yaml:"joinTimeout"`
	// StalenessLimit is the age above which an endpoint is shown as stale in metrics.
	// Default 5 s, as the routers and scorers have it.
	StalenessLimit conf.Duration `yaml:"stalenessLimit"`
}

// DefaultConfig returns the defaults named above.
func DefaultConfig() Config {
	return Config{
		Interval:          conf.Duration(50 * time.Millisecond),
		TableInterval:     conf.Duration(2 * time.Second),
		HeartbeatInterval: conf.Duration(250 * time.Millisecond),
		DeadAfter:         conf.Duration(time.Second),
		JoinTimeout:       conf.Duration(400 * time.Millisecond),
		StalenessLimit:    conf.Duration(5 * time.Second),
	}
}

// Validate returns all faults, each beginning with its key below "broadcast".
func (c Config) Validate() error {
	var faults []error
	for _, d := range []struct {
		key   string
		value conf.Duration
	}{
		{"interval", c.Interval}, {"tableInterval", c.TableInterval}, {"heartbeatInterval", c.HeartbeatInterval},
		{"deadAfter", c.DeadAfter}, {"joinTimeout", c.JoinTimeout}, {"stalenessLimit", c.StalenessLimit},
	} {
		if d.value.D() < time.Millisecond {
			faults = append(faults, fmt.Errorf("%s: must be at least 1ms, not %s", d.key, d.value))
		}
	}
	if c.DeadAfter < 2*c.HeartbeatInterval {
		faults = append(faults, fmt.Errorf("deadAfter: must be at least two heartbeatIntervals, %s is less than twice %s", c.DeadAfter, c.HeartbeatInterval))
	}
	return errors.Join(faults...)
}
