package epconfig

import (
	"math"
	"time"

	"go.yaml.in/yaml/v3"
)

// Duration returns a length of time, such as 200ms, above 0; 0 if it is absent.
func (p *Params) Duration(name string) time.Duration {
	n := p.values[name]
	if n == nil {
		return 0
	}
	d, err := time.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || err != nil:
		p.Fault(n, name, "must be a length of time such as 200ms, not %s", kindOf(n))
	case d <= 0:
		p.Fault(n, name, "must be above 0, not %v", d)
	}
	p.note(name, jsonText(n.Value))
	return d
}

// headroom reads the parameter that both detectors have.
func (p *Params) headroom() float64 {
	h := p.Float("headroom")
	if h > 1 && !math.IsInf(h, 0) {
		p.Warn("headroom", "%v lets limits be exceeded by more than their double", h)
	}
	return h
}
