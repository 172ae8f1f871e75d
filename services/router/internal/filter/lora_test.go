package filter

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

func TestLoRAAffinity(t *testing.T) {
	one, zero := must(NewLoRAAffinity("lora", 1)), must(NewLoRAAffinity("lora", 0))
	for _, c := range []struct {
		name string
		f    route.Filter
		pods []pod
		want []int32
	}{
		// The row records that nobody stays, so that a pool without adapters refuses
		// every request. Here such candidates stay: nothing is known against them.
		{"M5 threshold 1, no adapter figures", one, []pod{{}, {}}, []int32{0, 1}},
		{"M5 threshold 0, no adapter figures", zero, []pod{{}, {}}, []int32{0, 1}},
		{"M6", one, []pod{{Max: 2}, {Max: 1, Active: []string{"x"}}}, []int32{0}},
		{"M6 threshold 0", zero, []pod{{Max: 2}, {Max: 1, Active: []string{"x"}}}, []int32{0}},
		{"M8", one, []pod{{Max: 1, Active: []string{"m"}}, {Max: 1, Active: []string{"y"}}}, []int32{0}},
		{"M8 threshold 0", zero, []pod{{Max: 1, Active: []string{"m"}}, {Max: 1, Active: []string{"y"}}}, []int32{0}},
		{"M9", one, []pod{{Max: 2, Active: []string{"x"}, Queued: []string{"y"}}, {Max: 3, Active: []string{"x"}, Queued: []string{"y"}}}, []int32{1}},
		{"waiting is as good as running", one, []pod{{Max: 2, Queued: []string{"m"}}, {Max: 2}}, []int32{0}},
		{"all full of others", one, []pod{{Max: 1, Active: []string{"x"}}, {Max: 1, Active: []string{"y"}}}, nil},
		{"unknown beats full", one, []pod{{Max: 1, Active: []string{"x"}}, {}}, []int32{1}},
		{"known beats unknown", one, []pod{{Max: 1, Active: []string{"m"}}, {}}, []int32{0}},
		{"stale figures are none", one, []pod{{Max: 1, Active: []string{"m"}, Age: time.Minute}, {Max: 2}}, []int32{1}},
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

// E5: one candidate with the adapter, one with room, threshold .75, 10000 runs.
func TestE5AffinityByTheThreshold(t *testing.T) {
	got := rates(t, must(NewLoRAAffinity("lora", .75)), "m", 10000, pod{Max: 2, Active: []string{"m"}}, pod{Max: 2})
	if n := got["[0]"]; n < 7000 || n > 8000 || n+got["[1]"] != 10000 {
		t.Errorf("got %v, want 75%% ± 5 of the one with the adapter", got)
	}
}

func TestAdapterOfTheRequestGoesBeforeItsModel(t *testing.T) {
	c := routetest.Cycle(t, &route.Request{Model: "base", Adapter: "a"}, pod{Max: 2, Active: []string{"base"}}, pod{Max: 2, Active: []string{"a"}})
	if d := cmp.Diff([]int32{1}, must(NewLoRAAffinity("lora", 1)).Filter(c, routetest.Positions(2))); d != "" {
		t.Error(d)
	}
}

// defaultTree is the decision tree of the reference's shipped configuration (E6).
func defaultTree(t testing.TB, threshold float64) route.Filter {
	t.Helper()
	tree := func(n Node) route.Filter {
		f, err := NewTree("tree", n)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	low, lora := must(NewLowQueue("low", 128)), must(NewLoRAAffinity("lora", threshold))
	lq, lk := NewLeastQueue("lq"), NewLeastKV("lk")
	queueThenKV := tree(Node{Current: lq, NextOnSuccessOrFailure: lk})
	loraThenKV := tree(Node{Current: lora, NextOnSuccessOrFailure: lk})
	return tree(Node{
		Current:       low,
		NextOnSuccess: tree(Node{Current: lora, NextOnSuccessOrFailure: queueThenKV}),
		NextOnFailure: tree(Node{Current: lq, NextOnSuccessOrFailure: loraThenKV}),
	})
}

func TestDecisionTree(t *testing.T) {
	full := []string{"foo", "bar"}
	for _, c := range []struct {
		name, model string
		pods        []pod
		want        []int32
	}{
		{"E8", "critical", []pod{
			{KV: .2, Active: full, Max: 2}, {Waiting: 3, KV: .1, Active: []string{"foo", "critical"}, Max: 2}, {Waiting: 10, KV: .2, Active: []string{"foo"}, Max: 2},
		}, []int32{1}},
		{"M12", "m", []pod{{Waiting: 3, KV: .2}, {KV: .1}, {Waiting: 10, KV: .2}}, []int32{1}},
		{"M14", "m", []pod{{Waiting: 200, KV: .5}, {Waiting: 500, KV: .1, Active: []string{"m"}, Max: 4}, {Waiting: 210, KV: .15}}, []int32{2}},
		{"M15", "m", []pod{{Waiting: 100, KV: .9, Active: []string{"m"}, Max: 4}, {Max: 4}}, []int32{0}},
		{"M17", "m", []pod{{Waiting: 1, KV: .1}, {Waiting: 1, KV: .1}}, []int32{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, run(t, defaultTree(t, 1), c.model, c.pods...)); d != "" {
				t.Error(d)
			}
		})
	}
}

// dropAll leaves nobody, and scribbles over what it is given as filters may.
type dropAll struct{ name string }

func (d dropAll) Name() string { return d.name }
func (d dropAll) Filter(_ *route.Cycle, in []int32) []int32 {
	clear(in)
	return in[:0]
}

type dropAllByLoad struct{ dropAll }

func (dropAllByLoad) FiltersLoad() {}

type keepAll struct{ name string }

func (k keepAll) Name() string                              { return k.name }
func (k keepAll) Filter(_ *route.Cycle, in []int32) []int32 { return in }

func TestTreeFailureGoesOnWithWhatWasGiven(t *testing.T) {
	f, err := NewTree("tree", Node{Current: dropAll{"d"}, NextOnFailure: keepAll{"k"}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]int32{0, 1, 2}, run(t, f, "m", pod{}, pod{}, pod{})); d != "" {
		t.Error(d)
	}
}

func TestTreeWithoutNext(t *testing.T) {
	f, err := NewTree("tree", Node{Current: dropAll{"d"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, f, "m", pod{}); len(got) != 0 {
		t.Errorf("left %v", got)
	}
	if _, err := NewTree("tree", Node{}); err == nil {
		t.Error("a tree without a current filter passed")
	}
}

// Whether the client is told to come back or that nobody is there depends on the
// filter at which a tree ends with nobody.
func TestTreeIsALoadFilterIfItsEndsAre(t *testing.T) {
	byLoad, byKind := dropAllByLoad{dropAll{"l"}}, dropAll{"k"}
	for _, c := range []struct {
		name string
		node Node
		want bool
	}{
		{"ends at its current", Node{Current: byLoad}, true},
		{"ends at its current, which goes by kind", Node{Current: byKind}, false},
		{"ends at the next", Node{Current: byKind, NextOnFailure: byLoad}, true},
		{"either way by load", Node{Current: byKind, NextOnSuccessOrFailure: byLoad}, true},
		{"success by kind", Node{Current: byLoad, NextOnSuccess: byKind}, false},
		{"failure by kind", Node{Current: byLoad, NextOnFailure: byKind}, false},
	} {
		f, err := NewTree("tree", c.node)
		if err != nil {
			t.Fatal(err)
		}
		if _, load := f.(route.LoadFilter); load != c.want {
			t.Errorf("%s: load filter %t, want %t", c.name, load, c.want)
		}
		if f.Name() != "tree" {
			t.Errorf("%s: name %q", c.name, f.Name())
		}
	}
	if _, load := defaultTree(t, 1).(route.LoadFilter); !load {
		t.Error("the shipped tree is no load filter")
	}
}

func BenchmarkFilter(b *testing.B) {
	var pods []pod
	for i := range 1000 {
		pods = append(pods, pod{Waiting: rand.Int32N(20), KV: rand.Float32(), Max: 4, Active: []string{[]string{"m", "x"}[i%2]}})
	}
	c := routetest.Cycle(b, &route.Request{Model: "m"}, pods...)
	all, in := routetest.Positions(len(pods)), make([]int32, len(pods))
	for _, f := range []route.Filter{NewLeastQueue("least-queue"), NewLeastKV("least-kv"), must(NewLoRAAffinity("lora", .9)), defaultTree(b, .9)} {
		b.Run(f.Name(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				copy(in, all)
				f.Filter(c, in)
			}
		})
	}
}
