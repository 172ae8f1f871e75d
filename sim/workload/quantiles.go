package workload

import (
	"errors"
	"fmt"
)

// Point says that the share P of all values, 0 to 1, is at most Value.
type Point struct {
	P, Value float64
}

// Quantiles is a distribution: its inverse distribution function, linear between the points. The first P must be 0 and
// the last 1.
type Quantiles []Point

// Always is the distribution of one value.
func Always(value float64) Quantiles { return Quantiles{{0, value}, {1, value}} }

// Between is the uniform distribution.
func Between(low, high float64) Quantiles { return Quantiles{{0, low}, {1, high}} }

// At returns the value at the given share u, which must be from 0 to 1.
func (q Quantiles) At(u float64) float64 {
	for i := 1; i < len(q); i++ {
		if a, b := q[i-1], q[i]; u <= b.P {
			if b.P == a.P {
				return b.Value
			}
			return a.Value + (b.Value-a.Value)*(u-a.P)/(b.P-a.P)
		}
	}
	return q[len(q)-1].Value
}

// Mean is the expected value.
func (q Quantiles) Mean() float64 {
	sum := 0.0
	for i := 1; i < len(q); i++ {
		sum += (q[i].P - q[i-1].P) * (q[i].Value + q[i-1].Value) / 2
	}
	return sum
}

// Validate reports all faults of q, whose values must be at least low.
func (q Quantiles) Validate(low float64) error {
	if len(q) < 2 {
		return fmt.Errorf("%d points: at least two are needed, for 0 and 1", len(q))
	}
	var faults []error
	if q[0].P != 0 || q[len(q)-1].P != 1 {
		faults = append(faults, fmt.Errorf("points from %v to %v: must be from 0 to 1", q[0].P, q[len(q)-1].P))
	}
	for i, p := range q {
		// Written so that NaN is a fault too.
		if !(p.Value >= low) {
			faults = append(faults, fmt.Errorf("value %v at %v: must be at least %v", p.Value, p.P, low))
		}
		if i > 0 && !(p.P >= q[i-1].P && p.Value >= q[i-1].Value) {
			faults = append(faults, fmt.Errorf("point %v after %v: must not fall", p, q[i-1]))
		}
	}
	return errors.Join(faults...)
}
