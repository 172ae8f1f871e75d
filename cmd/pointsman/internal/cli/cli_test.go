package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pointsman/pointsman/internal/kit/run"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	time.Local = time.UTC // what is printed in local time is the same everywhere
	os.Exit(m.Run())
}

// fake is a router that answers always the same.
type fake struct {
	routerv1.UnimplementedRouterServiceServer
	asked *routerv1.ExplainRequest
}

func ptr[T any](v T) *T { return &v }

func picked(n string) *routerv1.PickedEndpoint {
	return &routerv1.PickedEndpoint{EndpointId: "e" + n, Address: "127.0.0.1:900" + n}
}

func testDecision() *routerv1.Decision {
	return &routerv1.Decision{
		RequestId: "r-1", DecideTime: timestamppb.New(time.Date(2026, 5, 1, 12, 0, 0, 0, time.Local)), Elapsed: durationpb.New(1234 * time.Microsecond),
		Model: "sim-model", Path: "/v1/chat/completions", PromptTokenCount: 211, EndpointCount: 3, Endpoint: picked("2"), Fallbacks: []*routerv1.PickedEndpoint{picked("1")},
		Profiles: []*routerv1.ProfileDecision{{
			Profile: "default", Picker: "max-score-picker", TieBreak: "fewest in flight", Picked: []*routerv1.PickedEndpoint{picked("2")}, Total: 4.5,
			Scorers: []*routerv1.ScorerDecision{
				{Plugin: "queue-scorer", Scorer: "scorer-queue", Weight: 2, Verdict: routerv1.ScorerVerdict_SCORER_VERDICT_SCORED, Elapsed: durationpb.New(400 * time.Microsecond), StateAge: durationpb.New(31 * time.Millisecond), PickedScore: ptr(1.0)},
				{Plugin: "prefix-cache-scorer", Scorer: "prefix-indexer", Weight: 3, Verdict: routerv1.ScorerVerdict_SCORER_VERDICT_TIMEOUT, Reason: "no answer within 20ms", Elapsed: durationpb.New(20 * time.Millisecond)},
			},
			Candidates: []*routerv1.CandidateDecision{
				{Endpoint: picked("1"), Total: 2, InFlightRequestCount: 3, WaitingRequestCount: ptr(uint32(4)), RunningRequestCount: ptr(uint32(8)), KvCacheUsageRatio: ptr(0.5), LoadAge: durationpb.New(12 * time.Millisecond),
					Scores: []*routerv1.CandidateScore{{Raw: 0, Text: "4 waiting, pool 0–4"}, {Raw: 0.25, Abstained: true}}},
				{Endpoint: picked("2"), Total: 4.5, Scores: []*routerv1.CandidateScore{{Raw: 1}, {Raw: 0.25, Abstained: true}}},
				{Endpoint: picked("3"), DroppedBy: "low-queue-filter"},
			},
		}},
	}
}

// stagedDecision is one of a request that others encode and prefill, or would, if they
// could.
func stagedDecision() *routerv1.Decision {
	d := testDecision()
	d.Disaggregation, d.SendAddress = "encode-decode", "127.0.0.1:8000"
	d.Profiles[0].Profile, d.Profiles[0].Candidates = "decode", nil
	d.Profiles = append(d.Profiles, &routerv1.ProfileDecision{Profile: "prefill", Picker: "max-score-picker", Error: "filter \"prefill-filter\" left none of 3 endpoints"})
	d.Stages = []*routerv1.Stage{{Stage: "encode", Profile: "encode", Endpoints: []*routerv1.PickedEndpoint{picked("4"), picked("5")}, Fallbacks: []*routerv1.PickedEndpoint{picked("6"), picked("7")}}}
	d.SkippedStages = []*routerv1.SkippedStage{
		{Stage: "prefill", Reason: "no-endpoint", Text: "filter \"prefill-filter\" left none of 3 endpoints"},
		{Stage: "prefill", Reason: "decider-declined", Text: "most of the prompt is cached where it is decoded", PromptTokenCount: ptr(uint32(211)), CachedTokenCount: ptr(uint32(192))},
		{Stage: "prefill", Reason: "decider-declined", Text: "the prompt is short", PromptTokenCount: ptr(uint32(211))},
	}
	return d
}

func (f *fake) Explain(_ context.Context, in *routerv1.ExplainRequest) (*routerv1.ExplainResponse, error) {
	f.asked = in
	d := testDecision()
	d.DryRun = true
	m := &routerv1.ExplainResponse{Decision: d}
	if in.GetRequest().GetPath() == "/staged" {
		m.Decision = stagedDecision()
	}
	if string(in.GetRequest().GetBody()) == "junk" {
		m.BodyNotUnderstood = "not JSON that can be\x1b read"
	}
	return m, nil
}

func (*fake) ListEndpoints(context.Context, *routerv1.ListEndpointsRequest) (*routerv1.ListEndpointsResponse, error) {
	return &routerv1.ListEndpointsResponse{TableDigest: "00000000deadbeef", StateAge: durationpb.New(40 * time.Millisecond), Endpoints: []*routerv1.EndpointStatus{
		{Endpoint: picked("1"), Engine: "vllm", Models: []string{"sim-model"}, WaitingRequestCount: ptr(uint32(0)), RunningRequestCount: ptr(uint32(2)), KvCacheUsageRatio: ptr(0.125), LoadAge: durationpb.New(9 * time.Millisecond), InFlightRequestCount: 2},
		{Endpoint: picked("2"), QuarantineReason: "connection refused"},
	}}, nil
}

func (*fake) ListScorers(context.Context, *routerv1.ListScorersRequest) (*routerv1.ListScorersResponse, error) {
	return &routerv1.ListScorersResponse{Scorers: []*routerv1.ScorerStatus{
		{Name: "scorer-queue", Target: "dns:///scorer-queue:9100", Version: "v1", ScorerTypes: []string{"queue-scorer", "running-requests-size-scorer"}, Breaker: "closed", Transport: "stream", CallCount: 7,
			Replicas: []*routerv1.ScorerReplica{{Address: "10.0.0.1:9100", Ready: true}, {Address: "10.0.0.2:9100", Reason: "connecting"}}},
		{Name: "acme", Target: "acme:1", Breaker: "open", LastError: "scores[2] is NaN", LastErrorAge: durationpb.New(3 * time.Second), CallCount: 9, FailureCount: 9},
	}}, nil
}

func (*fake) WatchDecisions(in *routerv1.WatchDecisionsRequest, out grpc.ServerStreamingServer[routerv1.WatchDecisionsResponse]) error {
	failed := &routerv1.Decision{DecideTime: testDecision().DecideTime, Model: "other", Error: "no endpoint can serve the request"}
	for i, d := range []*routerv1.Decision{testDecision(), failed, stagedDecision()} {
		if err := out.Send(&routerv1.WatchDecisionsResponse{Decision: d, DroppedCount: uint64(3 * i)}); err != nil {
			return err
		}
	}
	if !in.GetPastOnly() {
		<-out.Context().Done()
	}
	return nil
}

func startFake(t *testing.T) (*fake, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, s := &fake{}, grpc.NewServer()
	routerv1.RegisterRouterServiceServer(s, f)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return f, l.Addr().String()
}

func TestWhatCommandsPrint(t *testing.T) {
	f, address := startFake(t)
	body := filepath.Join(t.TempDir(), "request.json")
	if err := os.WriteFile(body, []byte(`{"model":"sim-model"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
	}{
		{"explain-junk", []string{"explain", "-f", junk}},
		{"explain", []string{"explain", "-f", body, "-H", "x-a: 1", "--path", "/v1/completions"}},
		{"explain-staged", []string{"explain", "-f", body, "--path", "/staged"}},
		{"explain-json", []string{"explain", "-f", body, "-o", "json"}},
		{"endpoints", []string{"endpoints"}},
		{"endpoints-json", []string{"endpoints", "-o", "json"}},
		{"scorers", []string{"scorers"}},
		{"scorers-json", []string{"scorers", "-o", "json"}},
		{"decisions", []string{"decisions"}},
		{"decisions-candidates", []string{"decisions", "--candidates"}},
		{"decisions-json", []string{"decisions", "-o", "json"}},
		{"help", []string{"help"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := tc.args
			if args[0] != "help" {
				args = append(args, "--router", address)
			}
			var out bytes.Buffer
			if err := Run(context.Background(), args, &out); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", tc.name+".golden")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), out.String()); d != "" {
				t.Error(d)
			}
		})
	}
	if h := f.asked.GetRequest(); h.GetPath() != "" || string(h.GetBody()) != `{"model":"sim-model"}` {
		t.Errorf("the last explanation was asked for with %v", h)
	}
}

func TestFaultsOfTheCommandLine(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		want  string
		usage bool
	}{
		"no command":       {nil, "which command", true},
		"unknown command":  {[]string{"explode"}, `"explode"`, true},
		"unknown flag":     {[]string{"scorers", "--nope"}, "nope", true},
		"left over":        {[]string{"scorers", "x"}, `"x"`, true},
		"format":           {[]string{"scorers", "-o", "xml"}, "xml", true},
		"no body":          {[]string{"explain"}, "-f FILE", true},
		"no such body":     {[]string{"explain", "-f", "/does/not/exist"}, "/does/not/exist", false},
		"header":           {[]string{"explain", "-H", "nocolon"}, "nocolon", true},
		"nobody listening": {[]string{"scorers", "--router", "127.0.0.1:1"}, "127.0.0.1:1", false},
		"up, too many":     {[]string{"up", "--servers", "65"}, "--servers 65", true},
		"up, two configs":  {[]string{"up", "--configFile", "a", "--configText", "b"}, "--configFile", true},
		"up, unknown flag": {[]string{"up", "--bogus"}, "bogus", true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := Run(context.Background(), tc.args, &out)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one that names %s", err, tc.want)
			}
			var usage run.UsageError
			if errors.As(err, &usage) != tc.usage {
				t.Errorf("%v: usage error %t, want %t", err, !tc.usage, tc.usage)
			}
		})
	}
}
