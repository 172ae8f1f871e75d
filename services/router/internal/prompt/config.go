package prompt

import (
	"errors"
	"fmt"

	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// Config limits what is read.
type Config struct {
	// MaxDepth is how deep arrays and objects may be nested. Deeper bodies are
	// refused, also where the nesting is in a field that nobody reads. Default 128.
	MaxDepth int `yaml:"maxDepth"`
	// MaxDecodedBytes limits the decoded copy of a compressed body. Default 64 MiB.
	MaxDecodedBytes int64 `yaml:"maxDecodedBytes"`
	// MaxDecodedTotalBytes limits the decoded copies of all bodies together. What finds
	// no room is routed by load. Default 256 MiB.
	MaxDecodedTotalBytes int64 `yaml:"maxDecodedTotalBytes"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{MaxDepth: 128, MaxDecodedBytes: 64 << 20, MaxDecodedTotalBytes: 256 << 20}
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	var faults []error
	if c.MaxDepth < 8 || c.MaxDepth > jsonscan.MaxDepth {
		faults = append(faults, fmt.Errorf("maxDepth %d: must be between 8 and %d", c.MaxDepth, jsonscan.MaxDepth))
	}
	if c.MaxDecodedBytes < 1 {
		faults = append(faults, fmt.Errorf("maxDecodedBytes %d: must be positive", c.MaxDecodedBytes))
	}
	if c.MaxDecodedTotalBytes < c.MaxDecodedBytes {
		faults = append(faults, fmt.Errorf("maxDecodedTotalBytes %d: must be at least maxDecodedBytes, %d", c.MaxDecodedTotalBytes, c.MaxDecodedBytes))
	}
	return errors.Join(faults...)
}
