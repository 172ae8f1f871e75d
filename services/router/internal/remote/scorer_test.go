package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/fanout"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handmade is a scorer service made by hand, so that it can break every rule.
type handmade struct {
	scorerv1.UnimplementedScorerServiceServer
	info     *scorerv1.GetScorerInfoResponse
	validate func(*scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error)
	score    func(context.Context, *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error)
	// stream answers batches; nil answers them with score, in order.
	stream func(*handmade, scorerv1.ScorerService_ScoreStreamServer) error

	calls     atomic.Int64
	validated atomic.Int64
	health    *health.Server
	server    *grpc.Server

	mu       sync.Mutex
	requests []*scorerv1.ScoreRequest
	messages []*scorerv1.ScoreStreamRequest
	traces   []string
	outcomes []*scorerv1.ReportOutcomesRequest
}

func newHandmade(types ...string) *handmade {
	s := &handmade{info: &scorerv1.GetScorerInfoResponse{Name: "test-scorer", Version: "1"}, score: ones}
	s.info.Capabilities = []scorerv1.Capability{scorerv1.Capability_CAPABILITY_STREAM, scorerv1.Capability_CAPABILITY_TABLE_REFERENCE}
	for _, t := range types {
		s.info.Types = append(s.info.Types, &scorerv1.ScorerType{Name: t})
	}
	s.validate = func(*scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error) {
		return &scorerv1.ValidateParametersResponse{Needs: &scorerv1.InputNeeds{}}, nil
	}
	return s
}

// only sets the capabilities.
func (s *handmade) only(c ...scorerv1.Capability) *handmade { s.info.Capabilities = c; return s }

func (s *handmade) needing(n *scorerv1.InputNeeds) *handmade {
	s.validate = func(*scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error) {
		return &scorerv1.ValidateParametersResponse{Needs: n}, nil
	}
	return s
}

func (s *handmade) GetScorerInfo(context.Context, *scorerv1.GetScorerInfoRequest) (*scorerv1.GetScorerInfoResponse, error) {
	return s.info, nil
}

func (s *handmade) ValidateParameters(_ context.Context, m *scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error) {
	s.validated.Add(1)
	return s.validate(m)
}

func (s *handmade) Score(ctx context.Context, m *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
	s.calls.Add(1)
	md, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	s.requests = append(s.requests, m)
	s.traces = append(s.traces, md.Get("traceparent")...)
	s.mu.Unlock()
	return s.score(ctx, m)
}

func (s *handmade) ReportOutcomes(_ context.Context, m *scorerv1.ReportOutcomesRequest) (*scorerv1.ReportOutcomesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes = append(s.outcomes, m)
	return &scorerv1.ReportOutcomesResponse{}, nil
}

func (s *handmade) ScoreStream(st scorerv1.ScorerService_ScoreStreamServer) error {
	if s.stream != nil {
		return s.stream(s, st)
	}
	return answer(s, st)
}

// answer answers a stream batch by batch as a good scorer does.
func answer(s *handmade, st scorerv1.ScorerService_ScoreStreamServer) error {
	held := map[uint64]int{}
	for first := true; ; first = false {
		m, err := st.Recv()
		if err != nil {
			return err
		}
		if first && m.GetRouterId() == "" {
			return status.Error(codes.InvalidArgument, "no router id")
		}
		s.note(m)
		for _, t := range m.Tables {
			held[t.TableDigest] = len(t.Endpoints)
		}
		out := &scorerv1.ScoreStreamResponse{}
		for _, c := range m.Calls {
			a := &scorerv1.StreamAnswer{CallId: c.CallId}
			out.Answers = append(out.Answers, a)
			n, known := held[c.Request.GetTable().GetTableDigest()]
			if !known {
				a.Result = &scorerv1.StreamAnswer_Error{Error: &scorerv1.Status{Code: int32(codes.FailedPrecondition), Reason: tableNotHeld}}
				continue
			}
			if p := c.Request.GetTable().GetPositions(); len(p) > 0 {
				n = len(p)
			}
			s.calls.Add(1)
			ctx, cancel := context.WithTimeout(st.Context(), time.Duration(c.TimeoutUs)*time.Microsecond)
			resp, err := s.score(context.WithValue(ctx, sizeKey{}, n), c.Request)
			cancel()
			if err != nil {
				a.Result = &scorerv1.StreamAnswer_Error{Error: &scorerv1.Status{Code: int32(status.Code(err)), Message: status.Convert(err).Message()}}
			} else {
				a.Result = &scorerv1.StreamAnswer_Response{Response: resp}
			}
		}
		if len(out.Answers) > 0 {
			if err := st.Send(out); err != nil {
				return err
			}
		}
	}
}

type sizeKey struct{} // of the number of candidates, on streams

func (s *handmade) note(m *scorerv1.ScoreStreamRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, proto.CloneOf(m))
	for _, c := range m.Calls {
		s.requests = append(s.requests, proto.CloneOf(c.Request))
		if c.Traceparent != "" {
			s.traces = append(s.traces, c.Traceparent)
		}
	}
}

func (s *handmade) seen() []*scorerv1.ScoreRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*scorerv1.ScoreRequest(nil), s.requests...)
}

func (s *handmade) heard() []*scorerv1.ScoreStreamRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*scorerv1.ScoreStreamRequest(nil), s.messages...)
}

func candidates(ctx context.Context, m *scorerv1.ScoreRequest) int {
	if n, ok := ctx.Value(sizeKey{}).(int); ok {
		return n
	}
	if l := m.GetListed(); l != nil {
		return len(l.Candidates)
	}
	if p := m.GetTable().GetPositions(); len(p) > 0 {
		return len(p)
	}
	return 4 // the rig's table
}

func ones(ctx context.Context, m *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
	s := make([]float32, candidates(ctx, m))
	for i := range s {
		s[i] = 1
	}
	return &scorerv1.ScoreResponse{Scores: s}, nil
}

// serve serves the scorer on a socket or, if address is "", on one of its own, until
// the test ends or stop is called.
func (s *handmade) serve(t testing.TB, address string) string {
	t.Helper()
	var l net.Listener
	var err error
	if address == "" {
		address = "unix://" + filepath.Join(t.TempDir(), "s")
	}
	if path, ok := cutUnix(address); ok {
		l, err = net.Listen("unix", path)
	} else {
		l, err = net.Listen("tcp", address)
		if err == nil {
			address = l.Addr().String()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	s.server = grpc.NewServer()
	scorerv1.RegisterScorerServiceServer(s.server, s)
	if s.health != nil {
		grpc_health_v1.RegisterHealthServer(s.server, s.health)
	}
	done := make(chan struct{})
	server := s.server
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return address
}

func cutUnix(address string) (string, bool) {
	if len(address) > 7 && address[:7] == "unix://" {
		return address[7:], true
	}
	return "", false
}

func (s *handmade) stop() { s.server.Stop() }

// rig is a Set and a Fan over it.
type rig struct {
	t      testing.TB
	set    *Set
	fan    *fanout.Fan
	tel    *telemetry.Telemetry
	roster *roster.Roster
	stop   func()
}

type rigOption func(*rigConfig)

type rigConfig struct {
	cfg     Config
	timeout time.Duration
	lookup  LookupFunc
	pending Pending
	idle    bool // do not run the part
	breaker breakerConfig
	labels  []roster.Label
	size    int

	embedded map[string]Embedded
}

func withTimeout(d time.Duration) rigOption { return func(c *rigConfig) { c.timeout = d } }
func withLookup(f LookupFunc) rigOption     { return func(c *rigConfig) { c.lookup = f } }

// newRig runs a Set over the scorers given, each "name=target".
func newRig(t testing.TB, scorers []ScorerConfig, opts ...rigOption) *rig {
	t.Helper()
	rc := rigConfig{cfg: DefaultConfig(), timeout: 10 * time.Second, breaker: defaultBreaker(), size: 4}
	rc.cfg.Scorers = scorers
	for _, o := range opts {
		o(&rc)
	}
	tel := telemetry.Discard()
	r := &rig{t: t, tel: tel, roster: roster.New(roster.Config{}), stop: func() {}}
	r.roster.SetTable(newTable(t, rc.size, rc.labels...))
	set, err := New(rc.cfg, Deps{Roster: r.roster, RouterID: "router-1", Lookup: rc.lookup, Embedded: rc.embedded}, tel)
	if err != nil {
		t.Fatal(err)
	}
	set.breaker = rc.breaker
	set.SendPending(rc.pending)
	r.set = set
	r.fan, err = fanout.New(fanout.Config{Timeout: rc.timeout}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !rc.idle {
		r.run()
	}
	return r
}

func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	ready := make(chan struct{})
	go func() { done <- r.set.Part()(ctx, func() { close(ready) }) }()
	<-ready
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				r.t.Errorf("the part ended with %v", err)
			}
		})
	}
	r.t.Cleanup(r.stop)
}

func newTable(t testing.TB, n int, labels ...roster.Label) *roster.Table {
	t.Helper()
	var es []roster.Endpoint
	for i := range n {
		es = append(es, roster.Endpoint{ID: roster.ID("e" + strconv.Itoa(1000+i)), Host: "10.0.0.1", Port: uint16(8000 + i), Labels: labels})
	}
	table, err := roster.NewTable(es)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// resolve resolves a plug-in, which must work.
func (r *rig) resolve(typ string) route.Scorer {
	r.t.Helper()
	service, asked, failClosed, _, err := r.set.Resolve("p-"+typ, typ, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return route.Scorer{Plugin: "p-" + typ, Type: typ, Service: service, Asked: asked, FailClosed: failClosed, Weight: 1}
}

// ready waits until calls for the plug-in go out.
func (r *rig) ready(s route.Scorer, replicas int) route.Scorer {
	r.t.Helper()
	in := s.Asked.(*Instance)
	kittest.Eventually(r.t, fmt.Sprintf("%d replicas of %s ready", replicas, s.Service), func() bool {
		n := 0
		for _, b := range *in.bindings.Load() {
			if b.session.ready.Load() {
				n++
			}
		}
		return n == replicas
	})
	return s
}

// resolved is resolve and ready for one replica.
func (r *rig) resolved(typ string) route.Scorer { r.t.Helper(); return r.ready(r.resolve(typ), 1) }

func (r *rig) cycle() *route.Cycle {
	req := &route.Request{ID: "r1", Model: "m", MaxOutputTokens: -1, Headers: route.NoHeaders{}}
	return &route.Cycle{Request: req, Snapshot: r.roster.Snapshot(), Now: r.roster.Now()}
}

func allOf(c *route.Cycle) []int32 {
	var p []int32
	for i := range c.Snapshot.Len() {
		p = append(p, int32(i))
	}
	return p
}

// ask asks the scorers about everybody.
func (r *rig) ask(scorers ...route.Scorer) []route.Scores {
	c := r.cycle()
	return r.askAs(context.Background(), c, allOf(c), scorers...)
}

func (r *rig) askAs(ctx context.Context, c *route.Cycle, candidates []int32, scorers ...route.Scorer) []route.Scores {
	out := make([]route.Scores, len(scorers))
	r.fan.Score(ctx, c, scorers, candidates, out)
	return out
}

func (r *rig) value(name string, attrs ...string) float64 { return r.tel.Value(name, attrs...) }

func (r *rig) wantVerdict(got route.Scores, want route.Verdict) {
	r.t.Helper()
	if got.Verdict != want {
		r.t.Errorf("verdict %v (%s), want %v", got.Verdict, got.Reason, want)
	}
}

func one(name, target string) []ScorerConfig { return []ScorerConfig{{Name: name, Target: target}} }
