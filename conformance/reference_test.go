package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reference is a scorer type that needs everything and obeys every rule.
type reference struct{}

func (reference) Info() *scorerv1.ScorerType {
	return &scorerv1.ScorerType{
		Name: "reference", Aliases: []string{"ref"}, Description: "High for no good reason.", ParametersSchema: `{"type":"object","properties":{"salt":{"type":"string"}}}`,
		DefaultNeeds: needs(),
	}
}

func needs() *scorerv1.InputNeeds {
	return &scorerv1.InputNeeds{
		RequiredInputs: []scorerv1.Input{
			scorerv1.Input_INPUT_LOAD, scorerv1.Input_INPUT_LABELS, scorerv1.Input_INPUT_ADAPTERS,
			scorerv1.Input_INPUT_PREFIX_BLOCKS, scorerv1.Input_INPUT_PROMPT_TEXT, scorerv1.Input_INPUT_REQUEST_HEADERS,
		},
		PrefixBlockSizeBytes: 64, HeaderNames: []string{"x-zone"}, SessionHeaderName: "x-session",
	}
}

func (reference) Parse(text []byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	all := make(map[string]any)
	if len(text) > 0 {
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, nil, []*scorerv1.ParameterFault{{Message: err.Error()}}
		}
	}
	salt, _ := all["salt"].(string)
	for k := range all {
		if k != "salt" {
			return nil, nil, []*scorerv1.ParameterFault{{Key: k, Message: "there is no such parameter"}}
		}
	}
	return salt, nil, nil
}

func (reference) Score(_ context.Context, salt any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	list := req.GetListed().GetCandidates()
	scores := scorer.Scores(out, len(list))
	matched := scorer.MatchedBlocks(out, len(list))
	blocks := len(req.GetRequest().GetPrefix().GetHashes())
	for i, c := range list {
		h := fnv.New32()
		fmt.Fprint(h, salt, c.GetEndpointId(), c.GetLabels(), c.GetLoad().GetWaitingRequestCount(), c.GetAdapters().GetRunning())
		v := h.Sum32()
		scores[i] = float32(v%1000) / 1000
		matched[i] = v % uint32(blocks+1)
		if len(list) > 1 && v%5 == 0 {
			scorer.Abstain(out, i, scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT)
		}
		if req.GetExplain() {
			out.Explanations = append(out.Explanations, &scorerv1.Explanation{CandidateIndex: uint32(i), Text: "because"})
		}
	}
	out.StateAge = durationpb.New(1e6)
	out.RequestsPerPoint = 7
	return nil
}

// faulty is the reference scorer with one thing about it changed.
type faulty struct {
	scorerv1.UnimplementedScorerServiceServer
	good   *scorer.Server
	health healthv1.HealthServer

	infos    atomic.Int64
	asked    atomic.Int64
	info     func(m *scorerv1.GetScorerInfoResponse, nth int64)
	validate func(*scorerv1.ValidateParametersRequest, *scorerv1.ValidateParametersResponse, error) (*scorerv1.ValidateParametersResponse, error)
	before   func(ctx context.Context, nth int64, req *scorerv1.ScoreRequest) error
	score    func(nth int64, req *scorerv1.ScoreRequest, resp *scorerv1.ScoreResponse, err error) (*scorerv1.ScoreResponse, error)
	report   func(*scorerv1.ReportOutcomesRequest) error
	stream   func(grpc.BidiStreamingServer[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]) error
	heard    func(*scorerv1.ScoreStreamRequest)
	said     func(*scorerv1.ScoreStreamResponse) *scorerv1.ScoreStreamResponse
}

// newFaulty returns a scorer without faults so far. A bare one lists no capability.
func newFaulty(t testing.TB, bare bool) *faulty {
	t.Helper()
	cfg := scorer.DefaultConfig()
	capabilities := []scorerv1.Capability{
		scorerv1.Capability_CAPABILITY_STREAM, scorerv1.Capability_CAPABILITY_EXPLAIN,
		scorerv1.Capability_CAPABILITY_TABLE_REFERENCE, scorerv1.Capability_CAPABILITY_OUTCOMES,
	}
	cfg.ReportOutcomes = func(context.Context, *scorerv1.ReportOutcomesRequest) error { return nil }
	if bare {
		capabilities, cfg.ReportOutcomes = nil, nil
	}
	s, err := scorer.NewServer("reference", "1", capabilities, []scorer.Type{reference{}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := health.NewServer()
	h.SetServingStatus(scorerv1.ScorerService_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)
	return &faulty{good: s, health: h}
}

func (f *faulty) GetScorerInfo(ctx context.Context, req *scorerv1.GetScorerInfoRequest) (*scorerv1.GetScorerInfoResponse, error) {
	m, err := f.good.GetScorerInfo(ctx, req)
	m = clone(m)
	if f.info != nil {
		f.info(m, f.infos.Add(1))
	}
	return m, err
}

func (f *faulty) ValidateParameters(ctx context.Context, req *scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error) {
	m, err := f.good.ValidateParameters(ctx, req)
	if m != nil {
		m = clone(m)
		m.EffectiveParametersJson = []byte(`{"salt":""}`)
		if len(m.GetFaults()) > 0 {
			m.EffectiveParametersJson = nil
		}
	}
	if f.validate != nil {
		return f.validate(req, m, err)
	}
	return m, err
}

func (f *faulty) Score(ctx context.Context, req *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
	nth := f.asked.Add(1)
	if f.before != nil {
		if err := f.before(ctx, nth, req); err != nil {
			return nil, err
		}
	}
	m, err := f.good.Score(ctx, req)
	if f.score != nil {
		return f.score(nth, req, m, err)
	}
	return m, err
}

func (f *faulty) ReportOutcomes(ctx context.Context, req *scorerv1.ReportOutcomesRequest) (*scorerv1.ReportOutcomesResponse, error) {
	if f.report != nil {
		if err := f.report(req); err != nil {
			return nil, err
		}
	}
	return f.good.ReportOutcomes(ctx, req)
}

func (f *faulty) ScoreStream(stream grpc.BidiStreamingServer[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]) error {
	if f.stream != nil {
		return f.stream(stream)
	}
	return f.good.ScoreStream(tapped{stream, f})
}

// tapped is a stream on which a faulty scorer hears and says wrong things.
type tapped struct {
	grpc.BidiStreamingServer[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]
	f *faulty
}

func (t tapped) RecvMsg(m any) error {
	err := t.BidiStreamingServer.RecvMsg(m)
	if req, ok := m.(*scorerv1.ScoreStreamRequest); ok && err == nil && t.f.heard != nil {
		t.f.heard(req)
	}
	return err
}

func (t tapped) Recv() (*scorerv1.ScoreStreamRequest, error) {
	m := &scorerv1.ScoreStreamRequest{}
	return m, t.RecvMsg(m)
}

func (t tapped) Send(m *scorerv1.ScoreStreamResponse) error {
	if t.f.said != nil {
		m = t.f.said(clone(m))
	}
	return t.BidiStreamingServer.Send(m)
}

// serve serves f on loopback and returns a connection to it.
func (f *faulty) serve(t testing.TB) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(8 << 20))
	scorerv1.RegisterScorerServiceServer(g, f)
	if f.health != nil {
		healthv1.RegisterHealthServer(g, f.health)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return conn
}
