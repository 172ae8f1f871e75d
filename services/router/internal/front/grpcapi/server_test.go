package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/services/router/internal/decisions"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// reservation counts how it ends.
type reservation struct {
	finished, completed atomic.Int32
	moved               atomic.Pointer[roster.Endpoint]
}

func (*reservation) PickID() string            { return "router-x/1" }
func (*reservation) FirstToken()               {}
func (r *reservation) Move(e *roster.Endpoint) { r.moved.Store(e) }
func (r *reservation) Finish(completed bool, _ route.Usage) {
	r.finished.Add(1)
	if completed {
		r.completed.Add(1)
	}
}

// decider answers with what it is told to.
type decider struct {
	roster      *roster.Roster
	err         error
	reservation *reservation
	asked       *route.Request
	sessions    []string           // headers that tokens are wanted in
	fallbacks   []*roster.Endpoint // nil: endpoint a
}

func (d *decider) decide(req *route.Request, dry bool) *route.Decision {
	d.asked = req
	s := d.roster.Snapshot()
	out := &route.Decision{Request: req, Snapshot: s, Err: d.err, DryRun: dry, Elapsed: time.Millisecond}
	if d.err != nil {
		return out
	}
	out.Endpoint, out.Fallbacks = &s.Table.Endpoints[1], []*roster.Endpoint{&s.Table.Endpoints[0]}
	if d.fallbacks != nil {
		out.Fallbacks = d.fallbacks
	}
	out.Pool, out.SessionHeaders = "p", d.sessions
	out.Results = []*route.ProfileResult{{
		Profile:    &route.Profile{Name: "default", Picker: picker{}, Scorers: []route.Scorer{{Plugin: "prefix-cache-scorer", Weight: 3}, {Plugin: "kv-cache-scorer", Weight: 2}}},
		Candidates: []int32{0, 1}, Totals: []float64{1, 4}, InFlight: []int64{2, 0}, Ranked: []int32{1, 0}, DroppedBy: []string{"", "", "low-queue-filter"},
		Scores: []route.Scores{
			{Verdict: route.Scored, Values: []float32{0, 1}, Matched: []uint32{0, 7}, StateAge: -1, Texts: map[uint32]string{1: "7 of 7 blocks"}},
			{Verdict: route.Scored, Values: []float32{0.5, 0}, AbstainedOn: []uint32{1}, Neutral: 0.5, StateAge: time.Second},
		},
	}}
	if !dry {
		out.Reservation = d.reservation
	}
	return out
}

func (d *decider) Decide(_ context.Context, req *route.Request) *route.Decision {
	return d.decide(req, false)
}

func (d *decider) Explain(_ context.Context, req *route.Request) *route.Decision {
	return d.decide(req, true)
}

type picker struct{}

func (picker) Name() string { return "max-score-picker" }
func (picker) Max() int     { return 1 }
func (picker) Pick(*route.Cycle, []int32, []float64, []int64, int, []int32) ([]int32, string) {
	return nil, ""
}

type quarantine struct{}

func (quarantine) Reason(id roster.ID, _ int64) string {
	if id == "b" {
		return "connection refused"
	}
	return ""
}
func (quarantine) Suspects() []roster.ID { return nil }

// front is a server with what it stands on.
type front struct {
	routerv1.RouterServiceClient
	decider *decider
	server  *Server
	log     *decisions.Log
	tel     *telemetry.Telemetry
}

func newFront(t *testing.T) *front {
	t.Helper()
	r := roster.New(roster.Config{})
	tb, err := roster.NewTable([]roster.Endpoint{
		{ID: "a", Host: "10.0.0.1", Port: 8000, Models: []string{"m"}, Engine: "vllm", Labels: []roster.Label{{Name: "zone", Value: "z"}}},
		{ID: "b", Host: "fd00::2", Port: 8000}, {ID: "c", Host: "10.0.0.3", Port: 8000},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.SetTable(tb)
	if err := r.ApplyLoads(roster.Loads{TableDigest: tb.Digest, AgeMS: []int32{5, -1, -1}, Waiting: []int32{4, -1, -1}, KV: []float32{0.5, -1, -1}}, r.Now()); err != nil {
		t.Fatal(err)
	}
	f := &front{decider: &decider{roster: r, reservation: &reservation{}}, log: decisions.NewLog(), tel: telemetry.Discard()}
	f.server, err = New(Deps{
		RouterID: "router-x", Decider: f.decider, Roster: r, Quarantine: quarantine{}, Decisions: f.log, Telemetry: f.tel,
		StateAge: func() (time.Duration, bool) { return time.Second, true },
		Scorers:  func() []*routerv1.ScorerStatus { return []*routerv1.ScorerStatus{{Name: "scorer-kv"}} },
		ConfigStatus: func() *routerv1.GetConfigStatusResponse {
			return &routerv1.GetConfigStatusResponse{Source: "epp.yaml"}
		},
		CheckConfig: func(source string, text []byte) *routerv1.CheckConfigResponse {
			return &routerv1.CheckConfigResponse{Faults: []*routerv1.ConfigNotice{{Message: source + ": " + string(text)}}}
		},
		Describe: func(id, path string, h route.Headers, body []byte) (Described, error) {
			if string(body) == "bad" {
				return Described{}, errors.New("the body is not JSON")
			}
			d := Described{Request: &route.Request{ID: id + h.Get("x-suffix"), Path: path, Headers: h}, Done: func() {}}
			if string(body) == "junk" {
				d.NotUnderstood = "not JSON"
			}
			return d, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	f.server.Register(s)
	go func() { _ = s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	f.RouterServiceClient = routerv1.NewRouterServiceClient(conn)
	t.Cleanup(func() { conn.Close(); s.Stop(); f.server.Close() })
	return f
}

func reason(t *testing.T, err error) (codes.Code, string) {
	t.Helper()
	s, _ := status.FromError(err)
	for _, d := range s.Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok && i.GetDomain() == domain {
			return s.Code(), i.GetReason()
		}
	}
	return s.Code(), ""
}

var ctx = context.Background()

func TestPickReservesUntilRelease(t *testing.T) {
	f := newFront(t)
	p, err := f.Pick(ctx, &routerv1.PickRequest{Request: &routerv1.RequestDescription{RequestId: "r", Headers: []*routerv1.Header{{Name: "X-Suffix", Value: "!"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if p.GetEndpoint().GetAddress() != "[fd00::2]:8000" || len(p.GetFallbacks()) != 1 || p.GetRequestId() != "r!" || f.decider.reservation.finished.Load() != 0 {
		t.Errorf("pick %v", p)
	}
	release := &routerv1.ReleaseRequest{PickId: p.GetPickId(), Completed: true, ServedEndpointId: "a"}
	if _, err := f.Release(ctx, release); err != nil {
		t.Fatal(err)
	}
	if e := f.decider.reservation.moved.Load(); e == nil || e.ID != "a" || f.decider.reservation.completed.Load() != 1 {
		t.Errorf("served by another endpoint: moved to %v, completed %d", e, f.decider.reservation.completed.Load())
	}
	if code, why := reason(t, second(f.Release(ctx, release))); code != codes.NotFound || why != "UNKNOWN_PICK" {
		t.Errorf("second release: %v %s", code, why)
	}
	if n := f.decider.reservation.finished.Load(); n != 1 {
		t.Errorf("released %d times", n)
	}
}

// The caller is told which headers to set on the answer of the endpoint that was picked,
// however many stand by.
func TestPickReturnsTheSessionToken(t *testing.T) {
	for name, c := range map[string]struct {
		sessions []string
		want     []*routerv1.Header
	}{
		"no scorer goes by sessions": {nil, nil},
		"one does":                   {[]string{"x-session-token"}, []*routerv1.Header{{Name: "x-session-token", Value: route.SessionToken("p", "b")}}},
		"two do": {[]string{"x-session-token", "x-mine"}, []*routerv1.Header{
			{Name: "x-session-token", Value: route.SessionToken("p", "b")}, {Name: "x-mine", Value: route.SessionToken("p", "b")},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t)
			all := f.decider.roster.Snapshot().Table.Endpoints
			f.decider.sessions, f.decider.fallbacks = c.sessions, []*roster.Endpoint{&all[2], &all[0]}
			p, err := f.Pick(ctx, &routerv1.PickRequest{Request: &routerv1.RequestDescription{}})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, p.GetResponseHeaders(), protocmp.Transform()); d != "" || len(p.GetFallbacks()) != 2 || p.GetEndpoint().GetEndpointId() != "b" {
				t.Errorf("pick %v\n%s", p, d)
			}
		})
	}
}

// A body that was not understood is said to be so, besides the decision by load.
func TestExplainSaysThatABodyWasNotUnderstood(t *testing.T) {
	f := newFront(t)
	for body, want := range map[string]string{"junk": "not JSON", "{}": ""} {
		m, err := f.Explain(ctx, &routerv1.ExplainRequest{Request: &routerv1.RequestDescription{Body: []byte(body)}})
		if err != nil || m.GetBodyNotUnderstood() != want || m.GetDecision().GetEndpoint() == nil {
			t.Errorf("%s: %v, error %v", body, m, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestALeaseEndsByItself(t *testing.T) {
	f := newFront(t)
	if _, err := f.Pick(ctx, &routerv1.PickRequest{Request: &routerv1.RequestDescription{}, Lease: durationpb.New(10 * time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the lease to end", func() bool { return f.decider.reservation.finished.Load() == 1 })
	kittest.Eventually(t, "it to be counted", func() bool { return f.tel.Value("pointsman_router_leases_expired_total") == 1 })
}

func TestCloseEndsWhatIsHeld(t *testing.T) {
	f := newFront(t)
	if _, err := f.Pick(ctx, &routerv1.PickRequest{Request: &routerv1.RequestDescription{}}); err != nil {
		t.Fatal(err)
	}
	f.server.Close()
	if n := f.decider.reservation.finished.Load(); n != 1 {
		t.Errorf("released %d times", n)
	}
}

func TestErrors(t *testing.T) {
	ask := &routerv1.PickRequest{Request: &routerv1.RequestDescription{}}
	for name, tc := range map[string]struct {
		in   *routerv1.PickRequest
		err  error
		code codes.Code
		why  string
	}{
		"no request":      {&routerv1.PickRequest{}, nil, codes.InvalidArgument, "INVALID_REQUEST"},
		"bad body":        {&routerv1.PickRequest{Request: &routerv1.RequestDescription{Body: []byte("bad")}}, nil, codes.InvalidArgument, "INVALID_REQUEST"},
		"long id":         {&routerv1.PickRequest{Request: &routerv1.RequestDescription{RequestId: string(make([]byte, 129))}}, nil, codes.InvalidArgument, "INVALID_REQUEST"},
		"lease too long":  {&routerv1.PickRequest{Request: &routerv1.RequestDescription{}, Lease: durationpb.New(2 * time.Hour)}, nil, codes.InvalidArgument, "INVALID_REQUEST"},
		"lease below 0":   {&routerv1.PickRequest{Request: &routerv1.RequestDescription{}, Lease: durationpb.New(-1)}, nil, codes.InvalidArgument, "INVALID_REQUEST"},
		"nobody":          {ask, fmt.Errorf("%w: empty", route.ErrNoEndpoint), codes.Unavailable, "NO_ENDPOINT"},
		"shed":            {ask, fmt.Errorf("%w: full", route.ErrShed), codes.ResourceExhausted, "SHED"},
		"scorer":          {ask, fmt.Errorf("%w: kv", route.ErrScorerFailed), codes.Unavailable, "SCORER_FAILED"},
		"caller gone":     {ask, fmt.Errorf("score: %w", context.Canceled), codes.Canceled, ""},
		"caller's budget": {ask, fmt.Errorf("score: %w", context.DeadlineExceeded), codes.DeadlineExceeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t)
			f.decider.err = tc.err
			if code, why := reason(t, second(f.Pick(ctx, tc.in))); code != tc.code || why != tc.why {
				t.Errorf("%v %s, want %v %s", code, why, tc.code, tc.why)
			}
		})
	}
}

func TestExplainShowsEveryCandidate(t *testing.T) {
	f := newFront(t)
	m, err := f.Explain(ctx, &routerv1.ExplainRequest{Request: &routerv1.RequestDescription{Subset: []string{"10.0.0.1"}, RestrictToSubset: true}})
	if err != nil {
		t.Fatal(err)
	}
	if s := f.decider.asked.Subset; s == nil || len(s.Addresses) != 1 {
		t.Errorf("subset %v", s)
	}
	d := m.GetDecision()
	cs := d.GetProfiles()[0].GetCandidates()
	if !d.GetDryRun() || d.GetRouterId() != "router-x" || len(cs) != 3 || d.GetProfiles()[0].GetTotal() != 4 {
		t.Fatalf("decision %v", d)
	}
	b := cs[1]
	if b.GetTotal() != 4 || b.GetScores()[0].GetText() != "7 of 7 blocks" || b.GetScores()[0].GetMatchedBlockCount() != 7 || b.GetScores()[0].GetWeighted() != 3 {
		t.Errorf("candidate b %v", b)
	}
	if s := b.GetScores()[1]; !s.GetAbstained() || s.GetRaw() != 0.5 || s.GetWeighted() != 1 {
		t.Errorf("abstained score %v", s)
	}
	if b.WaitingRequestCount != nil || b.GetLoadAge() != nil || cs[0].GetWaitingRequestCount() != 4 || cs[0].GetKvCacheUsageRatio() != 0.5 {
		t.Errorf("loads: unknown must be absent: %v, %v", b, cs[0])
	}
	if cs[2].GetDroppedBy() != "low-queue-filter" || len(cs[2].GetScores()) != 0 {
		t.Errorf("dropped candidate %v", cs[2])
	}
	if f.decider.reservation.finished.Load() != 0 {
		t.Error("a dry run touched a reservation")
	}
}

func TestLists(t *testing.T) {
	f := newFront(t)
	e, err := f.ListEndpoints(ctx, &routerv1.ListEndpointsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.GetEndpoints()) != 3 || e.GetTableDigest() == "" || e.GetStateAge().AsDuration() != time.Second || e.GetEndpoints()[1].GetQuarantineReason() != "connection refused" || e.GetEndpoints()[0].GetLabels()[0].GetName() != "zone" {
		t.Errorf("endpoints %v", e)
	}
	if s, err := f.ListScorers(ctx, &routerv1.ListScorersRequest{}); err != nil || len(s.GetScorers()) != 1 {
		t.Errorf("scorers %v, %v", s, err)
	}
}

func TestWatchDecisions(t *testing.T) {
	f := newFront(t)
	f.log.Decided(f.decider.decide(&route.Request{ID: "past", Headers: route.NoHeaders{}}, false))
	w, err := f.WatchDecisions(ctx, &routerv1.WatchDecisionsRequest{PastCount: 5, IncludeCandidates: true})
	if err != nil {
		t.Fatal(err)
	}
	m, err := w.Recv()
	if err != nil || m.GetDecision().GetRequestId() != "past" || m.GetDecision().GetProfiles()[0].GetCandidates() != nil {
		t.Fatalf("past decision %v, %v", m, err)
	}
	f.log.Decided(f.decider.decide(&route.Request{ID: "new", Headers: route.NoHeaders{}}, false))
	if m, err = w.Recv(); err != nil || m.GetDecision().GetRequestId() != "new" || len(m.GetDecision().GetProfiles()[0].GetCandidates()) != 3 {
		t.Fatalf("new decision %v, %v", m, err)
	}
	past, err := f.WatchDecisions(ctx, &routerv1.WatchDecisionsRequest{PastCount: 1, PastOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := past.Recv(); err != nil || m.GetDecision().GetRequestId() != "new" {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := past.Recv(); err == nil {
		t.Error("past only, and yet it went on")
	}
	// Who waits for the headers misses nothing that comes after them.
	live, err := f.WatchDecisions(ctx, &routerv1.WatchDecisionsRequest{})
	if err == nil {
		_, err = live.Header()
	}
	if err != nil {
		t.Fatal(err)
	}
	f.log.Decided(f.decider.decide(&route.Request{ID: "newer", Headers: route.NoHeaders{}}, false))
	if m, err := live.Recv(); err != nil || m.GetDecision().GetRequestId() != "newer" {
		t.Errorf("%v, %v", m, err)
	}
	if m, err = w.Recv(); err != nil || m.GetDecision().GetRequestId() != "newer" {
		t.Errorf("%v, %v", m, err)
	}
	f.server.EndWatches()
	if _, err := w.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("a watch of a router that stops ended with %v", err)
	}
}
