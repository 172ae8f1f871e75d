package filter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

type pod = routetest.Pod

func queues(qs ...int32) []pod {
	var pods []pod
	for _, q := range qs {
		pods = append(pods, pod{Waiting: q})
	}
	return pods
}

func kvs(us ...float32) []pod {
	var pods []pod
	for _, u := range us {
		pods = append(pods, pod{KV: u})
	}
	return pods
}

func must[F route.Filter](f F, err error) F {
	if err != nil {
		panic(err)
	}
	return f
}

// run filters all pods and returns the positions kept.
func run(t testing.TB, f route.Filter, model string, pods ...pod) []int32 {
	t.Helper()
	c := routetest.Cycle(t, &route.Request{Model: model}, pods...)
	return f.Filter(c, routetest.Positions(len(pods)))
}

func TestFiltersKeep(t *testing.T) {
	lq, lk := NewLeastQueue("lq"), NewLeastKV("lk")
	low := must(NewLowQueue("low", DefaultQueueThreshold))
	for _, c := range []struct {
		name string
		f    route.Filter
		pods []pod
		want []int32
	}{
		{"E2", lq, queues(0, 3, 10), []int32{0, 1}},
		{"E3", lk, kvs(0, .3, 1), []int32{0, 1}},
		{"M2 1,2,3", lq, queues(1, 2, 3), []int32{0}},
		{"M2 3", lq, queues(3), []int32{0}},
		{"M2 0,3,4", lq, queues(0, 3, 4), []int32{0}},
		{"M2 2,2,2,3", lq, queues(2, 2, 2, 3), []int32{0, 1, 2}},
		{"M2 10..14", lq, queues(10, 11, 12, 13, 14), []int32{0}},
		{"M3 .1,.2", lk, kvs(.1, .2), []int32{0}},
		{"M3 .5,.5", lk, kvs(.5, .5), []int32{0, 1}},
		{"M3 0,.9,.9", lk, kvs(0, .9, .9), []int32{0}},
		{"M3 .2,.3,.4,.9", lk, kvs(.2, .3, .4, .9), []int32{0, 1}},
		{"M3 .7", lk, kvs(.7), []int32{0}},
		{"M3 1.2,.4", lk, kvs(1.2, .4), []int32{1}},
		{"B133 all equal", lq, queues(7, 7, 7), []int32{0, 1, 2}},
		{"the range in whole numbers", lq, queues(0, 1), []int32{0}},
		{"low queue at and above the threshold", low, queues(0, 128, 129), []int32{0, 1}},
		{"low queue leaves nobody", low, queues(200, 300), nil},
		{"nobody, nobody", lq, nil, nil},

		// Unknown is neither idle nor full.
		{"unknown queue stays and is no minimum", lq, []pod{{Unscraped: true}, {Waiting: 5}, {Waiting: 50}}, []int32{0, 1}},
		{"stale queue stays and is no minimum", lq, []pod{{Waiting: 0, Age: time.Minute}, {Waiting: 5}, {Waiting: 50}}, []int32{0, 1}},
		{"stale queue is no maximum", lq, []pod{{Waiting: 1000, Age: time.Minute}, {Waiting: 5}, {Waiting: 50}}, []int32{0, 1}},
		{"queue missing on the page", lq, []pod{{Waiting: -1}, {Waiting: 5}, {Waiting: 50}}, []int32{0, 1}},
		{"all unknown", lq, []pod{{Unscraped: true}, {Unscraped: true}}, []int32{0, 1}},
		{"unknown KV", lk, []pod{{KV: -1}, {KV: .2}, {KV: .9}}, []int32{0, 1}},
		{"all KV unknown", lk, []pod{{KV: -1}, {KV: -1}}, []int32{0, 1}},
		{"stale queue is not above the threshold", low, []pod{{Waiting: 1000, Age: time.Minute}, {Waiting: 129}}, []int32{0}},

		// B135: own counts first, then those that were scraped.
		{"B135 picks since the scrape count", lq, []pod{{InFlight: 4}, {Waiting: 1}, {Waiting: 1}}, []int32{1, 2}},
		{"B135 picks since the scrape reach the threshold", low, []pod{{Waiting: 120, InFlight: 9}, {Waiting: 120, InFlight: 8}}, []int32{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, c.f, "m", c.pods...)
			if len(got) == 0 {
				got = nil
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestExpectedKVCountsUncachedPromptTokens(t *testing.T) {
	r := routetest.Roster(t, pod{KV: .1, CacheTokens: 1000}, pod{KV: .3, CacheTokens: 1000})
	r.Pick("r", 1, "pod-0000", 500, r.Now())
	c := &route.Cycle{Request: &route.Request{}, Snapshot: r.Snapshot(), Now: r.Now(), Rand: rand.IntN}
	if d := cmp.Diff([]int32{1}, NewLeastKV("lk").Filter(c, routetest.Positions(2))); d != "" {
		t.Error(d)
	}
}

// Filters promise to keep the order, to invent nobody, and that those which go by
// the least keep somebody.
func TestFiltersKeepASubsequence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "n")
		var pods []pod
		for range n {
			pods = append(pods, pod{
				Waiting: rapid.Int32Range(-1, 300).Draw(rt, "waiting"), KV: rapid.Float32Range(-.1, 1.1).Draw(rt, "kv"),
				Unscraped: rapid.Bool().Draw(rt, "unscraped"), Max: rapid.Uint32Range(0, 2).Draw(rt, "max"),
				Active:   rapid.SliceOfN(rapid.SampledFrom([]string{"m", "x"}), 0, 1).Draw(rt, "active"),
				InFlight: rapid.IntRange(0, 3).Draw(rt, "in flight"),
			})
		}
		c := routetest.Cycle(t, &route.Request{Model: "m"}, pods...)
		for _, f := range []route.Filter{
			NewLeastQueue("lq"), NewLeastKV("lk"), must(NewLowQueue("low", 100)), must(NewLoRAAffinity("lora", .5)), defaultTree(t, .5),
		} {
			in := routetest.Positions(n)
			out := f.Filter(c, in)
			last := int32(-1)
			for _, pos := range out {
				if pos <= last || int(pos) >= n {
					rt.Fatalf("%s left %v of %d", f.Name(), out, n)
				}
				last = pos
			}
			if len(out) == 0 && (f.Name() == "lq" || f.Name() == "lk") {
				rt.Fatalf("%s left nobody of %+v", f.Name(), pods)
			}
		}
	})
}

func TestThresholdsAreChecked(t *testing.T) {
	if _, err := NewLowQueue("low", -1); err == nil {
		t.Error("a negative queue threshold passed")
	}
	for _, bad := range []float64{-.1, 1.1, 2} {
		if _, err := NewLoRAAffinity("lora", bad); err == nil {
			t.Errorf("affinity threshold %v passed", bad)
		}
	}
	for _, good := range []float64{0, .999, 1} {
		if _, err := NewLoRAAffinity("lora", good); err != nil {
			t.Errorf("affinity threshold %v: %v", good, err)
		}
	}
}

// rates runs a filter often on fresh candidate lists and returns how often each
// result came.
func rates(t testing.TB, f route.Filter, model string, times int, pods ...pod) map[string]int {
	t.Helper()
	c := routetest.Cycle(t, &route.Request{Model: model}, pods...)
	got := make(map[string]int)
	for range times {
		got[fmt.Sprint(slices.Clone(f.Filter(c, routetest.Positions(len(pods)))))]++
	}
	return got
}
