package processors

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
)

func TestProcessorsFollowTheirUse(t *testing.T) {
	type step struct {
		used    float64
		periods int
		want    int
	}
	for _, c := range []struct {
		name  string
		all   int
		steps []step
	}{
		{"idle goes down to one, step by step", 8, []step{{0.1, calm - 1, 8}, {0.1, 1, 4}, {0.1, calm, 2}, {0.1, calm, 1}, {0.1, 10 * calm, 1}}},
		{"busy goes up at once, and never above all", 6, []step{{0, 3 * calm, 1}, {0.9, 1, 2}, {1.9, 1, 4}, {3.9, 1, 6}, {6, 10, 6}}},
		{"one is kept by what needs one", 2, []step{{0.5, calm, 1}, {0.7, 10 * calm, 1}, {0.8, 1, 2}, {0.7, 10 * calm, 2}, {0.5, calm, 1}}},
		{"one busy period begins the calm anew", 4, []step{{0.2, calm - 1, 4}, {1.5, 1, 4}, {0.2, calm - 1, 4}, {0.2, 1, 2}}},
		{"an odd number is halved upwards", 3, []step{{0.2, calm, 2}, {0.2, calm, 1}, {1, 1, 2}, {2, 1, 3}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := fitting{all: c.all, now: c.all}
			for i, s := range c.steps {
				for range s.periods {
					f.next(s.used)
				}
				if f.now != s.want {
					t.Fatalf("after step %d: %d processors, want %d", i, f.now, s.want)
				}
			}
		})
	}
}

func TestProcessorsAreTakenAndGivenBack(t *testing.T) {
	before := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(before)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var busy atomic.Bool
	var total time.Duration // used by one goroutine
	go func() {
		defer close(ended)
		fit(ctx, func() time.Duration {
			if busy.Load() {
				total += time.Minute // far above all processors, however late a period ends
			}
			return total
		})
	}()
	kittest.Eventually(t, "the idle process to have one processor", func() bool { return runtime.GOMAXPROCS(0) == 1 })
	busy.Store(true)
	kittest.Eventually(t, "the busy process to have all", func() bool { return runtime.GOMAXPROCS(0) == 4 })
	busy.Store(false)
	kittest.Eventually(t, "the idle process to have one again", func() bool { return runtime.GOMAXPROCS(0) == 1 })
	cancel()
	<-ended
	if n := runtime.GOMAXPROCS(0); n != 4 {
		t.Errorf("%d processors at the end, want the 4 from before", n)
	}
}

func TestThisProcessUsesProcessors(t *testing.T) {
	first, ok := used()
	if runtime.GOOS == "windows" {
		return // it does not tell
	}
	if !ok {
		t.Fatal("this system does not tell")
	}
	kittest.Eventually(t, "processor time to go by", func() bool { now, _ := used(); return now > first })
}

func TestFitLeavesAloneWhatTheOperatorSet(t *testing.T) {
	t.Setenv("GOMAXPROCS", "4")
	before := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(before)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	Fit(ctx) // returns at once
	if ctx.Err() != nil || runtime.GOMAXPROCS(0) != 4 {
		t.Errorf("%d processors, want 4 untouched", runtime.GOMAXPROCS(0))
	}
}
