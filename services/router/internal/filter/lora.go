package filter

import (
	"fmt"
	"math"
	"slices"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// LoRAAffinityType is the type name of LoRAAffinity.
const LoRAAffinityType = "lora-affinity-filter"

// DefaultAffinityThreshold is LoRAAffinity's threshold if none is configured.
const DefaultAffinityThreshold = 0.999

// LoRAAffinity keeps the candidates that have the request's adapter running or
// waiting, or else those that have room for one more. If there are both, it keeps
// the former with the probability of the threshold, so that a hot adapter spreads.
//
// A candidate whose adapter figures are missing or stale is in neither group: such
// candidates are kept if both groups are empty. Nobody stays if all slots of all
// candidates are taken by other adapters.
//
// The adapter is the request's Adapter, or its Model where it names none apart.
type LoRAAffinity struct {
	name      string
	threshold float64
}

// NewLoRAAffinity returns the filter. It is an error if the threshold, a
// probability, is outside 0..1.
func NewLoRAAffinity(name string, threshold float64) (*LoRAAffinity, error) {
	if !(threshold >= 0 && threshold <= 1) {
		return nil, fmt.Errorf("threshold %v is no probability: it must be between 0 and 1", threshold)
	}
	return &LoRAAffinity{name: name, threshold: threshold}, nil
}

// Name returns the plug-in's name in the configuration.
func (f *LoRAAffinity) Name() string { return f.name }

// FiltersLoad marks the filter as a route.LoadFilter: nobody stays only if every
// slot is taken, which passes.
func (f *LoRAAffinity) FiltersLoad() {}

// group is how a candidate stands to an adapter.
type group uint8

const (
	unknown  group = iota // no figures
	resident              // has it
	roomy                 // has room for it
	full
)

// Filter implements route.Filter.
func (f *LoRAAffinity) Filter(c *route.Cycle, in []int32) []int32 {
	adapter := c.Request.Adapter
	if adapter == "" {
		adapter = c.Request.Model
	}
	var counts [full + 1]int
	for _, pos := range in {
		counts[groupOf(c, pos, adapter)]++
	}
	chosen := unknown
	switch {
	case counts[resident] > 0 && counts[roomy] > 0:
		const grain = math.MaxInt32
		chosen = roomy
		if float64(c.Rand(grain))/grain < f.threshold {
			chosen = resident
		}
	case counts[resident] > 0:
		chosen = resident
	case counts[roomy] > 0:
		chosen = roomy
	}
	return keep(in, func(pos int32) bool { return groupOf(c, pos, adapter) == chosen })
}

func groupOf(c *route.Cycle, pos int32, adapter string) group {
	a := c.Snapshot.Adapters[pos]
	if a == nil || a.Max == 0 || !c.Snapshot.Fresh(int(pos), c.Now) {
		return unknown
	}
	if _, has := slices.BinarySearch(a.Running, adapter); has {
		return resident
	}
	if _, has := slices.BinarySearch(a.Waiting, adapter); has {
		return resident
	}
	if len(a.Running)+len(a.Waiting) < int(a.Max) {
		return roomy
	}
	return full
}
