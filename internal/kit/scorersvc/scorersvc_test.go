package scorersvc

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/run"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// evenScorer rates all candidates alike, except those called "new".
type evenScorer struct{ s *Service }

func (evenScorer) Info() *scorerv1.ScorerType { return &scorerv1.ScorerType{Name: "even-scorer"} }

func (evenScorer) Parse([]byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	return nil, nil, nil
}

func (e evenScorer) Score(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	candidates := req.GetListed().GetCandidates()
	scorer.Scores(out, len(candidates))
	for i, c := range candidates {
		if c.GetEndpointId() == "new" {
			scorer.Abstain(out, i, scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT)
			e.s.Abstained("even-scorer", scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT, 1)
		}
	}
	return nil
}

// ownConfig is that of a service with a setting of its own.
type ownConfig struct {
	Config `yaml:",inline"`

	Depth int `yaml:"depth"`
}

func (c ownConfig) Validate() error {
	var fault error
	if c.Depth < 0 {
		fault = errors.New("depth: must not be negative")
	}
	return errors.Join(c.Config.Validate(), fault)
}

// running is a service that runs.
type running struct {
	grpc, admin string
	stop        func() error
	order       chan string // listeners that are there, and what the service's own part does
}

// start runs a service called even-test until the test ends or stop is called.
func start(t *testing.T) *running {
	t.Helper()
	r := &running{order: make(chan string, 10)}
	url := kittest.NATS(t)
	listening := make(chan [2]string, 2)
	ctx, cancel := context.WithCancel(run.WithAnnounce(context.Background(), func(service, listener, addr string) {
		if service != "even-test" {
			t.Errorf("announced as %q", service)
		}
		r.order <- listener
		listening <- [2]string{listener, addr}
	}))
	done := make(chan error, 1)
	cfg := DefaultConfig()
	go func() {
		done <- Run(ctx, []string{"--set", "nats.url=" + url, "--set", "listen.grpc.address=127.0.0.1:0", "--set", "admin.address=127.0.0.1:0", "--set", "log.level=error"},
			io.Discard, "even-test", &cfg, func(s *Service) ([]scorer.Type, error) {
				s.Add("own", func(ctx context.Context, ready func()) error {
					if !s.Bus.Connected() {
						t.Error("the service's own part starts before the bus")
					}
					r.order <- "own part starts"
					ready()
					<-ctx.Done()
					r.order <- "own part stops"
					return nil
				})
				return []scorer.Type{evenScorer{s}}, nil
			})
	}()
	for range 2 {
		select {
		case a := <-listening:
			if a[0] == "grpc" {
				r.grpc = a[1]
			} else {
				r.admin = "http://" + a[1]
			}
		case err := <-done:
			t.Fatalf("the service ended: %v", err)
		case <-time.After(time.Minute):
			t.Fatal("the service does not listen")
		}
	}
	var result error
	stopped := false
	r.stop = func() error {
		if !stopped {
			cancel()
			result, stopped = <-done, true
		}
		return result
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return r
}

func listed(ids ...string) *scorerv1.ScoreRequest {
	candidates := &scorerv1.CandidateList{}
	for _, id := range ids {
		candidates.Candidates = append(candidates.Candidates, &scorerv1.Candidate{EndpointId: id})
	}
	return &scorerv1.ScoreRequest{
		ScorerType: "even-scorer", Request: &scorerv1.InferenceRequest{RequestId: "r"},
		Candidates: &scorerv1.ScoreRequest_Listed{Listed: candidates},
	}
}

func TestServiceServesCountsAndSaysThatItHasNoTable(t *testing.T) {
	r := start(t)
	conn, err := rpc.Dial(r.grpc, rpc.DefaultClientConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := scorerv1.NewScorerServiceClient(conn)
	for _, ids := range [][]string{{"a", "b"}, {"a", "new"}} {
		answer, err := client.Score(t.Context(), listed(ids...))
		if err != nil || len(answer.GetScores()) != 2 {
			t.Errorf("%v: %v, %v", ids, answer, err)
		}
	}
	if _, err := client.Score(t.Context(), listed()); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no candidates: %v, want INVALID_ARGUMENT", err)
	}
	info, err := client.GetScorerInfo(t.Context(), &scorerv1.GetScorerInfoRequest{})
	if err != nil || info.GetName() != "even-test" || !slices.Contains(info.GetCapabilities(), scorerv1.Capability_CAPABILITY_FOLLOWS_BROADCAST) {
		t.Errorf("info %v, %v", info, err)
	}
	metrics := page(t, r.admin+"/metrics")
	for _, want := range []string{
		`pointsman_even_test_calls_total{result="ok",type="even-scorer"} 2`,
		`pointsman_even_test_calls_total{result="invalidargument",type="even-scorer"} 1`,
		`pointsman_even_test_abstentions_total{reason="unknown_endpoint",type="even-scorer"} 1`,
		`pointsman_roster_endpoints 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics page lacks %s", want)
		}
	}
	if text := page(t, r.admin+"/readyz"); !strings.Contains(text, "roster") {
		t.Errorf("without a table, /readyz says %q", text)
	}
	health, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: scorerv1.ScorerService_ServiceDesc.ServiceName})
	if err != nil || health.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("without a table, health is %v, %v", health, err)
	}
}

func TestStreamsEndByThemselvesAtTheStop(t *testing.T) {
	r := start(t)
	conn, err := rpc.Dial(r.grpc, rpc.DefaultClientConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := scorerv1.NewScorerServiceClient(conn).ScoreStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&scorerv1.ScoreStreamRequest{RouterId: "router-1", Calls: []*scorerv1.StreamCall{{CallId: 1, TimeoutUs: 10e6, Request: listed("a")}}}); err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || m.GetAnswers()[0].GetResponse() == nil {
		t.Fatalf("answer %v, %v", m, err)
	}
	begun := time.Now()
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	// The scorer's own word, not that of a connection which broke or was cut off.
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "transport") {
		t.Errorf("the stream ended with %v after %v", err, time.Since(begun))
	}
	close(r.order)
	var order []string
	for what := range r.order {
		order = append(order, what)
	}
	if diff := cmp.Diff([]string{"admin", "own part starts", "grpc", "own part stops"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "even-test.yaml")
	text := "pool: from-file\ndepth: 3\nroster: {stalenessLimit: 7s}\nlog: {level: warn}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := ownConfig{Config: DefaultConfig()}
	if err := load("even-test", []string{"--config", file, "--pool", "by-flag", "--set", "pool=by-set", "--set", "listen.grpc.address=:1"}, io.Discard, &cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Pool != "by-flag" || cfg.Depth != 3 || cfg.Roster.StalenessLimit.D() != 7*time.Second || cfg.Telemetry.Log.Level != "warn" || cfg.Listen.GRPC.Address != ":1" {
		t.Errorf("settings %+v", cfg)
	}
	if cfg.Common().Pool != "by-flag" {
		t.Errorf("common settings %+v", cfg.Common())
	}
	if want := DefaultConfig(); want.Listen.GRPC.Address != ":9100" || want.Pool != "default" || want.Validate() != nil {
		t.Errorf("defaults %+v", want)
	}
}

func TestFaultsAndHelp(t *testing.T) {
	refuse := errors.New("the types cannot be made")
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"several at once":          {[]string{"--set", "pool=", "--set", "roster.stalenessLimit=0s", "--set", "listen.grpc.address=nowhere", "--set", "nats.url=x", "--set", "depth=-1"}, []string{"pool: ", "roster.stalenessLimit: ", "listen.grpc.address: ", "nats.url: ", "depth: "}},
		"unknown key":              {[]string{"--set", "listen.grcp.address=:1"}, []string{"did you mean grpc?"}},
		"unknown flag":             {[]string{"--nope"}, []string{"-nope"}},
		"no such file":             {[]string{"--config", "/does/not/exist.yaml"}, []string{"/does/not/exist.yaml"}},
		"types that are not there": {nil, []string{refuse.Error()}},
	} {
		cfg := ownConfig{Config: DefaultConfig()}
		err := Run(t.Context(), c.args, io.Discard, "even-test", &cfg, func(*Service) ([]scorer.Type, error) { return nil, refuse })
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v does not name %s", name, err, want)
			}
		}
	}
	var help strings.Builder
	cfg := DefaultConfig()
	if err := Run(t.Context(), []string{"--help"}, &help, "even-test", &cfg, nil); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
	for _, want := range []string{"even-test", "--config FILE", "--set", "--pool NAME"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("the help lacks %s:\n%s", want, help.String())
		}
	}
}

func page(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
