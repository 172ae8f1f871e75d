package examples

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

	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/test/cluster"
)

// stranger is a scorer that fails in one way.
type stranger struct {
	scorerv1.UnimplementedScorerServiceServer
	name   string
	answer func(ctx context.Context, n int) (*scorerv1.ScoreResponse, error)
	lie    func(*scorerv1.GetScorerInfoResponse)
	stall  func(method string) // before what it says of itself and of parameters
	stream func(scoreStream) error
}

type scoreStream = grpc.BidiStreamingServer[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]

func (s *stranger) GetScorerInfo(context.Context, *scorerv1.GetScorerInfoRequest) (*scorerv1.GetScorerInfoResponse, error) {
	m := &scorerv1.GetScorerInfoResponse{Name: s.name, Version: "1", Types: []*scorerv1.ScorerType{{Name: s.name}}}
	if s.lie != nil {
		s.lie(m)
	}
	if s.stream != nil {
		m.Capabilities = append(m.Capabilities, scorerv1.Capability_CAPABILITY_STREAM)
	}
	if s.stall != nil {
		s.stall("info")
	}
	return m, nil
}

func (s *stranger) ValidateParameters(context.Context, *scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error) {
	if s.stall != nil {
		s.stall("parameters")
	}
	return &scorerv1.ValidateParametersResponse{Needs: &scorerv1.InputNeeds{}}, nil
}

func (s *stranger) ScoreStream(stream scoreStream) error {
	if s.stream == nil {
		return s.UnimplementedScorerServiceServer.ScoreStream(stream)
	}
	return s.stream(stream)
}

// answering is a stream that answers every call with scores, of whatever is asked about,
// and under whatever id it likes.
func answering(id func(uint64) uint64, scores func() []float32) func(scoreStream) error {
	return func(stream scoreStream) error {
		for {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			out := &scorerv1.ScoreStreamResponse{}
			for _, c := range m.GetCalls() {
				out.Answers = append(out.Answers, &scorerv1.StreamAnswer{
					CallId: id(c.GetCallId()), Result: &scorerv1.StreamAnswer_Response{Response: &scorerv1.ScoreResponse{Scores: scores()}},
				})
			}
			if err := stream.Send(out); err != nil {
				return err
			}
		}
	}
}

// flooding is a stream of answers that nobody asked for.
func flooding(stream scoreStream) error {
	for {
		if err := stream.Send(&scorerv1.ScoreStreamResponse{Answers: []*scorerv1.StreamAnswer{{CallId: 1 << 60}}}); err != nil {
			return err
		}
	}
}

func (s *stranger) Score(ctx context.Context, req *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
	return s.answer(ctx, len(req.GetListed().GetCandidates()))
}

// serve serves s on loopback; stop ends it as a crash would.
func (s *stranger) serve(t *testing.T) (address string, stop func()) {
	t.Helper()
	return s.serveAt(t, "127.0.0.1:0")
}

func (s *stranger) serveAt(t *testing.T, at string) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	scorerv1.RegisterScorerServiceServer(g, s)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	stop = sync.OnceFunc(func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve %s: %v", s.name, err)
		}
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

func scores(values ...float32) func(context.Context, int) (*scorerv1.ScoreResponse, error) {
	return func(context.Context, int) (*scorerv1.ScoreResponse, error) {
		return &scorerv1.ScoreResponse{Scores: values}, nil
	}
}

// One profile asks a built-in scorer and strangers that fail in every way, all at once.
// Every request is answered, what fails is shown with its reason in words, and soon
// costs nothing, since its breaker opens. (B203: calls are bounded by their deadline.)
func TestScorersThatFailCostNoRequest(t *testing.T) {
	const servers = 4
	// Hung calls are bounded by this.
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	stall := func(at string) func(string) {
		return func(method string) {
			if method == at {
				<-ended
			}
		}
	}
	its, another := func(id uint64) uint64 { return id }, func(id uint64) uint64 { return id + 1<<40 }
	ones := func() []float32 { return []float32{1, 1, 1, 1} }
	all := []struct {
		stranger
		word string // of the reason, in pointsman scorers
	}{
		{stranger{name: "crashes", answer: scores(1, 1, 1, 1)}, "connection"},
		{stranger{name: "hangs", answer: func(ctx context.Context, _ int) (*scorerv1.ScoreResponse, error) {
			select {
			case <-ctx.Done():
			case <-ended:
			}
			<-time.After(50 * time.Millisecond) // and does not care for cancellations at once
			return nil, ctx.Err()
		}}, "no answer in time"},
		{stranger{name: "nan", answer: scores(1, float32(math.NaN()), 1, 1)}, "candidate 1 is NaN"},
		{stranger{name: "too-few", answer: scores(1)}, "1 scores for 4"},
		{stranger{name: "other-table", answer: scores(make([]float32, 9)...)}, "9 scores for 4"},
		{stranger{name: "ten-mib", answer: func(context.Context, int) (*scorerv1.ScoreResponse, error) {
			return &scorerv1.ScoreResponse{Scores: []float32{1, 1, 1, 1}, Explanations: []*scorerv1.Explanation{{Text: strings.Repeat("x", 10<<20)}}}, nil
		}}, "larger than max"},
		{stranger{name: "liar", answer: scores(1, 1, 1, 1), lie: func(m *scorerv1.GetScorerInfoResponse) { m.Name, m.Types = "Not A Name", nil }}, "its name"},
		{stranger{name: "slow-info", answer: scores(1, 1, 1, 1), stall: stall("info")}, "get scorer info: DeadlineExceeded"},
		{stranger{name: "slow-parameters", answer: scores(1, 1, 1, 1), stall: stall("parameters")}, "validate parameters: DeadlineExceeded"},
		{stranger{name: "deaf", stream: func(s scoreStream) error { <-s.Context().Done(); return nil }}, "no answer in time"},
		{stranger{name: "ids-of-its-own", stream: answering(another, ones)}, "no answer in time"},
		{stranger{name: "stream-nan", stream: answering(its, func() []float32 { return []float32{float32(math.NaN()), 1, 1, 1} })}, "candidate 0 is NaN"},
		{stranger{name: "stream-other-table", stream: answering(its, func() []float32 { return make([]float32, 9) })}, "9 scores for 4"},
		{stranger{name: "floods", stream: flooding}, "nobody asked for"},
	}
	weights := []string{"queue-scorer: 1"}
	var list []string
	var crash func()
	for i := range all {
		s := &all[i]
		address, stop := s.serve(t)
		if s.name == "crashes" {
			crash = stop
		}
		weights = append(weights, s.name+": 3")
		list = append(list, fmt.Sprintf("{name: %s, target: %q, types: [%s]}", s.name, address, s.name))
	}
	c := cluster.Start(t, cluster.Options{
		Servers: servers, Server: quick, Plain: true, ConfigText: config(weights...), Scorers: list, RouterSets: []string{"scorerWait=1s", "scoring.timeout=100ms"},
	})
	router := c.Router(t, 0)
	kittest.Eventually(t, "the one that will crash to be well", func() bool { return ready(t, router, "crashes") })
	answered := func(n int) {
		t.Helper()
		for i := range n {
			if status, _ := ask(t, c.URL(0), fmt.Sprint(i), nil); status != 200 {
				t.Fatalf("request %d: status %d", i, status)
			}
		}
	}
	last := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(last)
		}
	})
	answered(5)
	crash()
	answered(20)
	// Whoever fails again and again is left alone, and the reason is told: each of them at
	// some time, for a later failure has a later reason.
	alone, told := make(map[string]bool), make(map[string]bool)
	kittest.Eventually(t, "everybody who fails to be left alone, and why to be told", func() bool {
		answered(1)
		done := true
		for _, s := range all {
			m := scorerStatus(t, router, s.name)
			for _, r := range m.GetReplicas() {
				alone[s.name] = alone[s.name] || !r.GetReady()
				told[s.name] = told[s.name] || strings.Contains(m.GetLastError()+" "+r.GetReason(), s.word)
			}
			done = done && alone[s.name] && told[s.name]
		}
		last = fmt.Sprintf("left alone: %v, told: %v", alone, told)
		return done
	})
	for _, d := range decisions(t, router, 100) {
		if d.GetError() != "" || d.GetEndpoint() == nil {
			t.Errorf("a decision failed: %s", d.GetError())
		}
		// Late it may be, and left alone for that: the machine is shared.
		if s := d.GetProfiles()[0].GetScorers()[0]; s.GetVerdict() == routerv1.ScorerVerdict_SCORER_VERDICT_FAILED || s.GetVerdict() == routerv1.ScorerVerdict_SCORER_VERDICT_UNSPECIFIED {
			t.Errorf("the built-in scorer: %v, %s", s.GetVerdict(), s.GetReason())
		}
	}
	for kind, name := range map[string]string{"not_finite": "nan", "count": "too-few", "too_large": "ten-mib", "info": "liar", "call_id": "ids-of-its-own", "unasked": "floods"} {
		if n := c.Metric(t, 0, "pointsman_router_scorer_contract_breaches_total", fmt.Sprintf("scorer=%q", name)); n == 0 {
			t.Errorf("no breach of kind %s is counted of %s", kind, name)
		}
	}
}

// A scorer that serves another type when it comes back is not asked for the first one, and
// it is told why; when it is what it was, it is asked again.
func TestScorerThatChangesWhatItServes(t *testing.T) {
	var typ atomic.Value
	typ.Store("steady")
	s := stranger{name: "steady", answer: scores(1, 0), lie: func(m *scorerv1.GetScorerInfoResponse) { m.Types[0].Name = typ.Load().(string) }}
	address, stop := s.serve(t)
	c := cluster.Start(t, cluster.Options{
		Servers: 2, Server: quick, Plain: true, ConfigText: config("steady: 1"), RouterSets: []string{"scorerWait=1s", "scoring.timeout=1s"},
		Scorers: []string{fmt.Sprintf("{name: steady, target: %q, types: [steady]}", address)},
	})
	router := c.Router(t, 0)
	verdict := func() *routerv1.ScorerDecision {
		if status, _ := ask(t, c.URL(0), "again", nil); status != 200 {
			t.Fatalf("status %d", status)
		}
		return decisions(t, router, 1)[0].GetProfiles()[0].GetScorers()[0]
	}
	scored := func() bool { return verdict().GetVerdict() == routerv1.ScorerVerdict_SCORER_VERDICT_SCORED }
	kittest.Eventually(t, "it to be asked", scored)
	stop()
	typ.Store("fickle")
	_, stop = s.serveAt(t, address)
	kittest.Eventually(t, "it to be refused", func() bool { return strings.Contains(verdict().GetReason(), `does not serve "steady" but fickle`) })
	stop()
	typ.Store("steady")
	s.serveAt(t, address)
	kittest.Eventually(t, "it to be asked again", scored)
}
