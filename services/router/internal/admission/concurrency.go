package admission

import (
	"errors"
	"fmt"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// ConcurrencyType is the type name of Concurrency.
const ConcurrencyType = "concurrency-detector"

const defaultMaxConcurrency = 100

// What Concurrency can count.
const (
	CountRequests = "requests"
	CountTokens   = "tokens"
)

// tokensPerPromptToken is how many tokens a request is expected to be in all per token of
// its prompt: the reference expects answers of one and a half times the prompt.
const tokensPerPromptToken = 2.5

// ConcurrencyConfig is how Concurrency judges.
type ConcurrencyConfig struct {
	// MaxRequests is how many requests may be in flight at an endpoint. Default 100.
	MaxRequests int
	// MaxTokens is how many tokens may be. Default 1,000,000.
	MaxTokens int
	// Headroom is by how much of it the filter lets the limit be exceeded. Default 0.
	Headroom float64
	// Count is CountRequests or CountTokens. Default CountRequests.
	Count string
}

// DefaultConcurrencyConfig returns the defaults named above.
func DefaultConcurrencyConfig() ConcurrencyConfig {
	return ConcurrencyConfig{MaxRequests: defaultMaxConcurrency, MaxTokens: 1_000_000, Count: CountRequests}
}

// Validate returns all faults, each beginning with the parameter's name.
func (c ConcurrencyConfig) Validate() error {
	var faults []error
	if c.MaxRequests < 1 {
		faults = append(faults, fmt.Errorf("maxConcurrency: must be at least 1, not %d", c.MaxRequests))
	}
	if c.MaxTokens < 1 {
		faults = append(faults, fmt.Errorf("maxTokenConcurrency: must be at least 1, not %d", c.MaxTokens))
	}
	if c.Count != CountRequests && c.Count != CountTokens {
		faults = append(faults, fmt.Errorf("concurrencyMode: must be %s or %s, not %q", CountRequests, CountTokens, c.Count))
	}
	return errors.Join(append(faults, validateHeadroom(c.Headroom))...)
}

// Concurrency judges by what is in flight, of all routers: the sum over the endpoints ÷
// what may be. It asks endpoints for nothing, so that nothing can be stale.
//
// Tokens are those of prompts that were not believed to be cached, times two and a half
// for the answer.
//
// As a filter it keeps the endpoints below the limit with headroom. It may leave nobody.
type Concurrency struct {
	name  string
	cfg   ConcurrencyConfig
	limit float64
}

// NewConcurrency returns the detector.
func NewConcurrency(name string, cfg ConcurrencyConfig) (*Concurrency, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	limit := float64(cfg.MaxRequests)
	if cfg.Count == CountTokens {
		limit = float64(cfg.MaxTokens)
	}
	return &Concurrency{name, cfg, limit}, nil
}

// Name returns the plug-in's name in the configuration.
func (k *Concurrency) Name() string { return k.name }

// FiltersLoad marks it as a route.LoadFilter.
func (k *Concurrency) FiltersLoad() {}

func (k *Concurrency) inFlight(c *route.Cycle, pos int32) float64 {
	if k.cfg.Count == CountTokens {
		return tokensPerPromptToken * float64(c.Snapshot.InFlightTokens(int(pos)))
	}
	return float64(c.Snapshot.InFlight(int(pos)))
}

// Saturation implements route.Detector. That of nobody is 1.
func (k *Concurrency) Saturation(c *route.Cycle, candidates []int32) (float64, bool) {
	if len(candidates) == 0 {
		return 1, true
	}
	sum := 0.0
	for _, pos := range candidates {
		sum += k.inFlight(c, pos)
	}
	value := sum / (k.limit * float64(len(candidates)))
	return value, value >= 1
}

// Filter implements route.Filter.
func (k *Concurrency) Filter(c *route.Cycle, in []int32) []int32 {
	kept := in[:0]
	for _, pos := range in {
		if k.inFlight(c, pos) < k.limit*(1+k.cfg.Headroom) {
			kept = append(kept, pos)
		}
	}
	return kept
}
