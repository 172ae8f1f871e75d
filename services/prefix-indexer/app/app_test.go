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

	outcomes *bus.Publisher[*statev1.OutcomeBatch]
	tables   *bus.Publisher[*statev1.EndpointTable]
	prefixes *bus.Publisher[*statev1.PrefixBatch]
}

// start runs the service as its main does.
func start(t *testing.T, url string, sets ...string) *service {
	s := &service{t: t}
	addresses := make(chan [2]string, 2)
	ctx := run.WithAnnounce(context.Background(), func(_, listener, addr string) { addresses <- [2]string{listener, addr} })
	s.background(ctx, func(ctx context.Context) error {
		args := []string{"--pool", "p", "--set", "nats.url=" + url, "--set", "listen.grpc.address=127.0.0.1:0", "--set", "admin.address=127.0.0.1:0", "--set", "log.level=error", "--set", "join.greeting=200ms"}
		for _, set := range sets {
			args = append(args, "--set", set)
		}
		return Run(ctx, args, io.Discard)
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
	s.outcomes = bus.NewPublisher(b, bus.Outcome, func(m *statev1.OutcomeBatch, stamp *statev1.Stamp) { m.Stamp = stamp })
	s.prefixes = bus.NewPublisher(b, bus.Prefix, func(m *statev1.PrefixBatch, stamp *statev1.Stamp) { m.Stamp = stamp })
	connected := make(chan struct{})
	s.background(context.Background(), func(ctx context.Context) error { return b.Part()(ctx, func() { close(connected) }) })
	<-connected
	return s
}

// patient has an indexer wait for the answer of another one that is there, however busy the
// machine is.
const patient = "join.greeting=1m"

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

// publish tells that the pool is endpoints a, b, c…
func (s *service) publish(n int) {
	s.t.Helper()
	endpoints := make([]roster.Endpoint, n)
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
}

// place tells that endpoints were sent the beginning of a chain.
func (s *service) place(endpoints map[string]int, hashes []uint64) {
	s.t.Helper()
	m := &statev1.PrefixBatch{}
	for id, n := range endpoints {
		m.Placements = append(m.Placements, &statev1.PrefixPlacement{EndpointId: id, Scheme: "test", BlockSizeBytes: 64, Hashes: hashes[:n]})
	}
	if err := s.prefixes.Publish(m); err != nil {
		s.t.Fatal(err)
	}
}

// request asks for a prompt on all endpoints of the table.
func (s *service) request(hashes []uint64) *scorerv1.ScoreRequest {
	return &scorerv1.ScoreRequest{
		ScorerType: "prefix-cache-scorer", ParametersJson: []byte(`{"hashBlockSize":64}`),
		Request:    &scorerv1.InferenceRequest{RequestId: "r", Prefix: &scorerv1.PrefixBlocks{Scheme: "test", BlockSizeBytes: 64, Hashes: hashes}},
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

func (s *service) ready() bool {
	r, err := s.health.Check(s.t.Context(), &healthv1.HealthCheckRequest{Service: scorerv1.ScorerService_ServiceDesc.ServiceName})
	return err == nil && r.GetStatus() == healthv1.HealthCheckResponse_SERVING
}

var hashes = []uint64{11, 22, 33, 44}

func TestServiceLearnsFromTheBroadcast(t *testing.T) {
	url := kittest.NATS(t)
	s := start(t, url)
	if s.ready() {
		t.Error("ready although no table is known")
	}
	s.publish(3)
	kittest.Eventually(t, "ready", s.ready)
	want := &scorerv1.ScoreResponse{Scores: []float32{0, 0, 0}, MatchedBlockCounts: []uint32{0, 0, 0}}
	s.expect(want)

	s.place(map[string]int{"a": 4, "c": 1}, hashes)
	want = &scorerv1.ScoreResponse{Scores: []float32{1, 0, .25}, MatchedBlockCounts: []uint32{4, 0, 1}}
	kittest.Eventually(t, "the placements are learned", func() bool {
		r, err := s.client.Score(t.Context(), s.request(hashes))
		return err == nil && cmp.Equal(r.GetScores(), want.GetScores())
	})
	s.expect(want)

	// A second one copies what the first knows, and answers the same.
	other := start(t, url, patient)
	other.table = s.table
	s.publish(3)
	kittest.Eventually(t, "the second is ready", other.ready)
	other.expect(want)

	// Who leaves is forgotten.
	s.publish(2)
	kittest.Eventually(t, "the new table is held", func() bool {
		_, err := s.client.Score(t.Context(), s.request(hashes))
		return err == nil
	})
	kittest.Eventually(t, "c is forgotten", func() bool { return strings.Contains(s.page("/metrics"), "pointsman_prefix_indexer_index_entries 4\n") })

	metrics := s.page("/metrics")
	for _, want := range []string{
		`pointsman_prefix_indexer_calls_total{result="ok",type="prefix-cache-scorer"} `,
		`pointsman_prefix_indexer_evicted_entries_total{reason="gone"} 1`,
		`pointsman_prefix_indexer_best_match_ratio_bucket{le="1"} `,
		`pointsman_prefix_indexer_placements_total 2`,
		`pointsman_prefix_indexer_index_bytes `,
		`pointsman_roster_endpoints 2`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics page lacks %s", want)
		}
	}
	if want := "pointsman_prefix_indexer_copied_entries_total 5"; !strings.Contains(other.page("/metrics"), want) {
		t.Errorf("the second's metrics page lacks %s", want)
	}
}

// expect wants the answer by both ways.
func (s *service) expect(want *scorerv1.ScoreResponse) {
	s.t.Helper()
	unary, err := s.client.Score(s.t.Context(), s.request(hashes))
	if err != nil {
		s.t.Fatal(err)
	}
	streamed := s.stream(&scorerv1.ScoreStreamRequest{RouterId: "router-1", Calls: []*scorerv1.StreamCall{
		{CallId: 7, TimeoutUs: 10e6, Request: s.request(hashes)},
	}})[7].GetResponse()
	for how, got := range map[string]*scorerv1.ScoreResponse{"unary": unary, "stream": streamed} {
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			s.t.Errorf("%s (-want +got):\n%s", how, diff)
		}
	}
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
	s := start(t, kittest.NATS(t))
	s.publish(2)
	kittest.Eventually(t, "ready", s.ready)
	req := s.request(hashes)
	req.GetTable().TableDigest++
	if _, err := s.client.Score(t.Context(), req); err == nil || !strings.Contains(err.Error(), "FailedPrecondition") {
		t.Errorf("unary: error %v, want FAILED_PRECONDITION", err)
	}
	// On a stream the router has taught the table, and the endpoints are known by name.
	answers := s.stream(&scorerv1.ScoreStreamRequest{
		RouterId: "router-1",
		Tables:   []*scorerv1.TaughtTable{{TableDigest: req.GetTable().GetTableDigest(), Endpoints: []*scorerv1.TableEndpoint{{EndpointId: "a"}, {EndpointId: "new"}}}},
		Calls:    []*scorerv1.StreamCall{{CallId: 1, TimeoutUs: 10e6, Request: req}},
	})
	want := &scorerv1.ScoreResponse{
		Scores: []float32{0, 0}, MatchedBlockCounts: []uint32{0, 0}, AbstainedIndices: []uint32{1}, AbstainReason: scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT,
	}
	if diff := cmp.Diff(want, answers[1].GetResponse(), protocmp.Transform()); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestInfoAndParameters(t *testing.T) {
	s := start(t, kittest.NATS(t))
	info, err := s.client.GetScorerInfo(t.Context(), &scorerv1.GetScorerInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if info.GetName() != Name || info.GetVersion() == "" || len(info.GetTypes()) != 3 {
		t.Errorf("info %v", info)
	}
	for text, faults := range map[string]int{"": 0, `{"hashBlockSize": 5}`: 0, `{"hashBlockSize": 0, "nope": 1}`: 2} {
		v, err := s.client.ValidateParameters(t.Context(), &scorerv1.ValidateParametersRequest{ScorerType: "prefix-cache-scorer", ParametersJson: []byte(text)})
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
		"several at once": {[]string{"--set", "pool=", "--set", "index.maxBytes=1", "--set", "join.pageBytes=1", "--set", "listen.grpc.address=nowhere"}, []string{"pool", "index.maxBytes", "join.pageBytes", "listen.grpc.address"}},
		"no Redis":        {[]string{"--set", "store=redis", "--set", "keyTTL=1ms"}, []string{"redis.address", "keyTTL"}},
		"no such store":   {[]string{"--set", "store=reddis", "--set", "redis.budget=0s"}, []string{"neither memory nor redis", "redis.budget"}},
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
