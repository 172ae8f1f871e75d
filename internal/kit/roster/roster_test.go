package roster

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// clock is a hand-set clock.
type clock struct{ now int64 }

func (c *clock) ns() int64 { return c.now }

func (c *clock) advance(d time.Duration) { c.now += int64(d) }

func newTest(t *testing.T) (*Roster, *clock) {
	t.Helper()
	c := &clock{now: int64(time.Hour)}
	return New(Config{Clock: c.ns}), c
}

func table(t testing.TB, ids ...string) *Table {
	t.Helper()
	var es []Endpoint
	for i, id := range ids {
		es = append(es, Endpoint{ID: ID(id), Host: "10.0.0.1", Port: uint16(8000 + i)})
	}
	tb, err := NewTable(es)
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

func loads(tb *Table, ages, waiting, running []int32, kv []float32) Loads {
	return Loads{TableDigest: tb.Digest, AgeMS: ages, Waiting: waiting, Running: running, KV: kv}
}

func TestTableIsContentAddressed(t *testing.T) {
	a, b := table(t, "x", "y", "z"), table(t, "z", "x", "y")
	if a.Digest != b.Digest {
		t.Errorf("digest depends on the order of the members: %x, %x", a.Digest, b.Digest)
	}
	if p, ok := b.Position("y"); !ok || p != 1 {
		t.Errorf("position of y = %d, %t; want 1", p, ok)
	}
	if c := table(t, "xy", "z"); c.Digest == a.Digest {
		t.Error("ids are not framed in the digest")
	}
	if a.Equal(b) {
		t.Error("ports differ by position, so the details differ")
	}
}

func TestNewTableRefuses(t *testing.T) {
	for name, es := range map[string][]Endpoint{
		"no id":    {{Host: "h", Port: 1}},
		"zero":     {{ID: "a\x00b", Host: "h", Port: 1}},
		"no host":  {{ID: "a", Port: 1}},
		"no port":  {{ID: "a", Host: "h"}},
		"twice":    {{ID: "a", Host: "h", Port: 1}, {ID: "a", Host: "i", Port: 1}},
		"too many": make([]Endpoint, MaxEndpoints+1),
	} {
		if _, err := NewTable(es); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestEndpointDetails(t *testing.T) {
	tb, err := NewTable([]Endpoint{{ID: "a", Host: "fd00::10", Port: 8000, Labels: []Label{{"zone", "b"}, {RoleLabel, "decode"}, {"app", "x"}}}})
	if err != nil {
		t.Fatal(err)
	}
	e := &tb.Endpoints[0]
	if e.Address != "[fd00::10]:8000" || e.Role != "decode" || e.Scheme != "http" {
		t.Errorf("address %q role %q scheme %q", e.Address, e.Role, e.Scheme)
	}
	if v, ok := e.Label("zone"); !ok || v != "b" {
		t.Errorf("label zone = %q, %t", v, ok)
	}
	if _, ok := e.Label("none"); ok {
		t.Error("a label that is not there was found")
	}
}

func TestServing(t *testing.T) {
	tb, err := NewTable([]Endpoint{
		{ID: "a", Host: "h", Port: 1, Models: []string{"base", "lora"}},
		{ID: "b", Host: "h", Port: 2, Models: []string{"base"}},
		{ID: "c", Host: "h", Port: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]int32{"base": tb.Serving("base"), "lora": tb.Serving("lora"), "other": tb.Serving("other")}
	want := map[string][]int32{"base": nil, "lora": {0, 2}, "other": nil}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestUnknownIsNotZero(t *testing.T) {
	r, c := newTest(t)
	tb := table(t, "a", "b")
	r.SetTable(tb)
	s := r.Snapshot()
	if s.Waiting[0] != Unknown || s.KV[0] != Unknown || s.Fresh(0, c.now) || s.Age(0, c.now) >= 0 {
		t.Errorf("an endpoint never scraped looks known: %+v", s)
	}
	if err := r.ApplyLoads(loads(tb, []int32{0, -1}, []int32{3, 3}, nil, []float32{float32(math.NaN()), 0}), c.now); err != nil {
		t.Fatal(err)
	}
	s = r.Snapshot()
	if s.Waiting[0] != 3 || s.Running[0] != Unknown || s.KV[0] != Unknown {
		t.Errorf("waiting %d running %d kv %g", s.Waiting[0], s.Running[0], s.KV[0])
	}
	if s.Waiting[1] != Unknown || s.Fresh(1, c.now) {
		t.Error("figures with a negative age were believed")
	}
}

func TestFiguresGoStale(t *testing.T) {
	r, c := newTest(t)
	tb := table(t, "a")
	r.SetTable(tb)
	if err := r.ApplyLoads(loads(tb, []int32{1000}, []int32{1}, nil, nil), c.now); err != nil {
		t.Fatal(err)
	}
	s := r.Snapshot()
	if !s.Fresh(0, c.now) || s.Age(0, c.now) != time.Second {
		t.Errorf("age %v, fresh %t", s.Age(0, c.now), s.Fresh(0, c.now))
	}
	c.advance(4 * time.Second)
	if !s.Fresh(0, c.now) {
		t.Error("stale at exactly the limit")
	}
	c.advance(time.Millisecond)
	if s.Fresh(0, c.now) {
		t.Error("fresh above the limit")
	}
}

func TestOlderFiguresDoNotReplaceNewer(t *testing.T) {
	r, c := newTest(t)
	tb := table(t, "a")
	r.SetTable(tb)
	for _, l := range []Loads{loads(tb, []int32{10}, []int32{7}, nil, nil), loads(tb, []int32{500}, []int32{1}, nil, nil)} {
		if err := r.ApplyLoads(l, c.now); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.Snapshot().Waiting[0]; got != 7 {
		t.Errorf("waiting %d, want the newer 7", got)
	}
}

func TestLoadsThatBreakTheRules(t *testing.T) {
	r, c := newTest(t)
	tb := table(t, "a", "b")
	r.SetTable(tb)
	for name, l := range map[string]Loads{
		"too few ages":      loads(tb, []int32{1}, nil, nil, nil),
		"short column":      loads(tb, []int32{1, 1}, []int32{1}, nil, nil),
		"position too high": {TableDigest: tb.Digest, Positions: []uint32{2}, AgeMS: []int32{0}},
		"positions and no ages": {
			TableDigest: tb.Digest, Positions: []uint32{0, 1},
		},
	} {
		if err := r.ApplyLoads(l, c.now); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := r.ApplyLoads(Loads{TableDigest: 1}, c.now); !errors.Is(err, ErrTableNotHeld) {
		t.Errorf("unknown table: %v", err)
	}
}

func TestCreditEndsWithTheScrapeThatSawThePick(t *testing.T) {
	r, c := newTest(t)
	tb := table(t, "a")
	r.SetTable(tb)
	check := func(what string, inFlight, credit, tokens int64) {
		t.Helper()
		s := r.Snapshot()
		reqs, toks := s.Credit(0)
		if s.InFlight(0) != inFlight || reqs != credit || toks != tokens {
			t.Errorf("%s: in flight %d, credit %d, tokens %d; want %d, %d, %d", what, s.InFlight(0), reqs, toks, inFlight, credit, tokens)
		}
	}
	apply := func(age int32) {
		t.Helper()
		if err := r.ApplyLoads(loads(tb, []int32{age}, []int32{0}, nil, nil), c.now); err != nil {
			t.Fatal(err)
		}
	}
	r.Pick("r1", 1, "a", 100, c.now)
	check("picked", 1, 1, 100)
	apply(0)
	check("a scrape of the same instant cannot have seen it", 1, 1, 100)
	c.advance(5 * time.Millisecond)
	apply(0)
	check("nor one within the allowance", 1, 1, 100)
	c.advance(20 * time.Millisecond)
	r.Pick("r1", 2, "a", 50, c.now)
	apply(0)
	check("a later scrape sees the first and not the second", 2, 1, 50)
	if !r.Finish("r1", 2) {
		t.Error("finish of an open pick is false")
	}
	check("release ends credit", 1, 0, 0)
	if !r.Finish("r1", 1) || r.Finish("r1", 1) {
		t.Error("a pick must end exactly once")
	}
	check("all ended", 0, 0, 0)
}

// A pick may be heard of after the scrape that has seen it: from a slow broadcast, or
// told to somebody who has just joined. It is in flight, and in the figures already.
func TestAPickHeardOfLateGetsNoCredit(t *testing.T) {
	r, c := newTest(t)
	tb := table(t, "a")
	r.SetTable(tb)
	r.Pick("r1", 1, "a", 100, c.now)
	if credit, _ := r.Snapshot().Credit(0); credit != 1 {
		t.Errorf("credit %d before any scrape, want 1", credit)
	}
	c.advance(time.Minute)
	if err := r.ApplyLoads(loads(tb, []int32{0}, []int32{2}, nil, nil), c.now); err != nil {
		t.Fatal(err)
	}
	r.Pick("r1", 2, "a", 100, c.now-int64(30*time.Second))
	r.Pick("r1", 3, "a", 10, c.now-int64(time.Millisecond)) // within the allowance
	s := r.Snapshot()
	if credit, tokens := s.Credit(0); s.InFlight(0) != 3 || credit != 1 || tokens != 10 {
		t.Errorf("in flight %d, credit %d, tokens %d; want 3, 1, 10", s.InFlight(0), credit, tokens)
	}
	for id := range uint64(3) {
		r.Finish("r1", id+1)
	}
	if credit, tokens := s.Credit(0); s.InFlight(0) != 0 || credit != 0 || tokens != 0 {
		t.Errorf("in flight %d, credit %d, tokens %d after all have ended", s.InFlight(0), credit, tokens)
	}
}

// A pick that is told before its endpoint's table must count once the table is there.
func TestPicksBeforeTheTable(t *testing.T) {
	for range 200 {
		r, c := newTest(t)
		now := c.now
		others := []*Table{table(t, "x"), table(t, "y")}
		var all sync.WaitGroup
		all.Go(func() { r.Pick("r1", 1, "a", 0, now) })
		all.Go(func() { // each forgets what no table has
			for _, tb := range others {
				r.SetTable(tb)
			}
		})
		all.Wait()
		r.SetTable(table(t, "a"))
		if got := r.Snapshot().InFlight(0); got != 1 {
			t.Fatalf("in flight %d, want 1", got)
		}
	}
}

func TestAPickIsCountedOnce(t *testing.T) {
	r, c := newTest(t)
	r.SetTable(table(t, "a"))
	r.Pick("r1", 1, "a", 5, c.now)
	r.Pick("r1", 1, "a", 5, c.now)
	r.Pick("r2", 1, "a", 5, c.now)
	if got := r.Snapshot().InFlight(0); got != 2 {
		t.Errorf("in flight %d, want one of each router", got)
	}
	r.DropRouter("r2")
	if got := r.Snapshot().InFlight(0); got != 1 {
		t.Errorf("in flight %d after a router went, want 1", got)
	}
	if n := r.Keep("r1", map[uint64]bool{2: true}); n != 1 || r.Snapshot().InFlight(0) != 0 {
		t.Errorf("keep ended %d, left %d in flight", n, r.Snapshot().InFlight(0))
	}
}

// A pod that returns under its old address is another endpoint: what was counted
// before stays with the one that is gone (public report B091).
func TestB091CountsStayWithTheInstance(t *testing.T) {
	r, c := newTest(t)
	r.SetTable(table(t, "pod-a#1"))
	r.Pick("r", 1, "pod-a#1", 0, c.now)
	r.SetTable(table(t, "pod-a#2"))
	if got := r.Snapshot().InFlight(0); got != 0 {
		t.Errorf("the new instance starts with %d in flight", got)
	}
	r.Finish("r", 1)
	if got := r.Snapshot().InFlight(0); got != 0 {
		t.Errorf("the new instance is at %d after the old one's request ended", got)
	}
}

func TestHeldTables(t *testing.T) {
	r, c := newTest(t)
	var all []*Table
	for i := range heldTables + 1 {
		tb := table(t, "a", fmt.Sprintf("b%d", i))
		all = append(all, tb)
		r.SetTable(tb)
	}
	if _, held := r.SnapshotOf(all[0].Digest); held {
		t.Error("the ninth last table is still held")
	}
	last := all[len(all)-1]
	if err := r.ApplyLoads(loads(last, []int32{0, 0}, []int32{4, 5}, nil, nil), c.now); err != nil {
		t.Fatal(err)
	}
	s, held := r.SnapshotOf(all[1].Digest)
	if !held || s.Table != all[1] || s.Waiting[0] != 4 || s.Waiting[1] != Unknown {
		t.Errorf("view of an older table: held %t, %+v", held, s)
	}
	if s, held := r.SnapshotOf(last.Digest); !held || s != r.Snapshot() {
		t.Error("the current table's view is not the current snapshot")
	}
}

func TestOnTable(t *testing.T) {
	r, _ := newTest(t)
	var seen []int
	r.OnTable(func(_, n *Table) { seen = append(seen, n.Len()) })
	r.SetTable(table(t, "a"))
	r.SetTable(table(t, "a"))
	r.SetTable(table(t, "a", "b"))
	if d := cmp.Diff([]int{1, 2}, seen); d != "" {
		t.Error(d)
	}
}

func TestStatesAreForgotten(t *testing.T) {
	r, c := newTest(t)
	r.SetTable(table(t, "old"))
	r.Pick("r", 1, "old", 0, c.now)
	for i := range heldTables + 1 {
		r.SetTable(table(t, fmt.Sprintf("e%d", i)))
	}
	if _, there := r.states["old"]; !there {
		t.Error("an endpoint with a request in flight was forgotten")
	}
	r.Finish("r", 1)
	r.SetTable(table(t, "last"))
	if _, there := r.states["old"]; there {
		t.Error("an endpoint that is in no table is kept for ever")
	}
}

func BenchmarkApplyLoads(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var ids []string
			for i := range n {
				ids = append(ids, fmt.Sprintf("endpoint-%04d", i))
			}
			tb := table(b, ids...)
			r := New(Config{})
			r.SetTable(tb)
			l := loads(tb, make([]int32, n), make([]int32, n), make([]int32, n), make([]float32, n))
			b.ReportAllocs()
			for b.Loop() {
				if err := r.ApplyLoads(l, r.Now()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPickFinish(b *testing.B) {
	r := New(Config{})
	r.SetTable(table(b, "a", "b"))
	b.ReportAllocs()
	var id uint64
	for b.Loop() {
		id++
		r.Pick("r", id, "a", 10, r.Now())
		r.Finish("r", id)
	}
}
