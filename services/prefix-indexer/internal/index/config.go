package index

import (
	"errors"
	"fmt"
)

// Config bounds an index.
type Config struct {
	// MaxBytes is the memory for all entries; above it the least recently placed
	// prompts of all endpoints go. The process needs up to twice as much, for the
	// garbage collector (less with GOGC below 100). Default 1 GiB, at least 4 MiB.
	// Raise it if pointsman_prefix_indexer_evicted_entries_total{reason="memory"} grows.
	MaxBytes int64 `yaml:"maxBytes"`
	// DefaultCapacity is the blocks remembered per endpoint while no configuration
	// has asked for a number (lruCapacityPerServer). Default 31250.
	DefaultCapacity int `yaml:"defaultCapacity"`
}

const leastBytes = 4 << 20

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{MaxBytes: 1 << 30, DefaultCapacity: 31250} }

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults []error
	if c.MaxBytes < leastBytes {
		faults = append(faults, fmt.Errorf("maxBytes: %d is less than %d (4 MiB)", c.MaxBytes, leastBytes))
	}
	if c.DefaultCapacity < 1 || c.DefaultCapacity > MaxCapacity {
		faults = append(faults, fmt.Errorf("defaultCapacity: %d is not between 1 and %d", c.DefaultCapacity, MaxCapacity))
	}
	return errors.Join(faults...)
}
