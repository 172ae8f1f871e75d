package counter

import (
	"errors"
	"fmt"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// Config says how long counts live.
type Config struct {
	// TTL is within which the counts of a router that died are gone. Default 30 s. Lower
	// it to recover sooner, at the price of more renewals; a router that cannot reach the
	// store for so long has its counts written anew when it can.
	TTL conf.Duration `yaml:"leaseTTL"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{TTL: conf.Duration(30 * time.Second)} }

// Validate returns all faults.
func (c Config) Validate() error {
	var faults []error
	if c.TTL.D() < time.Second {
		faults = append(faults, fmt.Errorf("leaseTTL: must be at least 1s, not %v", c.TTL))
	}
	return errors.Join(faults...)
}

// Lease is how long counts live in the store without being renewed. Others look for
// lapsed ones at each of their renewals, so counts are gone before the TTL is over.
func (c Config) Lease() time.Duration { return c.TTL.D() * 2 / 3 }

// renewEvery leaves room for several renewals that fail, and for finding dead routers.
func (c Config) renewEvery() time.Duration { return c.TTL.D() / 6 }

// rewriteEvery bounds how long a count may be wrong whatever the reason.
func (c Config) rewriteEvery() time.Duration { return 2 * c.TTL.D() }
