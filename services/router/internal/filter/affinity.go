package filter

import (
	"errors"
	"fmt"
	"math"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// AffinityType is the type name of Affinity.
const AffinityType = "prefix-cache-affinity-filter"

// AffinityConfig is how strictly Affinity keeps to those who have the prompt cached.
type AffinityConfig struct {
	// Threshold is the share of the prompt's blocks, up to 1, from which on an
	// endpoint counts as having it. Default 0.8; 0 or less keeps everybody.
	Threshold float64
	// Exploration is the probability of keeping everybody all the same, so that a hot
	// prefix spreads. Default 0.01.
	Exploration float64
	// MaxPenaltyMS is by how many milliseconds the time to first token may be longer
	// on the best endpoint that has it than on the best of all. Default 5000; 0: any.
	MaxPenaltyMS float64
	// TokensPerSecond is the prompt tokens that an endpoint prefills in a second,
	// from which times to first token are estimated. Default 10000.
	TokensPerSecond float64
}

// DefaultAffinityConfig returns the defaults.
func DefaultAffinityConfig() AffinityConfig {
	return AffinityConfig{Threshold: .8, Exploration: .01, MaxPenaltyMS: 5000, TokensPerSecond: 10000}
}

// Validate returns all faults at once.
func (c AffinityConfig) Validate() error {
	var faults []error
	if !(c.Threshold <= 1) {
		faults = append(faults, fmt.Errorf("affinityThreshold must be <= 1.0, not %v", c.Threshold))
	}
	if !(c.Exploration >= 0 && c.Exploration <= 1) {
		faults = append(faults, fmt.Errorf("explorationProbability must be in [0, 1], not %v", c.Exploration))
	}
	if !(c.MaxPenaltyMS >= 0) {
		faults = append(faults, fmt.Errorf("maxTTFTPenaltyMs must be 0 or above, not %v", c.MaxPenaltyMS))
	}
	if !(c.TokensPerSecond > 0) {
		faults = append(faults, fmt.Errorf("prefillTokensPerSecond must be above 0, not %v", c.TokensPerSecond))
	}
	return errors.Join(faults...)
}

// Affinity keeps the candidates that hold a great part of the prompt in their cache,
// as a prefix scorer says. It keeps everybody if nobody holds that much, if nothing is
// known, now and then by chance, and if the best of those who hold it would be much
// slower than the best of all.
//
// Nothing here predicts latencies. The time to first token is estimated as the prompt
// tokens in flight that were not cached, plus those of this request, at a fixed rate.
// That is too much for an endpoint that is past its prefills, in proportion to what it
// still decodes, which is load too.
type Affinity struct {
	name string
	cfg  AffinityConfig
}

var _ route.ScoredFilter = (*Affinity)(nil)

// NewAffinity returns the filter.
func NewAffinity(name string, cfg AffinityConfig) (*Affinity, error) {
	return &Affinity{name: name, cfg: cfg}, cfg.Validate()
}

// Name returns the plug-in's name in the configuration.
func (f *Affinity) Name() string { return f.name }

// Filter keeps everybody: before scoring nothing is known.
func (f *Affinity) Filter(_ *route.Cycle, in []int32) []int32 { return in }

// FilterScored implements route.ScoredFilter.
func (f *Affinity) FilterScored(c *route.Cycle, said route.Said, in []int32) []int32 {
	const grain = math.MaxInt32
	if f.cfg.Exploration > 0 && float64(c.Rand(grain))/grain < f.cfg.Exploration {
		return in
	}
	best, bestSticky := math.Inf(1), math.Inf(1)
	for _, pos := range in {
		share, known := said.Matched(pos)
		ms := f.firstTokenMS(c, pos, share)
		best = min(best, ms)
		if known && share >= f.cfg.Threshold {
			bestSticky = min(bestSticky, ms)
		}
	}
	switch {
	case math.IsInf(bestSticky, 1): // nobody
		return in
	case f.cfg.MaxPenaltyMS > 0 && bestSticky-best > f.cfg.MaxPenaltyMS:
		return in
	}
	return keep(in, func(pos int32) bool {
		share, known := said.Matched(pos)
		return known && share >= f.cfg.Threshold
	})
}

// firstTokenMS estimates the time to first token, in ms.
func (f *Affinity) firstTokenMS(c *route.Cycle, pos int32, share float64) float64 {
	ahead := float64(max(c.Snapshot.InFlightTokens(int(pos)), 0))
	own := float64(c.Request.PromptTokens) * (1 - min(share, 1))
	return (ahead + own) / f.cfg.TokensPerSecond * 1000
}
