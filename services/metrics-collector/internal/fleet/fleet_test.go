package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
)

func target(n int) *Target {
	return &Target{Host: fmt.Sprintf("10.0.0.%d", n), Port: 8000, Scheme: "http"}
}

func targets(numbers ...int) (ts []*Target) {
	for _, n := range numbers {
		ts = append(ts, target(n))
	}
	return ts
}

// entries is the view's table as others hear it.
func entries(v *View) (es []TableEntry) {
	for i := range v.Members {
		es = append(es, TableEntry{v.Members[i].ID, v.Members[i].Target.Address(), v.Members[i].Details})
	}
	return es
}

func ids(v *View) (out []ID) {
	for i := range v.Members {
		out = append(out, v.Members[i].ID)
	}
	return out
}

func owned(v *View) (out []ID) {
	for _, i := range v.Owned {
		out = append(out, v.Members[i].ID)
	}
	return out
}

func newFleet(self string) *Fleet { return New(Config{Self: self, DeadAfter: time.Second}, nil) }

func TestNothingIsAnnouncedBeforeItIsKnown(t *testing.T) {
	now := time.Unix(1000, 0)
	f := newFleet("a")
	if v, _, _ := f.Refresh(now); v != nil {
		t.Error("a view before anything was discovered")
	}
	f.Discovered(now, targets(1))
	if v, _, _ := f.Refresh(now); v != nil {
		t.Error("a view before the others were asked")
	}
	f.Joined()
	v, table, mine := f.Refresh(now)
	if v == nil || !table || !mine || len(v.Owned) != 1 {
		t.Fatalf("view %+v, table %v, owned %v; want one endpoint, all new", v, table, mine)
	}
	if _, table, mine = f.Refresh(now); table || mine {
		t.Error("nothing happened, but something is new")
	}
}

func TestNotifyTellsOfChanges(t *testing.T) {
	now, told := time.Unix(1000, 0), 0
	f := New(Config{Self: "a", DeadAfter: time.Second}, func() { told++ })
	f.Discovered(now, targets(1))
	f.Joined()
	if told != 2 {
		t.Errorf("told %d times, want 2", told)
	}
	f.Refresh(now)
	f.Discovered(now, targets(1))
	f.Observed("10.0.0.1:8000", Reading{At: now})
	if told != 2 {
		t.Error("told of something that is not new")
	}
	f.Learned("10.0.0.1:8000", Details{Engine: "vllm"})
	if told != 3 {
		t.Error("not told of details")
	}
}

func TestGivenIDsAreTakenAsTheyAre(t *testing.T) {
	now := time.Unix(1000, 0)
	f := newFleet("a")
	f.Joined()
	given := target(1)
	given.GivenID = "blue"
	for range 2 {
		f.Discovered(now, []*Target{given})
		v, _, _ := f.Refresh(now)
		if d := cmp.Diff([]ID{"blue"}, ids(v)); d != "" {
			t.Error(d)
		}
		f.Discovered(now, nil)
	}
}

func TestOperatorsWordsWinOverThePage(t *testing.T) {
	now := time.Unix(1000, 0)
	f := newFleet("a")
	f.Joined()
	told := target(1)
	told.Engine, told.Models = "sglang", []string{"m"}
	f.Discovered(now, []*Target{told, target(2)})
	seen := Details{Engine: "vllm", Models: []string{"x"}, BlockSize: 16}
	f.Learned("10.0.0.1:8000", seen)
	f.Learned("10.0.0.2:8000", seen)
	v, _, _ := f.Refresh(now)
	want := []Details{{Engine: "sglang", Models: []string{"m"}, BlockSize: 16}, seen}
	if d := cmp.Diff(want, []Details{v.Members[0].Details, v.Members[1].Details}); d != "" {
		t.Error(d)
	}
}

func TestOlderReadingsAreDropped(t *testing.T) {
	now := time.Unix(1000, 0)
	f := newFleet("a")
	f.Joined()
	f.Discovered(now, targets(1, 2))
	v, _, _ := f.Refresh(now)
	reading := func(age time.Duration, n int32) Reading {
		return Reading{At: now.Add(-age), Figures: engine.Figures{Waiting: n}}
	}
	f.Observed("10.0.0.1:8000", reading(time.Second, 5))
	f.Observed("10.0.0.1:8000", reading(2*time.Second, 6))
	got := f.Readings(v, nil)
	if got[0].Waiting != 5 {
		t.Errorf("waiting = %d, want the newer reading's 5", got[0].Waiting)
	}
	if !got[1].At.IsZero() || got[1].Waiting != engine.Unknown || got[1].Known() {
		t.Errorf("never scraped, but %+v", got[1])
	}
}

func TestTakeOver(t *testing.T) {
	now := time.Unix(1000, 0)
	f := newFleet("a")
	f.Joined()
	all := make([]int, 30)
	for i := range all {
		all[i] = i + 1
	}
	f.Discovered(now, targets(all...))
	v, _, _ := f.Refresh(now)
	for _, peer := range []string{"b", "c"} {
		f.HeardFrom(now, peer)
		f.HeardTable(now, peer, now, entries(v))
	}
	v, table, mine := f.Refresh(now)
	if table || !mine || v.Collectors != 3 || len(v.Owned) == 0 || len(v.Owned) == 30 {
		t.Fatalf("%d of 30 owned among %d collectors, table new: %v; want a part of the same table", len(v.Owned), v.Collectors, table)
	}
	shared := owned(v)

	// tick lets time pass as far as that, in the steps of heartbeats.
	tick := func(until time.Duration, connected bool) {
		for end := now.Add(until); now.Before(end); {
			now = now.Add(250 * time.Millisecond)
			f.Tick(now, connected)
		}
	}
	// While the bus is away nobody dies.
	tick(time.Minute, false)
	if _, _, mine = f.Refresh(now); mine {
		t.Error("took over while the bus was away")
	}
	// Nor when this collector was asleep.
	now = now.Add(time.Minute)
	f.Tick(now, true)
	if _, _, mine = f.Refresh(now); mine {
		t.Error("took over after having been asleep")
	}
	// c is heard, b is not.
	for range 4 {
		tick(300*time.Millisecond, true)
		f.HeardFrom(now, "c")
	}
	v, table, mine = f.Refresh(now)
	if table || !mine || v.Collectors != 2 {
		t.Fatalf("%d collectors, owned new: %v; want b dead", v.Collectors, mine)
	}
	if f.TakeOvers() != uint64(len(v.Owned)-len(shared)) || len(v.Owned) <= len(shared) {
		t.Errorf("%d taken over, owned %d before and %d now", f.TakeOvers(), len(shared), len(v.Owned))
	}
	for _, id := range shared {
		if !strings.Contains(fmt.Sprint(owned(v)), string(id)) {
			t.Errorf("%s moved although its collector lives", id)
		}
	}
	f.Left("c")
	if v, _, _ = f.Refresh(now); len(v.Owned) != 30 {
		t.Errorf("%d of 30 owned when alone", len(v.Owned))
	}
	// b comes back and gets back what was its own.
	f.HeardFrom(now, "c")
	f.HeardTable(now, "c", now, entries(v))
	f.HeardFrom(now, "b")
	if v, _, _ = f.Refresh(now); !cmp.Equal(shared, owned(v)) {
		t.Errorf("owned %v, want %v as before", owned(v), shared)
	}
}

func TestEndpointThatOnlyThisCollectorKnowsIsScraped(t *testing.T) {
	now := time.Unix(1000, 0)
	f := newFleet("a")
	f.Joined()
	f.Discovered(now, targets(1, 2, 3, 4, 5, 6, 7, 8))
	v, _, _ := f.Refresh(now)
	f.HeardFrom(now, "b")
	f.HeardTable(now, "b", now, entries(v)[:4])
	v, _, _ = f.Refresh(now)
	for _, id := range ids(v)[4:] {
		if !strings.Contains(fmt.Sprint(owned(v)), string(id)) {
			t.Errorf("nobody scrapes %s: it is not in the other's table", id)
		}
	}
}

func TestDetailsComeFromTheOwner(t *testing.T) {
	now := time.Unix(1000, 0)
	f := newFleet("a")
	f.Joined()
	f.Discovered(now, targets(1, 2, 3, 4, 5, 6, 7, 8))
	for i := range 8 {
		f.Learned(ID(target(i+1).Address()), Details{Engine: "sglang"})
	}
	v, _, _ := f.Refresh(now)
	es := entries(v)
	for i := range es {
		es[i].Details = Details{Engine: "vllm", BlockSize: 16}
	}
	f.HeardFrom(now, "b")
	f.HeardTable(now, "b", now, es)
	before := v.Changed
	v, table, _ := f.Refresh(now.Add(time.Second))
	if !table || !v.Changed.Equal(before.Add(time.Nanosecond)) {
		t.Errorf("table new: %v, changed %v after; want 1 ns", table, v.Changed.Sub(before))
	}
	mine := fmt.Sprint(owned(v))
	for i := range v.Members {
		m := &v.Members[i]
		if own := strings.Contains(mine, string(m.ID)); own == (m.Details.Engine == "vllm") {
			t.Errorf("%s: own %v, engine %q; want it of those that b scrapes alone", m.ID, own, m.Details.Engine)
		}
	}
}

func TestDetailsNotYetReadAreTakenFromOthers(t *testing.T) {
	now := time.Unix(1000, 0)
	f := newFleet("a")
	f.HeardFrom(now, "b")
	f.HeardTable(now, "b", now, []TableEntry{{"10.0.0.1:8000", "10.0.0.1:8000", Details{Engine: "vllm", Models: []string{"m"}}}})
	f.Discovered(now, targets(1))
	f.Joined()
	f.Refresh(now)
	f.Left("b")
	v, _, _ := f.Refresh(now)
	if d := cmp.Diff(Details{Engine: "vllm", Models: []string{"m"}}, v.Members[0].Details); d != "" || len(v.Owned) != 1 {
		t.Errorf("after a take-over: %d owned, %s", len(v.Owned), d)
	}
}

func TestChangeTime(t *testing.T) {
	now := time.Unix(1000, 0)
	f := newFleet("a")
	f.Joined()
	f.Discovered(now, targets(1))
	v, _, _ := f.Refresh(now)
	if !v.Changed.Equal(now) {
		t.Errorf("changed %v, want %v", v.Changed, now)
	}
	// The other's clock is an hour ahead.
	f.HeardFrom(now, "b")
	f.HeardTable(now, "b", now.Add(time.Hour), entries(v))
	f.Discovered(now, targets(1, 2))
	v, _, _ = f.Refresh(now)
	if want := now.Add(time.Hour + time.Nanosecond); !v.Changed.Equal(want) {
		t.Errorf("changed %v, want %v: later than all that was heard", v.Changed, want)
	}
	// A late joiner with the same members does not come before who is followed.
	late := newFleet("c")
	late.HeardFrom(now, "a")
	late.HeardTable(now, "a", v.Changed, entries(v))
	late.Discovered(now, targets(1, 2))
	late.Joined()
	if l, _, _ := late.Refresh(now.Add(2 * time.Hour)); !l.Changed.Equal(v.Changed.Add(-time.Microsecond)) {
		t.Errorf("late joiner's change time %v, want just before %v", l.Changed, v.Changed)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	s := Source{Token: "hush"}
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v %s %q", s, s, s.Token, s.Token)} {
		if strings.Contains(text, "hush") {
			t.Errorf("printed: %s", text)
		}
	}
}
