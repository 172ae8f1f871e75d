package simple

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// warm likes warm endpoints and knows nothing of those without a temperature.
func warm(_ context.Context, r Request) (Scores, error) {
	s := r.NewScores()
	s.Texts = make([]string, len(r.Candidates))
	for i, c := range r.Candidates {
		t, ok := c.Label("temperature")
		switch {
		case !ok:
			s.Values[i] = Abstain
		case t == "warm":
			s.Values[i] = 1
		}
		s.Texts[i] = "it is " + t
	}
	return s, nil
}

func warmType() Type {
	return Type{Name: "warm", Description: "High where it is warm.", Needs: Needs{Labels: true}, Scorer: Func(warm)}
}

func candidate(id, temperature string) *scorerv1.Candidate {
	c := &scorerv1.Candidate{EndpointId: id}
	if temperature != "" {
		c.Labels = []*scorerv1.Label{{Name: "temperature", Value: temperature}}
	}
	return c
}

func ask(typ string, candidates ...*scorerv1.Candidate) *scorerv1.ScoreRequest {
	return &scorerv1.ScoreRequest{
		ScorerType: typ, Request: &scorerv1.InferenceRequest{RequestId: "r"},
		Candidates: &scorerv1.ScoreRequest_Listed{Listed: &scorerv1.CandidateList{Candidates: candidates}},
	}
}

// start serves the types and returns a client; end stops the server and returns what
// Run did.
func start(t *testing.T, cfg Config, types ...Type) (s *Server, conn *grpc.ClientConn, end func() error) {
	t.Helper()
	s, err := New(cfg, types...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	conn, err = grpc.NewClient(s.Addr(ctx), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	var ended bool
	end = func() error {
		cancel()
		ended = true
		return <-done
	}
	t.Cleanup(func() {
		conn.Close()
		if !ended {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
	return s, conn, end
}

func loopback() Config {
	cfg := DefaultConfig("acme", "1.0.0")
	cfg.Address = "127.0.0.1:0"
	return cfg
}

func TestServiceAnswersUnaryAndOnAStream(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "unix://" + filepath.Join(t.TempDir(), "s")} {
		cfg := loopback()
		cfg.Address = address
		_, conn, _ := start(t, cfg, warmType())
		client := scorerv1.NewScorerServiceClient(conn)
		req := ask("warm", candidate("a", "cold"), candidate("b", "warm"), candidate("c", ""))
		req.Explain = true
		want := &scorerv1.ScoreResponse{
			Scores: []float32{0, 1, 0}, AbstainedIndices: []uint32{2}, AbstainReason: UnknownEndpoint,
			Explanations: []*scorerv1.Explanation{{Text: "it is cold"}, {CandidateIndex: 1, Text: "it is warm"}, {CandidateIndex: 2, Text: "it is "}},
		}
		unary, err := client.Score(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, unary, protocmp.Transform()); d != "" {
			t.Errorf("unary (-want +got):\n%s", d)
		}
		byTable := proto.Clone(req).(*scorerv1.ScoreRequest)
		byTable.Candidates = &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: 7}}
		stream, err := client.ScoreStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = stream.Send(&scorerv1.ScoreStreamRequest{
			RouterId: "router", Calls: []*scorerv1.StreamCall{{CallId: 1, TimeoutUs: 10e6, Request: byTable}},
			Tables: []*scorerv1.TaughtTable{{TableDigest: 7, Endpoints: []*scorerv1.TableEndpoint{
				{EndpointId: "a", Labels: candidate("a", "cold").Labels}, {EndpointId: "b", Labels: candidate("b", "warm").Labels}, {EndpointId: "c"},
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got.GetAnswers()[0].GetResponse(), protocmp.Transform()); d != "" {
			t.Errorf("stream (-want +got):\n%s", d)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInfo(t *testing.T) {
	typ := warmType()
	typ.Aliases, typ.ParametersSchema = []string{"hot"}, `{"type":"object"}`
	typ.Needs = Needs{Load: true, Labels: true, Adapters: true, Headers: []string{"x-a"}, PromptText: true, PrefixBlockBytes: 64, MaxPrefixBlocks: 9}
	cfg := loopback()
	cfg.Outcomes = func(context.Context, *scorerv1.ReportOutcomesRequest) error { return nil }
	_, conn, _ := start(t, cfg, typ)
	got, err := scorerv1.NewScorerServiceClient(conn).GetScorerInfo(t.Context(), &scorerv1.GetScorerInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := &scorerv1.GetScorerInfoResponse{
		Name: "acme", Version: "1.0.0",
		Capabilities: []scorerv1.Capability{scorerv1.Capability_CAPABILITY_STREAM, scorerv1.Capability_CAPABILITY_EXPLAIN, scorerv1.Capability_CAPABILITY_OUTCOMES},
		Types: []*scorerv1.ScorerType{{
			Name: "warm", Aliases: []string{"hot"}, Description: "High where it is warm.", ParametersSchema: `{"type":"object"}`,
			DefaultNeeds: &scorerv1.InputNeeds{
				RequiredInputs: []scorerv1.Input{
					scorerv1.Input_INPUT_LOAD, scorerv1.Input_INPUT_LABELS, scorerv1.Input_INPUT_ADAPTERS,
					scorerv1.Input_INPUT_REQUEST_HEADERS, scorerv1.Input_INPUT_PROMPT_TEXT, scorerv1.Input_INPUT_PREFIX_BLOCKS,
				},
				HeaderNames: []string{"x-a"}, PrefixBlockSizeBytes: 64, MaxPrefixBlocks: 9,
			},
		}},
	}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("info (-want +got):\n%s", d)
	}
}

func TestRequestSaysWhatCame(t *testing.T) {
	req := ask("all", &scorerv1.Candidate{EndpointId: "a"}, &scorerv1.Candidate{
		EndpointId: "b",
		Load: &scorerv1.EndpointLoad{
			ObserveTime: timestamppb.New(time.Unix(5, 0)), WaitingRequestCount: proto.Uint32(0), KvCacheUsageRatio: proto.Float32(0.5),
			CreditedRequestCount: 3, CreditedTokenCount: 4,
		},
		Adapters: &scorerv1.Adapters{Running: []string{"x"}, Waiting: []string{"y"}, MaxCount: 2},
	})
	req.Request = &scorerv1.InferenceRequest{
		RequestId: "r", Model: "m", Adapter: "ad", SessionKey: "s", PromptTokenCount: proto.Uint32(0), Priority: -2, PromptText: "p",
		Prefix: &scorerv1.PrefixBlocks{Scheme: "x"}, Headers: []*scorerv1.Header{{Name: "x-a", Value: "1"}},
	}
	r := NewRequest(req)
	want := Request{ID: "r", Model: "m", Adapter: "ad", SessionKey: "s", PromptTokens: 0, MaxOutputTokens: -1, Priority: -2, PromptText: "p"}
	got := r
	got.Candidates, got.Prefix, got.headers = nil, nil, nil
	if d := cmp.Diff(want, got, cmp.AllowUnexported(Request{})); d != "" {
		t.Errorf("request (-want +got):\n%s", d)
	}
	if r.Header("x-a") != "1" || r.Header("x-b") != "" || r.Prefix.GetScheme() != "x" {
		t.Errorf("headers or prefix are wrong: %v", r)
	}
	if l, ok := r.Candidates[0].Load(); ok || l != (Load{Waiting: -1, Running: -1, KVCacheUsage: -1}) {
		t.Errorf("load of the unknown: %+v, %t", l, ok)
	}
	if _, _, _, ok := r.Candidates[0].Adapters(); ok {
		t.Error("adapters of the unknown")
	}
	b := r.Candidates[1]
	if l, ok := b.Load(); !ok || !l.ObservedAt.Equal(time.Unix(5, 0)) || l.Waiting != 0 || l.Running != -1 || l.KVCacheUsage != 0.5 || l.CreditedRequests != 3 || l.CreditedTokens != 4 {
		t.Errorf("load %+v, %t", l, ok)
	}
	if running, waiting, most, ok := b.Adapters(); !ok || running[0] != "x" || waiting[0] != "y" || most != 2 || b.ID() != "b" {
		t.Errorf("adapters %v %v %d %t", running, waiting, most, ok)
	}
}

func TestScoresAreWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		scores Scores
		want   *scorerv1.ScoreResponse
		fault  string
	}{
		"none":         {AbstainOnAll(StaleState), &scorerv1.ScoreResponse{AbstainedOnAll: true, AbstainReason: StaleState}, ""},
		"each abstain": {Scores{Values: []float32{Abstain, Abstain}}, &scorerv1.ScoreResponse{AbstainedOnAll: true, AbstainReason: NotApplicable}, ""},
		"everything": {
			Scores{Values: []float32{0.5, Abstain}, Reason: OutOfTime, StateAge: time.Second, MatchedBlocks: []uint32{1, 0}, RequestsPerPoint: 8, Texts: []string{"", "b"}},
			&scorerv1.ScoreResponse{
				Scores: []float32{0.5, 0}, AbstainedIndices: []uint32{1}, AbstainReason: OutOfTime, StateAge: durationpb.New(time.Second),
				MatchedBlockCounts: []uint32{1, 0}, RequestsPerPoint: 8, Explanations: []*scorerv1.Explanation{{CandidateIndex: 1, Text: "b"}},
			}, "",
		},
		"too few": {Scores{Values: []float32{1}}, nil, "1 scores for 2 candidates"},
	} {
		t.Run(name, func(t *testing.T) {
			got := &scorerv1.ScoreResponse{}
			err := tc.scores.write(got, 2, true)
			if tc.fault != "" {
				if err == nil || err.Error() != tc.fault {
					t.Errorf("error %v", err)
				}
				return
			}
			if d := cmp.Diff(tc.want, got, protocmp.Transform()); err != nil || d != "" {
				t.Errorf("error %v (-want +got):\n%s", err, d)
			}
		})
	}
}

func TestFaultyScorersDoNotGetOut(t *testing.T) {
	for name, tc := range map[string]struct {
		score Func
		code  codes.Code
		word  string
	}{
		"NaN": {func(context.Context, Request) (Scores, error) {
			return Scores{Values: []float32{float32(math.NaN())}}, nil
		}, codes.Internal, "broke the contract"},
		"too many":   {func(context.Context, Request) (Scores, error) { return Scores{Values: make([]float32, 9)}, nil }, codes.Internal, "9 scores for 1"},
		"panic":      {func(context.Context, Request) (Scores, error) { panic("the prompt") }, codes.Internal, "panicked"},
		"error":      {func(context.Context, Request) (Scores, error) { return Scores{}, errors.New("no luck") }, codes.Internal, "no luck"},
		"overloaded": {func(context.Context, Request) (Scores, error) { return Scores{}, scorer.Overloaded("later") }, codes.ResourceExhausted, "later"},
	} {
		t.Run(name, func(t *testing.T) {
			_, conn, _ := start(t, loopback(), Type{Name: "odd", Scorer: tc.score})
			_, err := scorerv1.NewScorerServiceClient(conn).Score(t.Context(), ask("odd", candidate("a", "")))
			if s := status.Convert(err); s.Code() != tc.code || !strings.Contains(s.Message(), tc.word) || strings.Contains(s.Message(), "prompt") {
				t.Errorf("got %v", err)
			}
		})
	}
}

type limits struct {
	Limit int `json:"limit"`
	Inner struct {
		Name string `json:"name"`
	} `json:"inner"`
}

func TestParametersAreChecked(t *testing.T) {
	typ := Type{Name: "limited", New: func(parameters []byte) (Scorer, error) {
		p := limits{Limit: 4}
		if err := Decode(parameters, &p); err != nil {
			return nil, err
		}
		var errs []error
		if p.Limit <= 0 {
			errs = append(errs, Fault{"limit", "it must be above 0"})
		}
		if p.Inner.Name == "nobody" {
			errs = append(errs, errors.New("nobody is not known"))
		}
		return Func(warm), errors.Join(errs...)
	}}
	for name, tc := range map[string]struct {
		typ        Type
		parameters string
		want       []*scorerv1.ParameterFault
	}{
		"none":             {typ, "", nil},
		"good":             {typ, `{"limit":1}`, nil},
		"two faults":       {typ, `{"limit":0,"inner":{"name":"nobody"}}`, []*scorerv1.ParameterFault{{Key: "limit", Message: "it must be above 0"}, {Message: "nobody is not known"}}},
		"misspelt":         {typ, `{"limt":1}`, []*scorerv1.ParameterFault{{Key: "limt", Message: "there is no such parameter"}}},
		"wrong type":       {typ, `{"inner":{"name":1}}`, []*scorerv1.ParameterFault{{Key: "inner.name", Message: "a JSON number stands where string is wanted"}}},
		"not asked for":    {warmType(), `{"limit":1}`, []*scorerv1.ParameterFault{{Key: "limit", Message: "there is no such parameter"}}},
		"no object at all": {warmType(), `[]`, []*scorerv1.ParameterFault{{Message: "a JSON object is wanted"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := scorer.NewServer("acme", "1", nil, []scorer.Type{tc.typ.Build()}, scorer.DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.ValidateParameters(t.Context(), &scorerv1.ValidateParametersRequest{ScorerType: tc.typ.Name, ParametersJson: []byte(tc.parameters)})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got.GetFaults(), protocmp.Transform()); d != "" {
				t.Errorf("faults (-want +got):\n%s", d)
			}
		})
	}
}

// told is a Scorer that tells its parameters, which may be none that JSON has.
type told struct {
	Func
	parameters any
}

func (s told) Parameters() any { return s.parameters }

func TestParametersThatHoldAreTold(t *testing.T) {
	made := func(s Scorer, err error) Type {
		return Type{Name: "t", New: func([]byte) (Scorer, error) { return s, err }}
	}
	for name, tc := range map[string]struct {
		typ  Type
		want string
	}{
		"takes none":   {warmType(), "{}"},
		"tells":        {made(told{warm, limits{Limit: 4}}, nil), `{"limit":4,"inner":{"name":""}}`},
		"does not":     {made(Func(warm), nil), ""},
		"refused":      {made(nil, errors.New("no")), ""},
		"not for JSON": {made(told{warm, math.Inf(1)}, nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := scorer.NewServer("acme", "1", nil, []scorer.Type{tc.typ.Build()}, scorer.DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.ValidateParameters(t.Context(), &scorerv1.ValidateParametersRequest{ScorerType: tc.typ.Name})
			if err != nil || string(got.GetEffectiveParametersJson()) != tc.want {
				t.Errorf("told %s, error %v", got.GetEffectiveParametersJson(), err)
			}
		})
	}
}

func TestDecodeWithWords(t *testing.T) {
	err := Decode([]byte(`{"limit":`), &limits{})
	var f Fault
	if !errors.As(err, &f) || f.Key != "" || !strings.Contains(f.Error(), "JSON object") {
		t.Errorf("error %v", err)
	}
	if (Fault{"a", "b"}).Error() != "a: b" {
		t.Error("a fault does not name its key")
	}
}

func TestConfigFaultsAreToldAtOnce(t *testing.T) {
	_, err := New(Config{Name: "A", Version: ""}, Type{Name: "t"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"address", "stop timeout", "version", `"A"`, "neither New nor Scorer"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not speak of %s", err, want)
		}
	}
	if err := Serve(t.Context(), Config{}); err == nil {
		t.Error("Serve took it")
	}
}

func TestAddressThatIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := loopback()
	cfg.Address = l.Addr().String()
	if err := Serve(t.Context(), cfg, warmType()); err == nil || !strings.Contains(err.Error(), cfg.Address) {
		t.Errorf("error %v", err)
	}
}

// A call that is under way when the server is told to stop is answered, and a router's
// watch and stream do not hold up the end.
func TestStopLosesNoCall(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	slow := Type{Name: "slow", Scorer: Func(func(_ context.Context, r Request) (Scores, error) {
		close(entered)
		<-release
		return r.NewScores(), nil
	})}
	cfg := loopback()
	cfg.StopTimeout = time.Minute
	_, conn, end := start(t, cfg, slow)
	watch, err := healthv1.NewHealthClient(conn).Watch(t.Context(), &healthv1.HealthCheckRequest{Service: scorerv1.ScorerService_ServiceDesc.ServiceName})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := watch.Recv(); err != nil || m.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Fatalf("health %v, %v", m, err)
	}
	client := scorerv1.NewScorerServiceClient(conn)
	stream, err := client.ScoreStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := client.Score(context.Background(), ask("slow", candidate("a", "")))
		answered <- err
	}()
	<-entered
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	if m, err := watch.Recv(); err != nil || m.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health %v, %v", m, err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the call under way: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestReadiness(t *testing.T) {
	s, conn, _ := start(t, loopback(), warmType())
	s.SetReady(false)
	m, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: scorerv1.ScorerService_ServiceDesc.ServiceName})
	if err != nil || m.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health %v, %v", m, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if other, err := New(loopback(), warmType()); err != nil || other.Addr(ctx) != "" {
		t.Errorf("a server that does not run has an address: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"limit":1}`, `{"limt":1}`, `[`, `{"inner":{"name":3}}`, ``, `{"a\"b":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := Decode(text, &limits{})
		var fault Fault
		if err != nil && (!errors.As(err, &fault) || fault.Message == "") {
			t.Errorf("%v is no fault", err)
		}
	})
}

func TestSocketThatCannotBe(t *testing.T) {
	cfg := loopback()
	cfg.Address = "unix://" + filepath.Join(t.TempDir(), "no", "such", "directory")
	if err := Serve(t.Context(), cfg, warmType()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
