package processors

import (
	"context"
	"os"
	"runtime"
	"time"
)

const (
	period = 100 * time.Millisecond
	// busy is the share of its processors from which on a process gets more, and idle
	// the share of half of them below which it is left with half. Between them is room
	// enough not to go back and forth.
	busy, idle = 0.8, 0.6
	// calm is for how many periods it must have been below.
	calm = 20
)

// Fit sets GOMAXPROCS by the use of processors until ctx ends, and then to what it was.
func Fit(ctx context.Context) {
	if _, ok := used(); !ok || os.Getenv("GOMAXPROCS") != "" {
		return
	}
	fit(ctx, func() time.Duration { d, _ := used(); return d })
}

// fit does it by what used says is the processor time used so far.
func fit(ctx context.Context, used func() time.Duration) {
	all := runtime.GOMAXPROCS(0)
	if all == 1 {
		return
	}
	defer runtime.GOMAXPROCS(all)
	f := fitting{all: all, now: all}
	last, at := used(), time.Now()
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		cpu, now := used(), time.Now()
		before := f.now
		if f.next(float64(cpu-last) / float64(now.Sub(at))); f.now != before {
			runtime.GOMAXPROCS(f.now)
		}
		last, at = cpu, now
	}
}

// fitting is how many processors a process has, of all that it could have.
type fitting struct {
	all, now int
	calm     int // periods in which half would have been enough
}

// next takes the processors used in one period.
func (f *fitting) next(used float64) {
	half := (f.now + 1) / 2
	switch {
	case used >= busy*float64(f.now):
		f.now, f.calm = min(f.all, 2*f.now), 0
	case f.now == 1 || used >= idle*float64(half):
		f.calm = 0
	default:
		if f.calm++; f.calm >= calm {
			f.now, f.calm = half, 0
		}
	}
}
