package app

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is the running service and a stand-in for the rest of the pool.
type service struct {
	t      *testing.T
	client scorerv1.ScorerServiceClient
	health healthv1.HealthClient
	admin  string
	table  *roster.Table

	tables   *bus.Publisher[*statev1.EndpointTable]
	loads    *bus.Publisher[*statev1.EndpointLoads]
	outcomes *bus.Publisher[*statev1.OutcomeBatch]
}

// start runs the service as its main does, on a NATS server of its own.
func start(t *testing.T) *service {
	url := kittest.NATS(t)
	s := &service{t: t}
	addresses := make(chan [2]string, 2)
	ctx := run.WithAnnounce(context.Background(), func(_, listener, addr string) { addresses <- [2]string{listener, addr} })
	s.background(ctx, func(ctx context.Context) error {
		return Run(ctx, []string{"--pool", "p", "--set", "nats.url=" + url, "--set", "listen.grpc.address=127.0.0.1:0", "--set", "admin.address=127.0.0.1:0", "--set", "log.level=error"}, io.Discard)
	})
	for range 2 {
		select {
		case a := <-addresses:
			if a[0] == "admin" {
				s.admin = "http://" + a[1]
				continue
			}
			conn, err := rpc.Dial(a[1], rpc.DefaultClientConfig())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			s.client, s.health = scorerv1.NewScorerServiceClient(conn), healthv1.NewHealthClient(conn)
		case <-time.After(time.Minute):
			t.Fatal("the service does not listen")
		}
	}
	cfg := bus.DefaultConfig()
	cfg.URL = url
	b, err := bus.New(cfg, "p", "the-others", telemetry.Discard())
	if err != nil {
		t.Fatal(err)
	}
	s.tables = bus.NewPublisher(b, bus.Table, func(m *statev1.EndpointTable, stamp *statev1.Stamp) { m.Stamp = stamp })
	s.loads = bus.NewPublisher(b, bus.Load, func(m *statev1.EndpointLoads, stamp *statev1.Stamp) { m.Stamp = stamp })
	s.outcomes = bus.NewPublisher(b, bus.Outcome, func(m *statev1.OutcomeBatch, stamp *statev1.Stamp) { m.Stamp = stamp })
	connected := make(chan struct{})
	s.background(context.Background(), func(ctx context.Context) error { return b.Part()(ctx, func() { close(connected) }) })
	<-connected
	return s
}

// background runs f until the test ends and fails the test if f does.
func (s *service) background(ctx context.Context, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("stop: %v", err)
		}
	})
}

// publish tells of endpoints with waiting and running requests.
func (s *service) publish(waiting, running []int32) {
	s.t.Helper()
	endpoints := make([]roster.Endpoint, len(waiting))
	for i := range endpoints {
		endpoints[i] = roster.Endpoint{ID: roster.ID(rune('a' + i)), Host: "10.0.0.1", Port: uint16(1 + i)}
	}
	table, err := roster.NewTable(endpoints)
	if err != nil {
		s.t.Fatal(err)
	}
	s.table = table
	m := follower.TableProto(table)
	m.ChangeTime = timestamppb.Now()
	if err := s.tables.Publish(m); err != nil {
		s.t.Fatal(err)
	}
	loads := &statev1.EndpointLoads{TableDigest: table.Digest, WaitingRequestCounts: waiting, RunningRequestCounts: running, AgeMs: make([]int32, len(waiting))}
	// Subjects overtake each other, and loads before their table are dropped.
	kittest.Eventually(s.t, "the loads are known", func() bool {
		if err := s.loads.Publish(loads); err != nil {
			s.t.Fatal(err)
		}
		r, err := s.client.Score(s.t.Context(), s.request("queue-scorer"))
		return err == nil && !r.GetAbstainedOnAll()
	})
}

func (s *service) request(scorerType string) *scorerv1.ScoreRequest {
	return &scorerv1.ScoreRequest{
		ScorerType: scorerType,
		Request:    &scorerv1.InferenceRequest{RequestId: "r"},
		Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: s.table.Digest}},
	}
}

// stream sends one batch and returns its answers by call.
func (s *service) stream(batch *scorerv1.ScoreStreamRequest) map[uint64]*scorerv1.StreamAnswer {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	stream, err := s.client.ScoreStream(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := stream.Send(batch); err != nil {
		s.t.Fatal(err)
	}
	answers := make(map[uint64]*scorerv1.StreamAnswer)
	for len(answers) < len(batch.GetCalls()) {
		m, err := stream.Recv()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, a := range m.GetAnswers() {
			answers[a.GetCallId()] = a
		}
	}
	return answers
}

func TestServiceFollowsTheBroadcast(t *testing.T) {
	s := start(t)
	ready := func() bool {
		r, err := s.health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: scorerv1.ScorerService_ServiceDesc.ServiceName})
		return err == nil && r.GetStatus() == healthv1.HealthCheckResponse_SERVING
	}
	if ready() {
		t.Error("ready although no table is known")
	}
	s.publish([]int32{10, 5, 0}, []int32{3, 1, 2})
	kittest.Eventually(t, "ready", ready)

	for scorerType, want := range map[string][]float32{"queue-scorer": {0, .5, 1}, "running-requests-size-scorer": {0, 1, .5}} {
		unary, err := s.client.Score(t.Context(), s.request(scorerType))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, unary.GetScores()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", scorerType, diff)
		}
		streamed := s.stream(&scorerv1.ScoreStreamRequest{RouterId: "router-1", Calls: []*scorerv1.StreamCall{
			{CallId: 7, TimeoutUs: 10e6, Request: s.request(scorerType)},
		}})[7].GetResponse()
		if diff := cmp.Diff(unary, streamed, protocmp.Transform(), protocmp.IgnoreFields(unary, "state_age")); diff != "" {
			t.Errorf("%s, unary and stream differ:\n%s", scorerType, diff)
		}
	}

	// Picks of any router count at once.
	err := s.outcomes.Publish(&statev1.OutcomeBatch{Events: []*statev1.OutcomeEvent{
		picked(1, "c"), picked(2, "c"), picked(3, "c"), picked(4, "c"), picked(5, "c"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the picks count", func() bool {
		r, err := s.client.Score(t.Context(), s.request("queue-scorer"))
		return err == nil && cmp.Equal(r.GetScores(), []float32{0, 1, 1})
	})

	metrics := s.page("/metrics")
	for _, want := range []string{
		`pointsman_scorer_queue_calls_total{result="ok",type="running-requests-size-scorer"} 2`,
		`pointsman_roster_endpoints 3`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics page lacks %s", want)
		}
	}
}

func picked(id uint64, endpoint string) *statev1.OutcomeEvent {
	return &statev1.OutcomeEvent{PickId: id, Event: &statev1.OutcomeEvent_Picked{Picked: &statev1.Picked{EndpointId: endpoint}}}
}

func (s *service) page(path string) string {
	s.t.Helper()
	r, err := http.Get(s.admin + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func TestTableUnknownToTheService(t *testing.T) {
	s := start(t)
	s.publish([]int32{4, 2}, []int32{0, 0})
	req := s.request("queue-scorer")
	req.GetTable().TableDigest++
	if _, err := s.client.Score(t.Context(), req); err == nil || !strings.Contains(err.Error(), "FailedPrecondition") {
		t.Errorf("unary: error %v, want FAILED_PRECONDITION", err)
	}
	// On a stream the router has taught the table, and the endpoints are known by name.
	answers := s.stream(&scorerv1.ScoreStreamRequest{
		RouterId: "router-1",
		Tables:   []*scorerv1.TaughtTable{{TableDigest: req.GetTable().GetTableDigest(), Endpoints: []*scorerv1.TableEndpoint{{EndpointId: "a"}, {EndpointId: "b"}, {EndpointId: "new"}}}},
		Calls:    []*scorerv1.StreamCall{{CallId: 1, TimeoutUs: 10e6, Request: req}},
	})
	want := &scorerv1.ScoreResponse{Scores: []float32{0, 1, 0}, RequestsPerPoint: 2, AbstainedIndices: []uint32{2}, AbstainReason: scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT}
	got := answers[1].GetResponse()
	if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(want, "state_age")); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	metrics := s.page("/metrics")
	for _, want := range []string{
		`pointsman_scorer_queue_calls_total{result="failedprecondition",type="queue-scorer"} `,
		`pointsman_scorer_queue_abstentions_total{reason="unknown_endpoint",type="queue-scorer"} `,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics page lacks %s", want)
		}
	}
}

func TestInfoAndParameters(t *testing.T) {
	s := start(t)
	info, err := s.client.GetScorerInfo(t.Context(), &scorerv1.GetScorerInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if info.GetName() != Name || info.GetVersion() == "" || len(info.GetTypes()) != 6 {
		t.Errorf("info %v", info)
	}
	for text, faults := range map[string]int{"": 0, "{}": 0, `{"threshold":1}`: 1} {
		v, err := s.client.ValidateParameters(t.Context(), &scorerv1.ValidateParametersRequest{ScorerType: "queue-scorer", ParametersJson: []byte(text)})
		if err != nil || len(v.GetFaults()) != faults {
			t.Errorf("%s: %v, %v, want %d faults", text, v, err, faults)
		}
	}
}

func TestFaultsOfTheConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"several at once": {[]string{"--set", "pool=", "--set", "roster.stalenessLimit=0s", "--set", "listen.grpc.address=nowhere"}, []string{"pool", "roster.stalenessLimit", "listen.grpc.address"}},
		"unknown key":     {[]string{"--set", "listen.grcp.address=:1"}, []string{"did you mean grpc?"}},
		"unknown flag":    {[]string{"--nope"}, []string{"-nope"}},
		"no such file":    {[]string{"--config", "/does/not/exist.yaml"}, []string{"/does/not/exist.yaml"}},
	} {
		err := Run(t.Context(), c.args, io.Discard)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v does not name %s", name, err, want)
			}
		}
	}
}
