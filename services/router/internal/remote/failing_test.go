package remote

import (
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// quick is a breaker for tests that do not want to wait.
func quick(c *rigConfig) {
	c.breaker.spell, c.breaker.pause, c.breaker.longPause = 0, 20*time.Millisecond, 40*time.Millisecond
}

var transports = map[string]Transport{"stream": Stream, "unary": Unary}

// A hanging scorer costs its time-out a few times, then nothing; and it comes back.
func TestHang(t *testing.T) {
	for name, transport := range transports {
		t.Run(name, func(t *testing.T) {
			s := newHandmade("acme")
			var hang atomic.Bool
			s.score = func(ctx context.Context, m *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
				if hang.Load() {
					<-ctx.Done()
					return nil, status.FromContextError(ctx.Err()).Err()
				}
				return ones(ctx, m)
			}
			r := newRig(t, []ScorerConfig{{Name: "acme", Target: s.serve(t, ""), Transport: transport}}, withTimeout(30*time.Millisecond), quick)
			sc := r.resolved("acme")
			kittest.Eventually(t, "a first score", func() bool { return r.ask(sc)[0].Verdict == route.Scored })
			hang.Store(true)
			timeouts := 0
			kittest.Eventually(t, "the breaker to open", func() bool {
				out := r.ask(sc)[0]
				if out.Verdict == route.TimedOut {
					timeouts++
				}
				return out.Verdict == route.Skipped && strings.Contains(out.Reason, "breaker is open")
			})
			if timeouts < 4 {
				t.Errorf("the breaker opened after %d time-outs", timeouts)
			}
			if got := r.set.Status()[0].GetFailureCount(); got < 4 {
				t.Errorf("the status shows %d failures", got)
			}
			hang.Store(false)
			kittest.Eventually(t, "the breaker to close", func() bool { return r.ask(sc)[0].Verdict == route.Scored })
			if got := r.value("pointsman_router_scorer_breaker_state", "scorer", "acme"); got != 0 {
				t.Errorf("the breaker's state is %v", got)
			}
		})
	}
}

// A scorer that does not even read its stream must not hold up those who ask.
func TestStreamThatIsNotRead(t *testing.T) {
	s := newHandmade("acme")
	s.stream = func(_ *handmade, st scorerv1.ScorerService_ScoreStreamServer) error {
		<-st.Context().Done()
		return nil
	}
	r := newRig(t, one("acme", s.serve(t, "")), withTimeout(5*time.Millisecond), func(c *rigConfig) {
		c.size = 2000
		c.breaker.failures, c.breaker.minCalls = math.MaxInt, math.MaxInt // or it would be left alone
	})
	sc := r.resolved("acme")
	c := r.cycle()
	c.Request.Prompt = text(strings.Repeat("x", 32<<10))
	half := allOf(c)[:1000]
	for range 200 {
		out := r.askAs(context.Background(), c, half, sc)
		if out[0].Verdict != route.TimedOut && out[0].Verdict != route.Skipped {
			t.Fatalf("%+v", out[0])
		}
	}
	open := r.set.services[3].replicas
	for _, rep := range open {
		kittest.Eventually(t, "all calls to land", func() bool { return rep.open.Load() == 0 })
	}
}

// A scorer that sends what nobody asked for, without end, is not read for ever: its stream
// is ended, and what is wrong with it is told.
func TestFlood(t *testing.T) {
	for name, m := range map[string]*scorerv1.ScoreStreamResponse{
		"of empty messages":     {},
		"of answers to no call": {Answers: []*scorerv1.StreamAnswer{{CallId: 1 << 60}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHandmade("acme")
			s.stream = func(_ *handmade, st scorerv1.ScorerService_ScoreStreamServer) error {
				for {
					if err := st.Send(m); err != nil {
						return err
					}
				}
			}
			r := newRig(t, one("acme", s.serve(t, "")))
			kittest.Eventually(t, "it to be shown as what it is", func() bool {
				st := r.set.Status()[0]
				return strings.Contains(st.GetLastError(), "nobody asked for") && !st.GetReplicas()[0].GetReady()
			})
			if r.value("pointsman_router_scorer_contract_breaches_total", "kind", "unasked") == 0 {
				t.Error("no breach is counted")
			}
		})
	}
}

// A scorer whose health changes without end is not followed, or logged, without end.
func TestHealthThatNeverRests(t *testing.T) {
	p := &pace{healthBurst, time.Unix(0, 0)}
	now, followed := time.Unix(0, 0), 0
	for range 10_000 { // a millisecond apart
		now = now.Add(time.Millisecond)
		if p.take(now) {
			followed++
		}
	}
	if followed < 19 || followed > 20 {
		t.Errorf("%d changes of 10 s were followed, want %d at once and one a second", followed, healthBurst)
	}
	s := newHandmade("acme")
	s.health = health.NewServer()
	name := scorerv1.ScorerService_ServiceDesc.ServiceName
	r := newRig(t, one("acme", s.serve(t, "")))
	sc := r.resolve("acme")
	for i := range 50 {
		s.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_ServingStatus(1+i%2))
		time.Sleep(time.Millisecond)
	}
	s.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	kittest.Eventually(t, "what holds in the end to be seen", func() bool { return r.ask(sc)[0].Verdict == route.Scored })
}

type text string

func (text) Blocks(int, int) []uint64 { return nil }
func (p text) Text() string           { return string(p) }

func TestAnswersThatBreakTheContract(t *testing.T) {
	nan := float32(math.NaN())
	for name, tc := range map[string]struct {
		resp *scorerv1.ScoreResponse
		kind string
		word string
	}{
		"NaN":                 {&scorerv1.ScoreResponse{Scores: []float32{1, nan, 1, 1}}, "not_finite", "candidate 1 is NaN"},
		"too few":             {&scorerv1.ScoreResponse{Scores: []float32{1}}, "count", "1 scores for 4"},
		"of another table":    {&scorerv1.ScoreResponse{Scores: make([]float32, 9)}, "count", "9 scores for 4"},
		"out of range":        {&scorerv1.ScoreResponse{Scores: []float32{1, 1, 7, 1}}, "range", "candidate 2 is 7"},
		"abstained on nobody": {&scorerv1.ScoreResponse{Scores: []float32{1, 1, 1, 1}, AbstainedIndices: []uint32{4}}, "abstained", "candidate 4 of 4"},
		"matched unsent":      {&scorerv1.ScoreResponse{Scores: []float32{1, 1, 1, 1}, MatchedBlockCounts: []uint32{1, 1, 1, 1}}, "matched", "1 blocks of 0"},
	} {
		for transport := range transports {
			t.Run(name+" "+transport, func(t *testing.T) {
				s := newHandmade("acme")
				s.score = func(context.Context, *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) { return tc.resp, nil }
				r := newRig(t, []ScorerConfig{{Name: "acme", Target: s.serve(t, ""), Transport: transports[transport]}}, quick)
				sc := r.resolved("acme")
				out := r.ask(sc)[0]
				r.wantVerdict(out, route.Failed)
				if !strings.Contains(out.Reason, tc.word) {
					t.Errorf("reason %q", out.Reason)
				}
				if got := r.value("pointsman_router_scorer_contract_breaches_total", "scorer", "acme", "kind", tc.kind); got != 1 {
					t.Errorf("%v breaches of kind %s", got, tc.kind)
				}
				if st := r.set.Status()[0]; !strings.Contains(st.GetLastError(), tc.word) || st.GetFailureCount() != 1 {
					t.Errorf("status %v", st)
				}
				kittest.Eventually(t, "the breaker to open", func() bool { return r.ask(sc)[0].Verdict == route.Skipped })
			})
		}
	}
}

func TestAnswersToCallsThatWereNeverMade(t *testing.T) {
	s := newHandmade("acme")
	s.stream = func(_ *handmade, st scorerv1.ScorerService_ScoreStreamServer) error {
		for {
			m, err := st.Recv()
			if err != nil {
				return err
			}
			for _, c := range m.Calls {
				for _, id := range []uint64{0, c.CallId + 1000} {
					err := st.Send(&scorerv1.ScoreStreamResponse{Answers: []*scorerv1.StreamAnswer{{
						CallId: id, Result: &scorerv1.StreamAnswer_Response{Response: &scorerv1.ScoreResponse{Scores: []float32{1, 1, 1, 1}}},
					}}})
					if err != nil {
						return err
					}
				}
			}
		}
	}
	r := newRig(t, one("acme", s.serve(t, "")), withTimeout(30*time.Millisecond))
	r.wantVerdict(r.ask(r.resolved("acme"))[0], route.TimedOut)
	kittest.Eventually(t, "two breaches", func() bool {
		return r.value("pointsman_router_scorer_contract_breaches_total", "kind", "call_id") == 2
	})
}

func TestAnswerWithoutResult(t *testing.T) {
	s := newHandmade("acme")
	s.stream = func(_ *handmade, st scorerv1.ScorerService_ScoreStreamServer) error {
		for {
			m, err := st.Recv()
			if err != nil {
				return err
			}
			for _, c := range m.Calls {
				if err := st.Send(&scorerv1.ScoreStreamResponse{Answers: []*scorerv1.StreamAnswer{{CallId: c.CallId}, nil}}); err != nil {
					return err
				}
			}
		}
	}
	r := newRig(t, one("acme", s.serve(t, "")))
	r.wantVerdict(r.ask(r.resolved("acme"))[0], route.Failed)
	if got := r.value("pointsman_router_scorer_contract_breaches_total", "kind", "no_result"); got != 1 {
		t.Errorf("%v breaches", got)
	}
}

func TestAnswerThatIsTooLarge(t *testing.T) {
	for name, transport := range transports {
		t.Run(name, func(t *testing.T) {
			s := newHandmade("acme")
			s.score = func(ctx context.Context, m *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
				resp, err := ones(ctx, m)
				resp.Explanations = []*scorerv1.Explanation{{Text: strings.Repeat("x", 10<<20)}}
				return resp, err
			}
			r := newRig(t, []ScorerConfig{{Name: "acme", Target: s.serve(t, ""), Transport: transport}})
			out := r.ask(r.resolved("acme"))[0]
			r.wantVerdict(out, route.Failed)
			if !strings.Contains(out.Reason, "larger than max") {
				t.Errorf("reason %q", out.Reason)
			}
			if got := r.value("pointsman_router_scorer_contract_breaches_total", "kind", "too_large"); got != 1 {
				t.Errorf("%v breaches", got)
			}
		})
	}
}

func TestErrorsOfAScorer(t *testing.T) {
	for name, tc := range map[string]struct {
		err     error
		verdict route.Verdict
		word    string
		opens   bool
	}{
		"bad request":    {status.Error(codes.InvalidArgument, "no model"), route.Failed, "InvalidArgument: no model", false},
		"overloaded":     {status.Error(codes.ResourceExhausted, "busy"), route.Skipped, "it sheds load: busy", false},
		"unavailable":    {status.Error(codes.Unavailable, "warming up"), route.Failed, "Unavailable: warming up", true},
		"too slow":       {status.Error(codes.DeadlineExceeded, "no time"), route.TimedOut, "no time", true},
		"broken":         {status.Error(codes.Internal, "oops"), route.Failed, "Internal: oops", true},
		"not there":      {status.Error(codes.Unimplemented, ""), route.Failed, "Unimplemented", true},
		"of no contract": {status.Error(codes.Code(99), "?"), route.Failed, "Code(99)", true},
	} {
		for transport := range transports {
			t.Run(name+" "+transport, func(t *testing.T) {
				s := newHandmade("acme")
				s.score = func(context.Context, *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) { return nil, tc.err }
				r := newRig(t, []ScorerConfig{{Name: "acme", Target: s.serve(t, ""), Transport: transports[transport]}}, quick, func(c *rigConfig) { c.breaker.pause = time.Hour })
				sc := r.resolved("acme")
				out := r.ask(sc)[0]
				r.wantVerdict(out, tc.verdict)
				if !strings.Contains(out.Reason, tc.word) {
					t.Errorf("reason %q", out.Reason)
				}
				for range 8 {
					r.ask(sc)
				}
				if opened := r.set.Status()[0].GetBreaker() == "open"; opened != tc.opens {
					t.Errorf("breaker open: %v", opened)
				}
			})
		}
	}
}

func TestCrashMidStream(t *testing.T) {
	s := newHandmade("acme")
	var crash atomic.Bool
	s.stream = func(s *handmade, st scorerv1.ScorerService_ScoreStreamServer) error {
		return answer(s, crashing{st, &crash})
	}
	r := newRig(t, one("acme", s.serve(t, "")))
	sc := r.resolved("acme")
	r.wantVerdict(r.ask(sc)[0], route.Scored)
	crash.Store(true)
	out := r.ask(sc)[0]
	r.wantVerdict(out, route.Failed)
	if !strings.Contains(out.Reason, "the stream broke") {
		t.Errorf("reason %q", out.Reason)
	}
	crash.Store(false)
	kittest.Eventually(t, "the stream to be back", func() bool { return r.ask(sc)[0].Verdict == route.Scored })
	if st := r.set.Status()[0]; !strings.Contains(st.GetLastError(), "boom") {
		t.Errorf("status %v", st)
	}
}

// crashing ends the stream when a call comes.
type crashing struct {
	scorerv1.ScorerService_ScoreStreamServer
	on *atomic.Bool
}

func (c crashing) Recv() (*scorerv1.ScoreStreamRequest, error) {
	m, err := c.ScorerService_ScoreStreamServer.Recv()
	if err == nil && len(m.Calls) > 0 && c.on.Load() {
		return nil, status.Error(codes.Internal, "boom")
	}
	return m, err
}

// A call on a stream that breaks is asked once of the other replica.
func TestFailover(t *testing.T) {
	for name, transport := range transports {
		t.Run(name, func(t *testing.T) {
			bad, good := newHandmade("acme"), newHandmade("acme")
			bad.score = func(context.Context, *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
				go bad.stop()
				return nil, status.Error(codes.Unavailable, "going")
			}
			r := newRig(t, []ScorerConfig{{Name: "acme", Target: bad.serve(t, "127.0.0.1:0") + "," + good.serve(t, "127.0.0.1:0"), Transport: transport}})
			sc := r.ready(r.resolve("acme"), 2)
			for range 4 {
				r.wantVerdict(r.ask(sc)[0], route.Scored)
			}
			if got, calls := r.value("pointsman_router_scorer_failovers_total", "scorer", "acme"), bad.calls.Load(); got < float64(calls) || calls == 0 {
				t.Errorf("%v failovers of %d calls that the bad one saw", got, calls)
			}
		})
	}
}

// It is asked of two replicas at most.
func TestFailoverHappensOnce(t *testing.T) {
	var targets []string
	for range 3 {
		s := newHandmade("acme")
		s.score = func(context.Context, *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
			return nil, status.Error(codes.Unavailable, "warming up")
		}
		targets = append(targets, s.serve(t, "127.0.0.1:0"))
	}
	r := newRig(t, one("acme", strings.Join(targets, ",")))
	sc := r.ready(r.resolve("acme"), 3)
	r.wantVerdict(r.ask(sc)[0], route.Failed)
	if got := r.value("pointsman_router_scorer_failovers_total", "scorer", "acme"); got != 1 {
		t.Errorf("%v failovers, want 1", got)
	}
}

// Replicas are restarted one after the other under load: no fan-out fails.
func TestRestartUnderLoad(t *testing.T) {
	for name, transport := range transports {
		t.Run(name, func(t *testing.T) {
			replicas := []*handmade{newHandmade("acme"), newHandmade("acme")}
			var addresses []string
			for _, s := range replicas {
				addresses = append(addresses, s.serve(t, "127.0.0.1:0"))
			}
			r := newRig(t, []ScorerConfig{{Name: "acme", Target: strings.Join(addresses, ","), Transport: transport}})
			sc := r.ready(r.resolve("acme"), 2)
			done := make(chan struct{})
			var callers sync.WaitGroup
			var asked, failed atomic.Int64
			for range 8 {
				callers.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
						}
						out := r.ask(sc)[0]
						asked.Add(1)
						if out.Verdict != route.Scored {
							failed.Add(1)
							t.Errorf("%v: %s", out.Verdict, out.Reason)
							return
						}
					}
				})
			}
			for range 2 {
				for i, s := range replicas {
					before := replicas[1-i].calls.Load()
					s.stop()
					kittest.Eventually(t, "the other replica to be asked", func() bool { return replicas[1-i].calls.Load() > before+20 })
					r.ready(sc, 1) // it is noticed before it is back, lest both seem to be there
					s.serve(t, addresses[i])
					r.ready(sc, 2)
				}
			}
			close(done)
			callers.Wait()
			t.Logf("%d asked, %d failed, %v failed over", asked.Load(), failed.Load(), r.value("pointsman_router_scorer_failovers_total"))
		})
	}
}

// A scorer that starts after the router is found.
func TestSlowStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	r := newRig(t, []ScorerConfig{{Name: "acme", Target: address, Types: []string{"acme"}}})
	_, asked, _, warnings, err := r.set.Resolve("p", "acme", []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "acme at "+address+" is not reachable") {
		t.Errorf("warnings %q", warnings)
	}
	sc := route.Scorer{Asked: asked}
	out := r.ask(sc)[0]
	r.wantVerdict(out, route.Skipped)
	if !strings.Contains(out.Reason, "not reachable") || !strings.Contains(out.Reason, "connection refused") {
		t.Errorf("reason %q", out.Reason)
	}
	if st := r.set.Status()[0]; st.GetReplicas()[0].GetReady() || !strings.Contains(st.GetReplicas()[0].GetReason(), "connection refused") {
		t.Errorf("status %v", st)
	}
	s := newHandmade("acme")
	s.serve(t, address)
	kittest.Eventually(t, "a score", func() bool { return r.ask(sc)[0].Verdict == route.Scored })
	if got := s.seen()[0].GetParametersJson(); string(got) != `{"a":1}` {
		t.Errorf("parameters %q", got)
	}
}

func TestHealth(t *testing.T) {
	s := newHandmade("acme")
	s.health = health.NewServer()
	name := scorerv1.ScorerService_ServiceDesc.ServiceName
	s.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	r := newRig(t, one("acme", s.serve(t, "")))
	sc := r.resolve("acme")
	kittest.Eventually(t, "the reason to show", func() bool {
		st := r.set.Status()[0]
		return len(st.Replicas) == 1 && strings.Contains(st.Replicas[0].Reason, "NOT_SERVING")
	})
	r.wantVerdict(r.ask(sc)[0], route.Skipped)
	if got := r.value("pointsman_router_scorer_replicas", "scorer", "acme", "state", "not_ready"); got != 1 {
		t.Errorf("%v replicas not ready", got)
	}
	for range 2 {
		s.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
		kittest.Eventually(t, "a score", func() bool { return r.ask(sc)[0].Verdict == route.Scored })
		s.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		kittest.Eventually(t, "no score", func() bool { return r.ask(sc)[0].Verdict == route.Skipped })
	}
	asked := s.calls.Load()
	r.ask(sc)
	if s.calls.Load() != asked {
		t.Error("a replica that does not serve was asked")
	}
}

func TestLiesInScorerInfo(t *testing.T) {
	for name, tc := range map[string]struct {
		lie  func(*scorerv1.GetScorerInfoResponse)
		word string
	}{
		"no name":     {func(m *scorerv1.GetScorerInfoResponse) { m.Name = "" }, "its name"},
		"bad name":    {func(m *scorerv1.GetScorerInfoResponse) { m.Name = "Über\nscorer" }, "its name"},
		"no version":  {func(m *scorerv1.GetScorerInfoResponse) { m.Version = "" }, "no version"},
		"no types":    {func(m *scorerv1.GetScorerInfoResponse) { m.Types = nil }, "no scorer type"},
		"bad type":    {func(m *scorerv1.GetScorerInfoResponse) { m.Types[0].Name = "A B" }, "its scorer type"},
		"type twice":  {func(m *scorerv1.GetScorerInfoResponse) { m.Types[0].Aliases = []string{"acme"} }, "twice"},
		"a null type": {func(m *scorerv1.GetScorerInfoResponse) { m.Types[0] = &scorerv1.ScorerType{} }, "its scorer type"},
		"endless":     {func(m *scorerv1.GetScorerInfoResponse) { m.Version = strings.Repeat("1", 2<<20) }, "larger than max"},
		"many types": {func(m *scorerv1.GetScorerInfoResponse) {
			for i := range 300 {
				m.Types = append(m.Types, &scorerv1.ScorerType{Name: fmt.Sprint("t", i)})
			}
		}, "301 scorer types"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHandmade("acme")
			tc.lie(s.info)
			r := newRig(t, []ScorerConfig{{Name: "acme", Target: s.serve(t, ""), Types: []string{"acme"}}})
			sc := r.resolve("acme")
			out := r.ask(sc)[0]
			r.wantVerdict(out, route.Skipped)
			if !strings.Contains(out.Reason, tc.word) {
				t.Errorf("reason %q", out.Reason)
			}
			if st := r.set.Status()[0]; !strings.Contains(st.GetReplicas()[0].GetReason(), tc.word) {
				t.Errorf("status %v", st)
			}
		})
	}
}

// A scorer that lists a stream and has none is called one by one.
func TestStreamThatIsNotThere(t *testing.T) {
	s := newHandmade("acme")
	s.stream = func(*handmade, scorerv1.ScorerService_ScoreStreamServer) error {
		return status.Error(codes.Unimplemented, "no stream")
	}
	r := newRig(t, one("acme", s.serve(t, "")))
	sc := r.resolve("acme")
	kittest.Eventually(t, "a score", func() bool { return r.ask(sc)[0].Verdict == route.Scored })
	if got := r.value("pointsman_router_scorer_contract_breaches_total", "kind", "no_stream"); got != 1 {
		t.Errorf("%v breaches", got)
	}
	if got := r.set.Status()[0].GetTransport(); got != "unary" {
		t.Errorf("transport %q", got)
	}
}

func TestStreamIsDemanded(t *testing.T) {
	s := newHandmade("acme").only()
	r := newRig(t, []ScorerConfig{{Name: "acme", Target: s.serve(t, ""), Types: []string{"acme"}, Transport: Stream}})
	out := r.ask(r.resolve("acme"))[0]
	r.wantVerdict(out, route.Skipped)
	if !strings.Contains(out.Reason, "it has no stream") {
		t.Errorf("reason %q", out.Reason)
	}
}
