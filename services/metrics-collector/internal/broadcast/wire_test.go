package broadcast

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var unknown = engine.Figures{Waiting: engine.Unknown, Running: engine.Unknown, KVCacheUsage: engine.Unknown}

func TestTableGoesThere(t *testing.T) {
	v := &fleet.View{Changed: time.Unix(1000, 7).UTC(), Members: []fleet.Member{
		{ID: "10.0.0.1:8000#2", Target: &fleet.Target{Host: "10.0.0.1", Port: 8000, Scheme: "https", Labels: []fleet.Label{{Name: "a", Value: "1"}}},
			Details: fleet.Details{Engine: "vllm", Models: []string{"m"}, BlockSize: 16, BlockCount: 640}},
		{ID: "given", Target: &fleet.Target{Host: "fd00::1", Port: 1, Scheme: "http"}},
	}}
	m, err := tableProto(v)
	if err != nil {
		t.Fatal(err)
	}
	if !m.GetChangeTime().AsTime().Equal(v.Changed) || m.GetEndpoints()[0].GetScheme() != "https" || m.GetEndpoints()[0].GetLabels()[0].GetValue() != "1" {
		t.Errorf("table %v", m)
	}
	es, ids, err := entries(m)
	if err != nil {
		t.Fatal(err)
	}
	want := []fleet.TableEntry{
		{ID: "10.0.0.1:8000#2", Address: "10.0.0.1:8000", Details: v.Members[0].Details},
		{ID: "given", Address: "[fd00::1]:1"},
	}
	if d := cmp.Diff(want, es); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]fleet.ID{"10.0.0.1:8000#2", "given"}, ids); d != "" {
		t.Error(d)
	}
}

func TestTableThatIsNoTable(t *testing.T) {
	v := &fleet.View{Members: []fleet.Member{{ID: "a", Target: &fleet.Target{Host: "10.0.0.1", Port: 8000}}}}
	m, err := tableProto(v)
	if err != nil {
		t.Fatal(err)
	}
	m.Digest++
	if _, _, err := entries(m); err == nil {
		t.Error("a table whose digest does not fit was taken")
	}
	v.Members = append(v.Members, v.Members[0])
	if _, err := tableProto(v); err == nil {
		t.Error("a table with the same id twice was made")
	}
}

func TestLoadsGoThere(t *testing.T) {
	now := time.Unix(1000, 0)
	ids := []fleet.ID{"a", "b", "c", "d"}
	all := []fleet.Reading{
		{At: now.Add(-1500 * time.Millisecond), Figures: engine.Figures{Waiting: 4, Running: 3, KVCacheUsage: 0.5, Adapters: &engine.Adapters{Running: []string{"x"}, Waiting: []string{"y"}, Max: 2}}},
		{Figures: unknown}, // never scraped
		{At: now.Add(-time.Millisecond), Figures: unknown},
		{At: now, Figures: engine.Figures{Waiting: 0, Running: engine.Unknown, KVCacheUsage: 1}},
	}
	var l loads
	for _, c := range []struct {
		positions []int
		want      map[fleet.ID]fleet.Reading
	}{
		{[]int{0, 1, 2, 3}, map[fleet.ID]fleet.Reading{"a": all[0], "c": all[2], "d": all[3]}},
		{[]int{3}, map[fleet.ID]fleet.Reading{"d": all[3]}}, // nothing is left of the message before
	} {
		if !l.fill(7, c.positions, all, now) || l.message.GetTableDigest() != 7 {
			t.Fatalf("message %v", &l.message)
		}
		wire, err := proto.Marshal(&l.message)
		if err != nil {
			t.Fatal(err)
		}
		var m statev1.EndpointLoads
		if err := proto.Unmarshal(wire, &m); err != nil {
			t.Fatal(err)
		}
		got := make(map[fleet.ID]fleet.Reading)
		readings(&m, ids, now, func(id fleet.ID, r fleet.Reading) { got[id] = r })
		if d := cmp.Diff(c.want, got); d != "" {
			t.Error(d)
		}
	}
	for name, positions := range map[string][]int{"never scraped": {1}, "none": {}} {
		if l.fill(7, positions, all, now) {
			t.Errorf("%s: a message that says nothing, which holders take for all endpoints", name)
		}
	}
}

func TestLoadsInTableOrder(t *testing.T) {
	now := time.Unix(1000, 0)
	m := &statev1.EndpointLoads{AgeMs: []int32{5, -1}, WaitingRequestCounts: []int32{1, 2}}
	got := make(map[fleet.ID]fleet.Reading)
	readings(m, []fleet.ID{"a", "b"}, now, func(id fleet.ID, r fleet.Reading) { got[id] = r })
	f := unknown
	f.Waiting = 1
	if d := cmp.Diff(map[fleet.ID]fleet.Reading{"a": {At: now.Add(-5 * time.Millisecond), Figures: f}}, got); d != "" {
		t.Error(d)
	}
}

func FuzzHeard(f *testing.F) {
	var l loads
	l.fill(1, []int{0}, []fleet.Reading{{At: time.Unix(1, 0), Figures: engine.Figures{Waiting: 1, Adapters: &engine.Adapters{Running: []string{"a"}}}}}, time.Unix(2, 0))
	wire, _ := proto.Marshal(&l.message)
	f.Add(wire)
	table, _ := tableProto(&fleet.View{Members: []fleet.Member{{ID: "a", Target: &fleet.Target{Host: "h", Port: 1}}}})
	wire, _ = proto.Marshal(table)
	f.Add(wire)
	f.Fuzz(func(t *testing.T, wire []byte) {
		now := time.Unix(1000, 0)
		var m statev1.EndpointLoads
		if proto.Unmarshal(wire, &m) == nil {
			readings(&m, []fleet.ID{"a", "b"}, now, func(id fleet.ID, r fleet.Reading) {
				if r.At.After(now) || r.Waiting < engine.Unknown || !(r.KVCacheUsage >= engine.Unknown) {
					t.Errorf("%s: %+v", id, r)
				}
			})
		}
		var table statev1.EndpointTable
		if proto.Unmarshal(wire, &table) == nil {
			if es, ids, err := entries(&table); err == nil && len(es) != len(ids) {
				t.Errorf("%d entries, %d ids", len(es), len(ids))
			}
		}
	})
}

func TestHeldTables(t *testing.T) {
	var h held
	for d := range uint64(heldTables) {
		h.put(d, []fleet.ID{fleet.ID(rune('a' + d))})
	}
	h.put(0, []fleet.ID{"again"}) // used last
	h.put(99, []fleet.ID{"new"})
	if h.get(1) != nil || h.get(0)[0] != "again" || h.get(99)[0] != "new" || h.get(2) == nil {
		t.Error("the table that was not heard for longest is to be forgotten, and it alone")
	}
	if len(h.order) != heldTables || len(h.tables) != heldTables {
		t.Errorf("%d tables in %d places", len(h.tables), len(h.order))
	}
}

func BenchmarkFill(b *testing.B) {
	const n = 1024
	all, positions := make([]fleet.Reading, n), make([]int, n)
	now := time.Now()
	for i := range n {
		all[i] = fleet.Reading{At: now.Add(-time.Duration(i) * time.Millisecond), Figures: engine.Figures{Waiting: 3, Running: 20, KVCacheUsage: 0.5}}
		positions[i] = i
	}
	var l loads
	var wire []byte
	b.ReportAllocs()
	for b.Loop() {
		l.fill(1, positions, all, now)
		wire, _ = proto.MarshalOptions{}.MarshalAppend(wire[:0], &l.message)
	}
	b.ReportMetric(float64(len(wire)), "bytes")
}
