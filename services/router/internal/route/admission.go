package route

import "fmt"

// Detector says whether endpoints have room. It is a pure function of the cycle, safe
// for concurrent use.
type Detector interface {
	// Name is the plug-in's name in the configuration.
	Name() string
	// Saturation returns how full the candidates are together, where 1 is the limit,
	// and whether that is too full for a request that can be turned away. candidates
	// are ascending and not to be changed.
	Saturation(c *Cycle, candidates []int32) (value float64, saturated bool)
}

// Admitter says which requests are let in.
type Admitter interface {
	// Admit judges the request by the detector's word on the candidates, of which there
	// is at least one. In c.Explain the detector is asked even if nothing depends on it.
	Admit(c *Cycle, by Detector, candidates []int32) Admission
}

// Admission is whether a request was let in, and why.
type Admission struct {
	// Asked is true if there was an Admitter to be asked and somebody who could have
	// served the request. Everything else is of no meaning without.
	Asked bool
	// Shed is true if the request was turned away.
	Shed bool
	// Priority is the request's.
	Priority int32
	// Sheddable is true if the request is turned away when there is no room, and
	// Because says in words why it is.
	Sheddable bool
	Because   string
	// Detector is the name of the detector that was asked; empty: none was.
	Detector string
	// Saturation and Saturated are what it said.
	Saturation float64
	Saturated  bool
}

// admit lets the request in, or returns why not.
func (s *Scheduler) admit(f *frame, in *eligible) error {
	d, c := &f.decision, &f.cycle
	if s.deps.Admitter == nil || len(in.positions) == 0 {
		return nil // whoever lacks candidates is told so, full or not
	}
	d.Admission = s.deps.Admitter.Admit(c, d.Config.Detector, in.positions)
	d.Admission.Asked = true
	if !d.Admission.Shed {
		return nil
	}
	return fmt.Errorf("%w: %d endpoints are saturated (%s: %.3g) and the request can be turned away: %s",
		ErrShed, len(in.positions), d.Admission.Detector, d.Admission.Saturation, d.Admission.Because)
}
