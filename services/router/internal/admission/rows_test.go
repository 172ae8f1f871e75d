package admission

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

type pod = routetest.Pod

// at is a pod with these figures.
func at(waiting int32, kv float32) pod { return pod{Waiting: waiting, KV: kv} }

func old(p pod, age time.Duration) pod { p.Age = age; return p }

func unscraped() pod {
	return pod{Waiting: roster.Unknown, Running: roster.Unknown, KV: roster.Unknown, Unscraped: true}
}

func busy(p pod, inFlight int) pod { p.InFlight = inFlight; return p }

func cycle(t *testing.T, pods ...pod) *route.Cycle {
	t.Helper()
	return routetest.Cycle(t, &route.Request{Headers: route.NoHeaders{}}, pods...)
}

func utilization(t *testing.T, change func(c *UtilizationConfig)) *Utilization {
	t.Helper()
	cfg := DefaultUtilizationConfig()
	change(&cfg)
	u, err := NewUtilization("u", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

const stale = 100 * time.Millisecond

// The first generation's rule: full is when nobody is fresh and within limits. Where we
// differ the reference's verdict stands beside ours.
func TestRowsOfTheFirstDetector(t *testing.T) {
	for _, c := range []struct {
		id        string
		pods      []pod
		kv        float64
		saturated bool
		reference bool
	}{
		{"H1 none", nil, .9, true, true}, // and the Scheduler does not ask: 503
		{"H2 2/.5", []pod{at(2, .5)}, .9, false, false},
		{"H4 10/.1", []pod{at(10, .1)}, .9, true, true},
		{"H4 1/.95", []pod{at(1, .95)}, .9, true, true},
		{"H4 nil metrics", []pod{unscraped()}, .9, false, true}, // unknown is not full
		{"H5 1/.1 + 0/.2", []pod{at(1, .1), old(at(0, .2), 10*time.Millisecond)}, .9, false, false},
		{"H7 stale + 20/.2 + 1/.99", []pod{old(at(1, .1), 2*stale), at(20, .2), at(1, .99)}, .9, false, true},
		{"H7 stale and full by what was sent there", []pod{busy(old(at(1, .1), 2*stale), 101), at(20, .2), at(1, .99)}, .9, true, true},
		{"H8 5/.1", []pod{at(5, .1)}, .9, false, false},
		{"H8 1/.9", []pod{at(1, .9)}, .9, false, false},
		{"H8 1/.8 of .8, not exact in binary", []pod{at(1, .8)}, .8, false, false},
		{"6/.1", []pod{at(6, .1)}, .9, true, true},
	} {
		t.Run(c.id, func(t *testing.T) {
			u := utilization(t, func(cfg *UtilizationConfig) { cfg.KVCacheUtil, cfg.Staleness = c.kv, stale })
			value, saturated := u.Saturation(cycle(t, c.pods...), routetest.Positions(len(c.pods)))
			if saturated != c.saturated || saturated != (value > 1) && len(c.pods) > 0 {
				t.Errorf("saturated %v at %v, want %v (the reference says %v)", saturated, value, c.saturated, c.reference)
			}
		})
	}
}

// The newer rule: the mean of max(q/5, kv/.9).
func TestRowsOfTheNewerDetector(t *testing.T) {
	for _, c := range []struct {
		id        string
		pods      []pod
		want      float64
		reference float64
	}{
		{"H11 none", nil, 1, 1},
		{"H13 1/.1 stale", []pod{old(at(1, .1), 2*stale)}, 0, 1},
		{"H13 stale, 40 in flight", []pod{busy(old(at(1, .1), 2*stale), 40)}, .4, 1},
		{"H14 10/.1", []pod{at(10, .1)}, 2, 2},
		{"H16 nil metrics", []pod{unscraped()}, 0, 1},
		{"H17 1/.1 + 0/.2", []pod{at(1, .1), at(0, .2)}, .2111, .2111},
		{"H19 1/.1 + 15/.2", []pod{at(1, .1), at(15, .2)}, 1.6, 1.6},
		{"H20 stale + 20/.2 + 1/.99", []pod{old(at(1, .1), 2*stale), at(20, .2), at(1, .99)}, 1.7, 2.0333},
		{"queue unknown, kv .45", []pod{busy(at(-1, .45), 20)}, .5, 1},
		{"queue unknown, 90 in flight", []pod{busy(at(-1, .45), 90)}, .9, 1},
		{"picks that run are not a queue", []pod{busy(at(0, 0), 10)}, .1, 0},
		{"picks behind a queue queue", []pod{busy(at(1, 0), 4)}, 1, .2},
	} {
		t.Run(c.id, func(t *testing.T) {
			u := utilization(t, func(cfg *UtilizationConfig) { cfg.KVCacheUtil, cfg.Staleness, cfg.Measure = .9, stale, Mean })
			value, saturated := u.Saturation(cycle(t, c.pods...), routetest.Positions(len(c.pods)))
			if math.Abs(value-c.want) > 1e-4 || saturated != (value >= 1) {
				t.Errorf("%.4f, saturated %v, want %.4f (the reference says %.4f)", value, saturated, c.want, c.reference)
			}
		})
	}
}

func TestH23_utilization_as_a_filter(t *testing.T) {
	for _, c := range []struct {
		id   string
		pods []pod
		want int
	}{
		{"1/.1,4/.7", []pod{at(1, .1), at(4, .7)}, 2},
		{"5/.8", []pod{at(5, .8)}, 1},
		{"5/.9", []pod{at(5, .9)}, 1},
		{"7/.1,1/.1", []pod{at(7, .1), at(1, .1)}, 1},
		{"1/.97,1/.5", []pod{at(1, .97), at(1, .5)}, 1},
		{"6/.1,1/.1, the limit is not in", []pod{at(6, .1), at(1, .1)}, 1},
		{"all stale", []pod{old(at(1, .1), 2*stale), old(at(1, .1), 2*stale)}, 2},
		{"one stale, one full", []pod{old(at(1, .1), 2*stale), at(9, .1)}, 1},
		{"stale and full by what was sent there", []pod{busy(old(at(1, .1), 2*stale), 120), at(1, .1)}, 1},
		{"10/.1,1/.99 all full", []pod{at(10, .1), at(1, .99)}, 2},
		{"nobody", nil, 0},
	} {
		t.Run(c.id, func(t *testing.T) {
			u := utilization(t, func(cfg *UtilizationConfig) { cfg.Staleness, cfg.Headroom = stale, .2 })
			if got := u.Filter(cycle(t, c.pods...), routetest.Positions(len(c.pods))); len(got) != c.want {
				t.Errorf("kept %v, want %d", got, c.want)
			}
		})
	}
}

func concurrency(t *testing.T, change func(c *ConcurrencyConfig)) *Concurrency {
	t.Helper()
	cfg := DefaultConcurrencyConfig()
	change(&cfg)
	k, err := NewConcurrency("k", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sent is a pod with so many requests in flight of so many prompt tokens each.
func sent(requests int, tokens uint32) pod {
	p := unscraped()
	p.InFlight, p.InFlightTokens = requests, tokens
	return p
}

func TestRowsOfTheConcurrencyDetector(t *testing.T) {
	requests := concurrency(t, func(c *ConcurrencyConfig) { c.MaxRequests = 10 })
	tokens := concurrency(t, func(c *ConcurrencyConfig) { c.MaxTokens, c.Count = 100, CountTokens })
	for _, c := range []struct {
		id        string
		by        *Concurrency
		pods      []pod
		want      float64
		saturated bool
	}{
		{"H25 0", requests, []pod{sent(0, 0)}, 0, false},
		{"H26 5", requests, []pod{sent(5, 0)}, .5, false},
		{"H28 10,0", requests, []pod{sent(10, 0), sent(0, 0)}, .5, false},
		{"H29 15,5", requests, []pod{sent(15, 0), sent(5, 0)}, 1, true},
		{"H31 nothing was ever sent there", requests, []pod{unscraped()}, 0, false},
		{"H32 1234", tokens, []pod{sent(1, 1)}, .025, false}, // .03 in the reference, which rounds each request
		{"H32 5 of 16 chars", tokens, []pod{sent(5, 4)}, .5, false},
		{"H32 10 of 16 chars", tokens, []pod{sent(10, 4)}, 1, true},
		{"H32 5 on one of two", tokens, []pod{sent(5, 4), sent(0, 0)}, .25, false},
		{"nobody", requests, nil, 1, true},
	} {
		t.Run(c.id, func(t *testing.T) {
			value, saturated := c.by.Saturation(cycle(t, c.pods...), routetest.Positions(len(c.pods)))
			if math.Abs(value-c.want) > 1e-9 || saturated != c.saturated {
				t.Errorf("%v, saturated %v, want %v, %v", value, saturated, c.want, c.saturated)
			}
		})
	}
}

func TestH34_concurrency_as_a_filter(t *testing.T) {
	k := concurrency(t, func(c *ConcurrencyConfig) { c.MaxTokens, c.Count, c.Headroom = 100, CountTokens, .2 })
	var f route.Filter = k
	if _, load := f.(route.LoadFilter); !load {
		t.Error("an empty answer would be 503 and not 429")
	}
	if got := f.Filter(cycle(t, sent(11, 4)), routetest.Positions(1)); len(got) != 1 {
		t.Error("110 tokens of 100 and a fifth were dropped")
	}
	if got := f.Filter(cycle(t, sent(12, 4)), routetest.Positions(1)); len(got) != 0 {
		t.Error("120 tokens of 100 and a fifth were kept: it must leave nobody")
	}
}

// Filtering is on the path of every request: it needs no room of its own, and leaves all
// as they are if nobody has room.
func TestTheUtilizationFilterKeepsInPlace(t *testing.T) {
	u := utilization(t, func(*UtilizationConfig) {})
	for _, c := range []struct {
		name string
		pods []pod
		want []int32
	}{
		{"some", []pod{at(9, 0), at(0, 0), at(0, .9), at(1, .1)}, []int32{1, 3}},
		{"nobody", []pod{at(9, 0), at(0, .9), at(5, .1)}, []int32{0, 1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cy, all, in := cycle(t, c.pods...), routetest.Positions(len(c.pods)), make([]int32, len(c.pods))
			var got []int32
			allocations := testing.AllocsPerRun(10, func() {
				copy(in, all)
				got = u.Filter(cy, in)
			})
			if d := cmp.Diff(c.want, got); d != "" || allocations != 0 {
				t.Errorf("%v allocations, %s", allocations, d)
			}
		})
	}
}
