package remote

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestStreamTeachesBeforeUse(t *testing.T) {
	s := newHandmade("acme")
	r := newRig(t, one("acme", s.serve(t, "")))
	sc := r.resolved("acme")
	for range 3 {
		out := r.ask(sc)
		r.wantVerdict(out[0], route.Scored)
		if diff := cmp.Diff([]float32{1, 1, 1, 1}, out[0].Values); diff != "" {
			t.Error(diff)
		}
	}
	r.roster.SetTable(newTable(t, 5))
	r.wantVerdict(r.ask(sc)[0], route.Scored)
	c := r.cycle()
	r.wantVerdict(r.askAs(t.Context(), c, []int32{1, 4}, sc)[0], route.Scored)

	var taught []int
	for _, m := range s.heard() {
		for _, tt := range m.Tables {
			taught = append(taught, len(tt.Endpoints))
			if tt.Endpoints[0].Labels != nil {
				t.Error("labels were sent unasked")
			}
		}
		if m.Loads != nil {
			t.Error("loads were sent unasked")
		}
	}
	if diff := cmp.Diff([]int{4, 5}, taught); diff != "" {
		t.Errorf("tables taught: %s", diff)
	}
	last := s.seen()[4].GetTable()
	if diff := cmp.Diff([]uint32{1, 4}, last.GetPositions()); diff != "" {
		t.Error(diff)
	}
	if p := s.seen()[0].GetTable().GetPositions(); p != nil {
		t.Errorf("the whole table was sent as positions %v", p)
	}
	for name, want := range map[string]float64{
		"pointsman_router_scorer_calls_total":             5,
		"pointsman_router_scorer_tables_taught_total":     2,
		"pointsman_router_scorer_table_retries_total":     0,
		"pointsman_router_scorer_call_seconds_count":      5,
		"pointsman_router_scorer_batch_calls_sum":         5,
		"pointsman_router_scorer_contract_breaches_total": 0,
		"pointsman_router_scorer_failovers_total":         0,
		"pointsman_router_scorer_breaker_state":           0,
		"pointsman_router_scorer_refusals_total":          0,
	} {
		if got := r.value(name, "scorer", "acme"); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := r.value("pointsman_router_scorer_calls_total", "scorer", "acme", "verdict", "scored"); got != 5 {
		t.Errorf("%v calls scored", got)
	}
	if got := r.value("pointsman_router_scorer_replicas", "scorer", "acme", "state", "ready"); got != 1 {
		t.Errorf("%v replicas ready", got)
	}
}

// A peer keeps eight tables; the ninth pushes out the first, which is then taught anew.
func TestStreamRemembersEightTables(t *testing.T) {
	s := newHandmade("acme")
	r := newRig(t, one("acme", s.serve(t, "")))
	sc := r.resolved("acme")
	for n := 1; n <= 9; n++ {
		r.roster.SetTable(newTable(t, n))
		r.wantVerdict(r.ask(sc)[0], route.Scored)
	}
	for _, n := range []int{9, 2, 1, 1} {
		r.roster.SetTable(newTable(t, n))
		r.wantVerdict(r.ask(sc)[0], route.Scored)
	}
	if got := r.value("pointsman_router_scorer_tables_taught_total"); got != 10 {
		t.Errorf("%v tables taught, want nine and the first once more", got)
	}
}

// A stranger's scorer may lose a table against the contract: it is taught again.
func TestStreamTableNotHeld(t *testing.T) {
	s := newHandmade("acme")
	var once sync.Once
	s.stream = func(s *handmade, st scorerv1.ScorerService_ScoreStreamServer) error {
		return answer(s, forgetful{st, &once})
	}
	r := newRig(t, one("acme", s.serve(t, "")))
	sc := r.resolved("acme")
	r.wantVerdict(r.ask(sc)[0], route.Scored)
	if got := r.value("pointsman_router_scorer_table_retries_total", "scorer", "acme"); got != 1 {
		t.Errorf("%v retries, want 1", got)
	}
	if got := r.value("pointsman_router_scorer_tables_taught_total"); got != 2 {
		t.Errorf("%v tables taught, want 2", got)
	}
}

// forgetful loses the first table that it is taught.
type forgetful struct {
	scorerv1.ScorerService_ScoreStreamServer
	once *sync.Once
}

func (f forgetful) Recv() (*scorerv1.ScoreStreamRequest, error) {
	m, err := f.ScorerService_ScoreStreamServer.Recv()
	if err == nil && len(m.Tables) > 0 {
		f.once.Do(func() { m.Tables = nil })
	}
	return m, err
}

// What gathers while the peer is busy goes out together.
func TestStreamBatches(t *testing.T) {
	s := newHandmade("acme")
	r := newRig(t, one("acme", s.serve(t, "")))
	sc := r.resolved("acme")
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for range 50 {
				r.wantVerdict(r.ask(sc)[0], route.Scored)
			}
		})
	}
	callers.Wait()
	calls, messages := r.value("pointsman_router_scorer_batch_calls_sum"), r.value("pointsman_router_scorer_batch_calls_count")
	if calls != 64*50 {
		t.Errorf("%v calls in batches, want %d", calls, 64*50)
	}
	if calls/messages <= 1 {
		t.Errorf("%v calls in %v messages: nothing was batched", calls, messages)
	}
	t.Logf("%.1f calls a message", calls/messages)
}

func TestStreamCancelsWhatNobodyWaitsFor(t *testing.T) {
	s := newHandmade("acme")
	release := make(chan struct{})
	s.stream = func(s *handmade, st scorerv1.ScorerService_ScoreStreamServer) error {
		for {
			m, err := st.Recv()
			if err != nil {
				return err
			}
			s.note(m)
		}
	}
	defer close(release)
	r := newRig(t, one("acme", s.serve(t, "")))
	sc := r.resolved("acme")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		kittest.Eventually(t, "the call to arrive", func() bool { return len(s.seen()) == 1 })
		cancel()
	}()
	c := r.cycle()
	out := r.askAs(ctx, c, allOf(c), sc)
	r.wantVerdict(out[0], route.TimedOut)
	var id uint64
	kittest.Eventually(t, "the cancellation to arrive", func() bool {
		for _, m := range s.heard() {
			for _, call := range m.Calls {
				id = call.CallId
			}
			if len(m.CancelledCallIds) == 1 && m.CancelledCallIds[0] == id && id != 0 {
				return true
			}
		}
		return false
	})
	if got := r.value("pointsman_router_scorer_calls_total", "verdict", "cancelled"); got != 1 {
		t.Errorf("%v cancelled", got)
	}
	if got := r.value("pointsman_router_scorer_calls_total", "verdict", "timeout"); got != 0 {
		t.Errorf("%v blamed on the scorer", got)
	}
}

// A scorer that asks for loads and does not follow the broadcast is sent them when
// they change, and labels with the table.
func TestStreamLoadsAndLabels(t *testing.T) {
	s := newHandmade("acme").needing(&scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{
		scorerv1.Input_INPUT_LOAD, scorerv1.Input_INPUT_LABELS, scorerv1.Input_INPUT_ADAPTERS,
	}})
	r := newRig(t, one("acme", s.serve(t, "")), func(c *rigConfig) {
		c.labels = []roster.Label{{Name: "zone", Value: "b"}}
		c.size = 2
	})
	sc := r.resolved("acme")
	digest := r.roster.Snapshot().Table.Digest
	load := func() {
		err := r.roster.ApplyLoads(roster.Loads{
			TableDigest: digest, AgeMS: []int32{0, -1}, Waiting: []int32{3, -1}, Running: []int32{4, -1}, KV: []float32{0.5, -1},
			Adapters: map[uint32]*roster.Adapters{0: {Running: []string{"a"}, Waiting: []string{"b"}, Max: 8}},
		}, r.roster.Now())
		if err != nil {
			t.Fatal(err)
		}
	}
	load()
	ask := func() *scorerv1.TaughtLoads {
		t.Helper()
		before := len(s.heard())
		r.wantVerdict(r.ask(sc)[0], route.Scored)
		for _, m := range s.heard()[before:] {
			if len(m.Loads) > 0 {
				return m.Loads[0]
			}
		}
		return nil
	}
	got := ask()
	want := &scorerv1.TaughtLoads{
		TableDigest: digest, WaitingRequestCounts: []int32{3, -1}, RunningRequestCounts: []int32{4, -1}, KvCacheUsageRatios: []float32{0.5, -1},
		CreditedRequestCounts: []uint32{0, 0}, CreditedTokenCounts: []uint32{0, 0},
		Adapters: []*scorerv1.PositionedAdapters{{Position: 0, Adapters: &scorerv1.Adapters{Running: []string{"a"}, Waiting: []string{"b"}, MaxCount: 8}}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&scorerv1.TaughtLoads{}, "age_ms")); diff != "" {
		t.Error(diff)
	}
	if got.AgeMs[0] < 0 || got.AgeMs[1] >= 0 {
		t.Errorf("ages %v", got.AgeMs)
	}
	if again := ask(); again != nil {
		t.Errorf("loads were sent again unchanged: %v", again)
	}
	r.roster.Pick("router-1", 1, "e1001", 30, r.roster.Now())
	if got := ask(); got == nil || !cmp.Equal(got.CreditedRequestCounts, []uint32{0, 1}) || !cmp.Equal(got.CreditedTokenCounts, []uint32{0, 30}) {
		t.Errorf("after a pick: %v", got)
	}
	for _, m := range s.heard() {
		for _, tt := range m.Tables {
			if l := tt.Endpoints[1].Labels; len(l) != 1 || l[0].Name != "zone" || l[0].Value != "b" {
				t.Errorf("labels %v", l)
			}
		}
	}
	// The same members with other labels have the same digest.
	r.roster.SetTable(newTable(t, 2, roster.Label{Name: "zone", Value: "c"}))
	ask()
	heard := s.heard()
	var zones []string
	for _, m := range heard {
		for _, tt := range m.Tables {
			zones = append(zones, tt.Endpoints[0].Labels[0].Value)
		}
	}
	if diff := cmp.Diff([]string{"b", "c"}, zones); diff != "" {
		t.Error(diff)
	}
}

type pendingPicks struct {
	mu    sync.Mutex
	after []uint64
}

func (p *pendingPicks) Pending(after uint64, table *roster.Table) *scorerv1.PendingPicks {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after = append(p.after, after)
	return &scorerv1.PendingPicks{RouterId: "router-1", Sequences: []uint64{after + 1}, Positions: []uint32{uint32(table.Len() - 1)}, UncachedTokenCounts: []uint32{5}}
}

func TestPendingPicks(t *testing.T) {
	for name, transport := range map[string]Transport{"stream": Stream, "unary": Unary} {
		t.Run(name, func(t *testing.T) {
			s := newHandmade("acme").only(scorerv1.Capability_CAPABILITY_STREAM, scorerv1.Capability_CAPABILITY_TABLE_REFERENCE, scorerv1.Capability_CAPABILITY_FOLLOWS_BROADCAST)
			s.score = func(context.Context, *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
				return &scorerv1.ScoreResponse{Scores: []float32{1, 1, 1, 1}, AppliedOutcomeSequence: 7}, nil
			}
			p := &pendingPicks{}
			r := newRig(t, []ScorerConfig{{Name: "acme", Target: s.serve(t, ""), Transport: transport}}, func(c *rigConfig) { c.pending = p })
			sc := r.resolved("acme")
			r.wantVerdict(r.ask(sc)[0], route.Scored)
			r.wantVerdict(r.ask(sc)[0], route.Scored)
			if diff := cmp.Diff([]uint64{0, 7}, p.after); diff != "" {
				t.Errorf("asked for the picks after %s", diff)
			}
			want := &scorerv1.PendingPicks{RouterId: "router-1", Sequences: []uint64{8}, Positions: []uint32{3}, UncachedTokenCounts: []uint32{5}}
			if diff := cmp.Diff(want, s.seen()[1].GetPending(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNoPendingPicksForStrangers(t *testing.T) {
	s := newHandmade("acme")
	p := &pendingPicks{}
	r := newRig(t, one("acme", s.serve(t, "")), func(c *rigConfig) { c.pending = p })
	r.wantVerdict(r.ask(r.resolved("acme"))[0], route.Scored)
	if got := s.seen()[0].GetPending(); got != nil || p.after != nil {
		t.Errorf("a scorer that follows nothing was sent %v", got)
	}
}

func TestTimeoutIsSent(t *testing.T) {
	s := newHandmade("acme")
	r := newRig(t, []ScorerConfig{{Name: "acme", Target: s.serve(t, ""), Timeout: 5e9}}, withTimeout(time.Hour))
	r.wantVerdict(r.ask(r.resolved("acme"))[0], route.Scored)
	for _, m := range s.heard() {
		for _, c := range m.Calls {
			if c.TimeoutUs == 0 || c.TimeoutUs > 5e6 {
				t.Errorf("timeout %d µs, want at most the scorer's own 5 s", c.TimeoutUs)
			}
		}
	}
}
