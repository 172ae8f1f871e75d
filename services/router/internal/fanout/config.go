package fanout

import (
	"fmt"
	"time"
)

// Config is how long scorers are waited for.
type Config struct {
	// Timeout is the time that all scorers of a profile have together, from the
	// first question. Default 20 ms. Longer waits for slow scorers at the price of
	// every request's latency when one of them hangs.
	Timeout time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{Timeout: 20 * time.Millisecond} }

// Validate returns what is wrong.
func (c Config) Validate() error {
	if c.Timeout <= 0 {
		return fmt.Errorf("the scorers' time of %v must be above zero", c.Timeout)
	}
	return nil
}
