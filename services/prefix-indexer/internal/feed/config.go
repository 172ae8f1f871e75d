package feed

import (
	"errors"
	"fmt"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// Config is how the index is copied from another prefix-indexer.
type Config struct {
	// Greeting is how long the others have to say that they are there. Default 500ms.
	// A pool's first prefix-indexer is not ready before it has passed.
	Greeting conf.Duration `yaml:"greeting"`
	// PageTimeout is how long one page may take. Default 10s: the first waits for the
	// other side to put its index in order.
	PageTimeout conf.Duration `yaml:"pageTimeout"`
	// PageBytes is about the size of the pages that are answered with. Default
	// 524288; keep it at half of NATS's max_payload or below.
	PageBytes int `yaml:"pageBytes"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Greeting: conf.Duration(500 * time.Millisecond), PageTimeout: conf.Duration(10 * time.Second), PageBytes: 512 << 10}
}

const leastPage = 1 << 10

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults []error
	if c.Greeting <= 0 {
		faults = append(faults, fmt.Errorf("greeting: must be above 0, not %v", c.Greeting))
	}
	if c.PageTimeout <= 0 {
		faults = append(faults, fmt.Errorf("pageTimeout: must be above 0, not %v", c.PageTimeout))
	}
	if c.PageBytes < leastPage {
		faults = append(faults, fmt.Errorf("pageBytes: must be at least %d, not %d", leastPage, c.PageBytes))
	}
	return errors.Join(faults...)
}
