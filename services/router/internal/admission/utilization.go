package admission

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// UtilizationType is the type name of Utilization.
const UtilizationType = "utilization-detector"

// Measure is how the saturations of single endpoints make one of all.
type Measure uint8

// Measures.
const (
	// AnyRoom is that of the first generation: full is when nobody has room, limits
	// included. The saturation is that of the emptiest endpoint.
	AnyRoom Measure = iota
	// Mean is that of newer ones: full is a mean of 1 or more, though some may have room.
	Mean
)

// UtilizationConfig is how Utilization judges.
type UtilizationConfig struct {
	// QueueDepth is how many requests may wait at an endpoint. Default 5.
	QueueDepth int
	// KVCacheUtil is how much of its KV cache may be in use, above 0 to 1. Default 0.8.
	KVCacheUtil float64
	// Staleness is the age above which figures are not believed. Default 0: that of the
	// roster.
	Staleness time.Duration
	// Headroom is by how much of them the filter lets limits be exceeded; 0.2 is a
	// fifth. Default 0.
	Headroom float64
	// Measure makes one figure of all endpoints'. Default AnyRoom.
	Measure Measure
}

// DefaultUtilizationConfig returns the defaults named above.
func DefaultUtilizationConfig() UtilizationConfig {
	return UtilizationConfig{QueueDepth: 5, KVCacheUtil: .8}
}

// Validate returns all faults, each beginning with the parameter's name.
func (c UtilizationConfig) Validate() error {
	var faults []error
	if c.QueueDepth < 1 {
		faults = append(faults, fmt.Errorf("queueDepthThreshold: must be at least 1, not %d", c.QueueDepth))
	}
	if !(c.KVCacheUtil > 0 && c.KVCacheUtil <= 1) {
		faults = append(faults, fmt.Errorf("kvCacheUtilThreshold: must be above 0 and at most 1, not %v", c.KVCacheUtil))
	}
	if c.Staleness < 0 {
		faults = append(faults, fmt.Errorf("metricsStalenessThreshold: must be above 0, not %v", c.Staleness))
	}
	return errors.Join(append(faults, validateHeadroom(c.Headroom))...)
}

func validateHeadroom(h float64) error {
	if !(h >= 0) || math.IsInf(h, 0) {
		return fmt.Errorf("headroom: must be 0 or more, not %v", h)
	}
	return nil
}

// Utilization judges by what endpoints report: an endpoint's saturation is
// max(waiting ÷ queueDepthThreshold, KV-cache usage ÷ kvCacheUtilThreshold).
//
// Two things are otherwise than in the reference, which takes an endpoint whose figures
// are missing or old for full. Such an endpoint's saturation is that of its requests in
// flight by DefaultConcurrencyConfig, which the router knows itself; if one of two
// figures is missing, the other one counts too. And picks that an endpoint's figures
// cannot include yet count: as waiting where requests wait already, else as running.
//
// As a filter it keeps the endpoints below the limits with headroom, or everybody if
// there is none.
type Utilization struct {
	name             string
	cfg              UtilizationConfig
	kv, kvRoom       float32 // the limits, exact as figures are
	queue, queueRoom float64
}

// NewUtilization returns the detector.
func NewUtilization(name string, cfg UtilizationConfig) (*Utilization, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	more := 1 + cfg.Headroom
	return &Utilization{
		name: name, cfg: cfg, kv: float32(cfg.KVCacheUtil), kvRoom: float32(cfg.KVCacheUtil * more),
		queue: float64(cfg.QueueDepth), queueRoom: float64(cfg.QueueDepth) * more,
	}, nil
}

// Name returns the plug-in's name in the configuration.
func (u *Utilization) Name() string { return u.name }

// FiltersLoad marks it as a route.LoadFilter.
func (u *Utilization) FiltersLoad() {}

// figures is what is believed of an endpoint; negative: nothing.
type figures struct {
	waiting float64
	kv      float32
	running float64 // requests in flight, or those not in the figures, as a part of what may be
}

func (u *Utilization) figures(c *route.Cycle, pos int32) figures {
	s, at := c.Snapshot, int(pos)
	f := figures{waiting: -1, kv: -1}
	fresh := s.Fresh(at, c.Now)
	if u.cfg.Staleness > 0 {
		age := s.Age(at, c.Now)
		fresh = age >= 0 && age <= u.cfg.Staleness
	}
	const mayRun = defaultMaxConcurrency
	if !fresh || s.Waiting[pos] < 0 || !(s.KV[pos] >= 0) {
		f.running = float64(s.InFlight(at)) / mayRun
	}
	if !fresh {
		return f
	}
	credit, _ := s.Credit(at)
	switch waiting := s.Waiting[pos]; {
	case waiting > 0:
		f.waiting = float64(waiting) + float64(credit)
	case waiting == 0:
		f.waiting, f.running = 0, max(f.running, float64(credit)/mayRun)
	}
	if s.KV[pos] >= 0 {
		f.kv = s.KV[pos]
	}
	return f
}

// saturation is an endpoint's; 1 is the limit.
func (u *Utilization) saturation(f figures) float64 {
	return max(f.waiting/u.queue, float64(f.kv)/float64(u.kv), f.running, 0)
}

// Saturation implements route.Detector. That of nobody is 1.
func (u *Utilization) Saturation(c *route.Cycle, candidates []int32) (float64, bool) {
	if len(candidates) == 0 {
		return 1, true
	}
	sum, least := 0.0, math.Inf(1)
	for _, pos := range candidates {
		one := u.saturation(u.figures(c, pos))
		sum, least = sum+one, min(least, one)
	}
	if u.cfg.Measure == Mean {
		mean := sum / float64(len(candidates))
		return mean, mean >= 1
	}
	return least, least > 1
}

// Filter implements route.Filter.
func (u *Utilization) Filter(c *route.Cycle, in []int32) []int32 {
	room := in[:0]
	for _, pos := range in {
		f := u.figures(c, pos)
		if f.waiting < u.queueRoom && f.kv < u.kvRoom && f.running < 1+u.cfg.Headroom {
			room = append(room, pos)
		}
	}
	if len(room) == 0 {
		return in // nothing was written into it
	}
	return room
}
