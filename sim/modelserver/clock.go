package modelserver

import (
	"math"
	"time"
)

// clock turns wall time into the engine's.
type clock struct {
	base  time.Duration // the engine's time at mark
	mark  time.Time
	speed float64 // 0 while frozen
}

func (c *clock) at(wall time.Time) time.Duration {
	return c.base + time.Duration(float64(wall.Sub(c.mark))*c.speed)
}

// setSpeed changes the speed from now on.
func (c *clock) setSpeed(wall time.Time, speed float64) {
	c.base, c.mark, c.speed = c.at(wall), wall, speed
}

// until is how long it is in wall time until the engine's time is at. ok is false when that will never be.
func (c *clock) until(wall time.Time, at time.Duration) (wait time.Duration, ok bool) {
	if c.speed == 0 {
		return 0, false
	}
	// Rounded up: a timer that fires a nanosecond early finds nothing to do.
	return time.Duration(math.Ceil(float64(at-c.at(wall)) / c.speed)), true
}
