package follower

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/outcomes"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func wireTable(t *testing.T, publisher string, changed int64, ids ...string) *statev1.EndpointTable {
	t.Helper()
	var es []roster.Endpoint
	for _, id := range ids {
		es = append(es, roster.Endpoint{ID: roster.ID(id), Host: "127.0.0.1", Port: 8000, Labels: []roster.Label{{Name: "zone", Value: "z"}}, Models: []string{"m"}, Engine: "vllm", CacheBlockSize: 16, CacheBlockCount: 100})
	}
	tb, err := roster.NewTable(es)
	if err != nil {
		t.Fatal(err)
	}
	m := TableProto(tb)
	m.Stamp = &statev1.Stamp{PublisherId: publisher, Sequence: 1, PublishTime: timestamppb.Now()}
	m.ChangeTime = timestamppb.New(time.Unix(changed, 0))
	return m
}

func TestTableSurvivesTheWire(t *testing.T) {
	m := wireTable(t, "c", 1, "a", "b")
	tb, err := TableFromProto(m)
	if err != nil {
		t.Fatal(err)
	}
	again, err := TableFromProto(TableProto(tb))
	if err != nil || !again.Equal(tb) {
		t.Errorf("a table changed on the wire: %v", err)
	}
}

func TestTablesThatBreakTheRulesAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*statev1.EndpointTable){
		"digest":      func(m *statev1.EndpointTable) { m.Digest++ },
		"port 0":      func(m *statev1.EndpointTable) { m.Endpoints[0].Port = 0 },
		"port 65536":  func(m *statev1.EndpointTable) { m.Endpoints[0].Port = 65536 },
		"id twice":    func(m *statev1.EndpointTable) { m.Endpoints[1].EndpointId = "a" },
		"nobody's id": func(m *statev1.EndpointTable) { m.Endpoints[0].EndpointId = "" },
	} {
		m := wireTable(t, "c", 1, "a", "b")
		spoil(m)
		if _, err := TableFromProto(m); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTheTableThatChangedLastIsFollowed(t *testing.T) {
	var ts tables
	hear := func(m *statev1.EndpointTable, at time.Duration) *roster.Table {
		t.Helper()
		tb, err := ts.hear(m, int64(at))
		if err != nil {
			t.Fatal(err)
		}
		return tb
	}
	old, fresh := wireTable(t, "c1", 100, "a", "b"), wireTable(t, "c2", 200, "a")
	hear(old, time.Second)
	if tb := hear(fresh, 2*time.Second); tb.Len() != 1 {
		t.Errorf("followed %d endpoints, want the newer table's 1", tb.Len())
	}
	if tb := hear(old, 3*time.Second); tb.Len() != 1 {
		t.Error("the older table came back when it was repeated")
	}
	if tb := hear(old, 9*time.Second); tb.Len() != 2 {
		t.Error("a table of a collector that is gone is still followed")
	}
}

// batch is an outcome batch with picks (id > 0) and releases (id < 0) on endpoint "a".
func batch(seq uint64, ids ...int) *outcomes.Batch {
	m := &statev1.OutcomeBatch{Stamp: &statev1.Stamp{PublisherId: "r", Sequence: seq}}
	for _, id := range ids {
		if id > 0 {
			m.Events = append(m.Events, &statev1.OutcomeEvent{PickId: uint64(id), Event: &statev1.OutcomeEvent_Picked{Picked: &statev1.Picked{EndpointId: "a"}}})
		} else {
			m.Events = append(m.Events, &statev1.OutcomeEvent{PickId: uint64(-id), Event: &statev1.OutcomeEvent_Finished{Finished: &statev1.Finished{}}})
		}
	}
	data, err := m.MarshalVT()
	if err != nil {
		panic(err)
	}
	b := &outcomes.Batch{}
	if err := b.UnmarshalVT(data); err != nil {
		panic(err)
	}
	return b
}

func open(seq uint64, ids ...uint64) *statev1.GetPicksResponse {
	m := &statev1.GetPicksResponse{Stamp: &statev1.Stamp{PublisherId: "r", Sequence: seq}}
	for _, id := range ids {
		m.Picks = append(m.Picks, &statev1.OpenPick{PickId: id, Picked: &statev1.Picked{EndpointId: "a"}})
	}
	return m
}

func newRouters(t *testing.T) (*routers, func() int64) {
	t.Helper()
	r := roster.New(roster.Config{})
	tb, err := TableFromProto(wireTable(t, "c", 1, "a"))
	if err != nil {
		t.Fatal(err)
	}
	r.SetTable(tb)
	return &routers{roster: r, feeds: make(map[string]*feed)}, func() int64 { return r.Snapshot().InFlight(0) }
}

func TestBatchesInOrderNeedNoQuestion(t *testing.T) {
	rs, inFlight := newRouters(t)
	for _, m := range []*outcomes.Batch{batch(1, 1, 2), batch(2, -1), batch(2, -2), batch(3)} {
		if rs.hear(m, 0) {
			t.Errorf("batch %d led to a question", m.GetStamp().GetSequence())
		}
	}
	if inFlight() != 1 {
		t.Errorf("%d in flight, want 1: a repeated batch must not count", inFlight())
	}
}

func TestAGapIsAskedAbout(t *testing.T) {
	rs, inFlight := newRouters(t)
	rs.hear(batch(1, 1, 2), 0)
	if !rs.hear(batch(3, 4), 0) {
		t.Fatal("a gap led to no question")
	}
	if rs.hear(batch(4, -4, 5), 0) {
		t.Error("one gap led to two questions")
	}
	// Batch 2 had picked 3 and released 1; the answer is from after batch 3.
	rs.answered("r", open(3, 2, 3, 4), 0)
	if inFlight() != 3 {
		t.Errorf("%d in flight, want 2, 3 and 5", inFlight())
	}
	if got := rs.roster.AppliedSequence("r"); got != 4 {
		t.Errorf("applied %d, want 4", got)
	}
	if rs.hear(batch(5, -2, -3, -5), 0) || inFlight() != 0 {
		t.Errorf("%d in flight at the end", inFlight())
	}
}

func TestNoAnswerKeepsWhatIsKnown(t *testing.T) {
	rs, inFlight := newRouters(t)
	rs.hear(batch(1, 1), 0)
	rs.hear(batch(3, 2), 0)
	rs.answered("r", nil, 0)
	if inFlight() != 2 {
		t.Errorf("%d in flight, want both picks that were heard of", inFlight())
	}
}

// A pick whose end was lost would count for as long as its router lives.
func TestWithoutAnAnswerItIsAskedAgain(t *testing.T) {
	rs, inFlight := newRouters(t)
	rs.hear(batch(1, 1), 0)
	rs.hear(batch(3), 0) // 2 had the release
	rs.answered("r", nil, 0)
	if ids := rs.doubtful(int64(askAgainAfter) - 1); len(ids) != 0 {
		t.Errorf("asked again at once: %v", ids)
	}
	if ids := rs.doubtful(int64(askAgainAfter)); !slices.Equal(ids, []string{"r"}) {
		t.Fatalf("to be asked again: %v, want r", ids)
	}
	// What comes while it is asked waits, or the answer would be older than it.
	if rs.hear(batch(4, 2), 0) || rs.answered("r", open(3), 0) || inFlight() != 1 {
		t.Errorf("%d in flight, want pick 2 alone", inFlight())
	}
	if ids := rs.doubtful(int64(time.Hour)); len(ids) != 0 {
		t.Errorf("asked again although all is known: %v", ids)
	}
}

// An answer to an earlier question, such as one to all, may come while a router is
// being asked about a gap that is newer.
func TestAnAnswerFromBeforeTheGapDoesNotCloseIt(t *testing.T) {
	rs, inFlight := newRouters(t)
	rs.hear(batch(1, 1, 2), 0)
	rs.hear(batch(3, 3), 0) // 2 had the release of pick 1
	if !rs.answered("r", open(1, 1, 2), 0) {
		t.Error("an answer from before the gap was taken for one about it")
	}
	rs.hear(batch(4, 4), 0)
	if rs.answered("r", open(3, 2, 3), 0) || inFlight() != 3 {
		t.Errorf("%d in flight, want 2, 3 and 4", inFlight())
	}
	if got := rs.roster.AppliedSequence("r"); got != 4 {
		t.Errorf("applied %d, want 4", got)
	}
}

func TestAnAnswerOlderThanWhatIsKnownIsIgnored(t *testing.T) {
	rs, inFlight := newRouters(t)
	rs.hear(batch(1, 1), 0)
	rs.hear(batch(2, -1, 2), 0)
	rs.answered("r", open(1, 1), 0)
	if inFlight() != 1 {
		t.Errorf("%d in flight, want only pick 2", inFlight())
	}
}

func TestASilentRouterIsDropped(t *testing.T) {
	rs, inFlight := newRouters(t)
	rs.hear(batch(1, 1), int64(time.Second))
	if gone := rs.silent(int64(11 * time.Second)); len(gone) != 0 {
		t.Error("dropped at the limit")
	}
	if gone := rs.silent(int64(12 * time.Second)); !slices.Equal(gone, []string{"r"}) || inFlight() != 0 {
		t.Errorf("gone %v, %d in flight", gone, inFlight())
	}
}

func TestMessagesThatCannotBeUsedDoNotFillTheLog(t *testing.T) {
	var now atomic.Int64
	var out bytes.Buffer
	tel, r := telemetry.Discard(), roster.New(roster.Config{Clock: now.Load})
	tel.Log = slog.New(slog.NewTextHandler(&out, nil))
	b, err := bus.New(bus.DefaultConfig(), "test", bus.NewPublisherID("t"), tel)
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(r, b, tel)
	if err != nil {
		t.Fatal(err)
	}
	m := wireTable(t, "c", 1, "a")
	f.onTable(m, bus.Meta{})
	for range 100 {
		f.onLoads(&statev1.EndpointLoads{TableDigest: m.GetDigest(), AgeMs: []int32{1, 2, 3}}, bus.Meta{})
		f.onTable(&statev1.EndpointTable{Digest: 1, Endpoints: m.GetEndpoints()}, bus.Meta{})
	}
	if n := strings.Count(out.String(), "\n"); n != 1 || !strings.Contains(out.String(), "level=WARN") {
		t.Errorf("%d lines about 200 messages, want one warning", n)
	}
	if got := tel.Value("pointsman_roster_dropped_messages_total"); got != 200 {
		t.Errorf("%v were counted", got)
	}
	now.Add(int64(dropPause))
	f.onLoads(&statev1.EndpointLoads{TableDigest: 9}, bus.Meta{})
	f.onLoads(&statev1.EndpointLoads{TableDigest: m.GetDigest()}, bus.Meta{})
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("%d lines; a fault that lasts is to be told again", n)
	}
}

func TestLoadsSurviveTheWire(t *testing.T) {
	l := LoadsFromProto(&statev1.EndpointLoads{TableDigest: 7, AgeMs: []int32{1}, Adapters: []*statev1.EndpointAdapters{{Position: 3, Running: []string{"z", "a"}, MaxCount: 2}}})
	if l.TableDigest != 7 || !slices.Equal(l.Adapters[3].Running, []string{"a", "z"}) || l.Adapters[3].Max != 2 {
		t.Errorf("%+v", l)
	}
}

// process starts a bus with a follower.
func process(t *testing.T, url string, parts func(b *bus.Bus)) (*roster.Roster, *telemetry.Telemetry) {
	t.Helper()
	r := roster.New(roster.Config{})
	return r, processOn(t, url, r, parts, nil)
}

// processOn is process with a roster of the test's. further is called with the follower
// before it runs; parts and further may be nil.
func processOn(t *testing.T, url string, r *roster.Roster, parts func(b *bus.Bus), further func(f *Follower)) *telemetry.Telemetry {
	t.Helper()
	tel := telemetry.Discard()
	cfg := bus.DefaultConfig()
	cfg.URL = url
	b, err := bus.New(cfg, "test", bus.NewPublisherID("t"), tel)
	if err != nil {
		t.Fatal(err)
	}
	if parts != nil {
		parts(b)
	}
	f, err := New(r, b, tel)
	if err != nil {
		t.Fatal(err)
	}
	if further != nil {
		further(f)
	}
	g := run.NewGroup(tel.Log)
	g.Add("bus", b.Part())
	g.Add("follower", f.Part())
	up := make(chan struct{})
	g.OnReady = func() { close(up) }
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	<-up
	return tel
}

// A router that starts late knows the policy before it has anybody to send to, and
// hears of every change of it, once.
func TestALateJoinerAsksForThePolicy(t *testing.T) {
	url := kittest.NATS(t)
	table, first := wireTable(t, "c", 1, "a"), wirePolicy(t, "c", 1, "first")
	var say *bus.Publisher[*statev1.PoolPolicy]
	process(t, url, func(b *bus.Bus) {
		bus.Respond(b, bus.GetState, func() *statev1.GetStateRequest { return &statev1.GetStateRequest{} }, func(*statev1.GetStateRequest) *statev1.GetStateResponse {
			return &statev1.GetStateResponse{Table: table, Policy: first}
		})
		say = bus.NewPublisher(b, bus.Policy, func(m *statev1.PoolPolicy, s *statev1.Stamp) { m.Stamp = s; m.Stamp.PublisherId = "c" })
	})
	var mu sync.Mutex
	var used []string
	var known []int // endpoints when the policy came
	r := roster.New(roster.Config{})
	processOn(t, url, r, nil, func(f *Follower) {
		f.OnPolicy(func(m *statev1.PoolPolicy) {
			mu.Lock()
			defer mu.Unlock()
			used, known = append(used, m.GetObjectives()[0].GetName()), append(known, r.Snapshot().Len())
		})
	})
	got := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(used)
	}
	kittest.Eventually(t, "the first policy", func() bool { return slices.Equal(got(), []string{"first"}) })
	if known[0] != 0 {
		t.Errorf("there were %d endpoints before the policy", known[0])
	}
	for _, m := range []*statev1.PoolPolicy{wirePolicy(t, "c", 1, "first"), wirePolicy(t, "c", 2, "second"), wirePolicy(t, "c", 2, "second")} {
		if err := say.Publish(m); err != nil {
			t.Fatal(err)
		}
	}
	kittest.Eventually(t, "the second policy", func() bool { return slices.Equal(got(), []string{"first", "second"}) })
}

func TestALateJoinerAsksForTheTable(t *testing.T) {
	url := kittest.NATS(t)
	m := wireTable(t, "c", 1, "a", "b")
	process(t, url, func(b *bus.Bus) {
		bus.Respond(b, bus.GetState, func() *statev1.GetStateRequest { return &statev1.GetStateRequest{} }, func(*statev1.GetStateRequest) *statev1.GetStateResponse {
			return &statev1.GetStateResponse{Table: m, Loads: &statev1.EndpointLoads{TableDigest: m.GetDigest(), AgeMs: []int32{5, -1}, WaitingRequestCounts: []int32{9, -1}}}
		})
	})
	r, tel := process(t, url, nil)
	kittest.Eventually(t, "the table and its loads", func() bool { s := r.Snapshot(); return s.Len() == 2 && s.Waiting[0] == 9 })
	if ok, reasons := tel.Health.Ready(); !ok {
		t.Errorf("not ready with a table: %v", reasons)
	}
	if got := tel.Value("pointsman_roster_stale_endpoints"); got != 1 {
		t.Errorf("stale endpoints %v, want the one never scraped", got)
	}
}

func TestWithoutATableItIsNotReady(t *testing.T) {
	_, tel := process(t, kittest.NATS(t), nil)
	if ok, _ := tel.Health.Ready(); ok {
		t.Error("ready without a table")
	}
}
