package remote

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/fanout"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// The simplest scorer: no capability at all. Candidates are listed, with what it asked
// for and nothing else.
func TestUnaryListed(t *testing.T) {
	waiting, running, kv := uint32(3), uint32(4), float32(0.5)
	labels := []*scorerv1.Label{{Name: "zone", Value: "b"}}
	adapters := &scorerv1.Adapters{Running: []string{"a"}, MaxCount: 8}
	load := &scorerv1.EndpointLoad{WaitingRequestCount: &waiting, RunningRequestCount: &running, KvCacheUsageRatio: &kv, CreditedRequestCount: 1, CreditedTokenCount: 30}
	for name, tc := range map[string]struct {
		inputs []scorerv1.Input
		want   []*scorerv1.Candidate
	}{
		"nothing": {nil, []*scorerv1.Candidate{{EndpointId: "e1000"}, {EndpointId: "e1001"}}},
		"labels": {[]scorerv1.Input{scorerv1.Input_INPUT_LABELS}, []*scorerv1.Candidate{
			{EndpointId: "e1000", Labels: labels}, {EndpointId: "e1001", Labels: labels},
		}},
		"load, which is unknown of one": {[]scorerv1.Input{scorerv1.Input_INPUT_LOAD}, []*scorerv1.Candidate{
			{EndpointId: "e1000", Load: load}, {EndpointId: "e1001"},
		}},
		"adapters": {[]scorerv1.Input{scorerv1.Input_INPUT_ADAPTERS}, []*scorerv1.Candidate{
			{EndpointId: "e1000", Adapters: adapters}, {EndpointId: "e1001"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHandmade("acme").only().needing(&scorerv1.InputNeeds{RequiredInputs: tc.inputs})
			r := newRig(t, one("acme", s.serve(t, "")), func(c *rigConfig) { c.size, c.labels = 2, []roster.Label{{Name: "zone", Value: "b"}} })
			err := r.roster.ApplyLoads(roster.Loads{
				TableDigest: r.roster.Snapshot().Table.Digest, AgeMS: []int32{5, -1}, Waiting: []int32{3, -1}, Running: []int32{4, -1}, KV: []float32{0.5, -1},
				Adapters: map[uint32]*roster.Adapters{0: {Running: []string{"a"}, Max: 8}},
			}, r.roster.Now())
			if err != nil {
				t.Fatal(err)
			}
			r.roster.Pick("router-1", 1, "e1000", 30, r.roster.Now()+int64(time.Hour))
			r.wantVerdict(r.ask(r.resolved("acme"))[0], route.Scored)
			got := s.seen()[0]
			if diff := cmp.Diff(tc.want, got.GetListed().GetCandidates(), protocmp.Transform(), protocmp.IgnoreFields(&scorerv1.EndpointLoad{}, "observe_time")); diff != "" {
				t.Error(diff)
			}
			if l := got.GetListed().GetCandidates()[0].GetLoad(); l != nil {
				if age := time.Since(l.GetObserveTime().AsTime()); age < 5*time.Millisecond || age > time.Minute {
					t.Errorf("observed %v ago", age)
				}
			}
			if got.GetExplain() || got.GetPending() != nil {
				t.Errorf("sent unasked: %v", got)
			}
			if tr := r.set.Status()[0].GetTransport(); tr != "unary" {
				t.Errorf("transport %q", tr)
			}
		})
	}
}

func notHeld() error {
	s, err := status.New(codes.FailedPrecondition, "which table?").WithDetails(&errdetails.ErrorInfo{Reason: tableNotHeld, Domain: errorDomain})
	if err != nil {
		return err
	}
	return s.Err()
}

// A table that the scorer does not hold is listed, once.
func TestUnaryTableNotHeld(t *testing.T) {
	s := newHandmade("acme").only(scorerv1.Capability_CAPABILITY_TABLE_REFERENCE)
	s.score = func(ctx context.Context, m *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
		if m.GetTable() != nil {
			return nil, notHeld()
		}
		return ones(ctx, m)
	}
	r := newRig(t, one("acme", s.serve(t, "")))
	sc := r.resolved("acme")
	r.wantVerdict(r.ask(sc)[0], route.Scored)
	if got := r.value("pointsman_router_scorer_table_retries_total", "scorer", "acme"); got != 1 {
		t.Errorf("%v retries, want 1", got)
	}
	seen := s.seen()
	if len(seen) != 2 || seen[0].GetTable().GetTableDigest() != r.roster.Snapshot().Table.Digest || len(seen[1].GetListed().GetCandidates()) != 4 {
		t.Errorf("asked %v", seen)
	}
	s.score = func(context.Context, *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) { return nil, notHeld() }
	r.wantVerdict(r.ask(sc)[0], route.Failed)
	if got := s.calls.Load(); got != 4 {
		t.Errorf("asked %d times, want four", got)
	}
}

func TestUnaryCancels(t *testing.T) {
	s := newHandmade("acme").only()
	cancelled := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	s.score = func(c context.Context, _ *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
		cancel()
		<-c.Done()
		close(cancelled)
		return nil, c.Err()
	}
	r := newRig(t, one("acme", s.serve(t, "")), withTimeout(time.Hour))
	sc := r.resolved("acme")
	c := r.cycle()
	r.wantVerdict(r.askAs(ctx, c, allOf(c), sc)[0], route.TimedOut)
	<-cancelled
	for _, rep := range r.set.services[3].replicas {
		kittest.Eventually(t, "the call to land", func() bool { return rep.open.Load() == 0 })
	}
}

// sampling is a tracer whose spans are all sampled.
type sampling struct{ noop.Tracer }

type sampledSpan struct{ noop.Span }

func (sampling) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return ctx, sampledSpan{}
}

func (sampledSpan) SpanContext() trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
}

func TestTraceContextTravels(t *testing.T) {
	for name, transport := range transports {
		t.Run(name, func(t *testing.T) {
			s := newHandmade("acme")
			r := newRig(t, []ScorerConfig{{Name: "acme", Target: s.serve(t, ""), Transport: transport}})
			var err error
			r.fan, err = fanout.New(fanout.DefaultConfig(), sampling{})
			if err != nil {
				t.Fatal(err)
			}
			sc := r.resolved("acme")
			c := r.cycle()
			r.askAs(trace.ContextWithSpan(t.Context(), sampledSpan{}), c, allOf(c), sc)
			r.askAs(t.Context(), c, allOf(c), sc)
			s.mu.Lock()
			defer s.mu.Unlock()
			if diff := cmp.Diff([]string{"00-01000000000000000000000000000000-0200000000000000-01"}, s.traces); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	for name, transport := range transports {
		for _, lists := range []bool{true, false} {
			s := newHandmade("acme")
			if lists {
				s.info.Capabilities = append(s.info.Capabilities, scorerv1.Capability_CAPABILITY_EXPLAIN)
			}
			s.score = func(ctx context.Context, m *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
				resp, err := ones(ctx, m)
				if m.GetExplain() {
					resp.Explanations = []*scorerv1.Explanation{{CandidateIndex: 2, Text: "near"}}
				}
				return resp, err
			}
			r := newRig(t, []ScorerConfig{{Name: "acme", Target: s.serve(t, ""), Transport: transport}})
			sc := r.resolved("acme")
			c := r.cycle()
			c.Explain = true
			out := r.askAs(t.Context(), c, allOf(c), sc)[0]
			r.wantVerdict(out, route.Scored)
			want := map[uint32]string(nil)
			if lists {
				want = map[uint32]string{2: "near"}
			}
			if diff := cmp.Diff(want, out.Texts); diff != "" {
				t.Errorf("%s, lists %v: %s", name, lists, diff)
			}
		}
	}
}

// What a prompt is made of reaches only those who ask for it, and a prompt that is too
// large for a stream is not sent at all.
func TestPromptText(t *testing.T) {
	s := newHandmade("acme").needing(&scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_PROMPT_TEXT}})
	r := newRig(t, []ScorerConfig{{Name: "acme", Target: s.serve(t, ""), PromptText: true}})
	sc := r.resolved("acme")
	c := r.cycle()
	c.Request.Prompt = text("hello")
	r.wantVerdict(r.askAs(t.Context(), c, allOf(c), sc)[0], route.Scored)
	if got := s.seen()[0].GetRequest().GetPromptText(); got != "hello" {
		t.Errorf("prompt %q", got)
	}
	c.Request.Prompt = text(strings.Repeat("x", maxCallBytes))
	out := r.askAs(t.Context(), c, allOf(c), sc)[0]
	r.wantVerdict(out, route.Skipped)
	if !strings.Contains(out.Reason, "larger than a scorer is sent") {
		t.Errorf("reason %q", out.Reason)
	}
	c.Request.Prompt = text("hello again")
	r.wantVerdict(r.askAs(t.Context(), c, allOf(c), sc)[0], route.Scored)
}

// chain is a prompt of a given number of blocks.
type chain int

func (n chain) Blocks(_, limit int) []uint64 { return make([]uint64, min(int(n), limit)) }
func (chain) Text() string                   { return "" }

// What a scorer asks for beyond the request: blocks that follow the cache, and tokens.
func TestFurtherNeeds(t *testing.T) {
	s := newHandmade("acme").needing(&scorerv1.InputNeeds{
		RequiredInputs:       []scorerv1.Input{scorerv1.Input_INPUT_PREFIX_BLOCKS},
		PrefixBlockSizeBytes: 64, PrefixBlockFollowsCache: true, SessionHeaderName: "x-session-token",
	})
	r := newRig(t, one("acme", s.serve(t, "")))
	in := r.resolved("acme").Asked.(*Instance)
	table, err := roster.NewTable([]roster.Endpoint{{ID: "a", Host: "h", Port: 1, CacheBlockSize: 32}})
	if err != nil {
		t.Fatal(err)
	}
	if size, limit := in.PrefixNeeds(table); size != 128 || limit != maxHashes {
		t.Errorf("blocks of %d bytes, %d at most", size, limit)
	}
	if size, _ := in.PrefixNeeds(&roster.Table{}); size != 64 {
		t.Errorf("blocks of %d bytes where nobody tells", size)
	}
	if h := in.SessionHeader(); h != "x-session-token" {
		t.Errorf("tokens in %q", h)
	}
}

func TestPrefixBlocks(t *testing.T) {
	for name, transport := range transports {
		t.Run(name, func(t *testing.T) {
			s := newHandmade("acme").needing(&scorerv1.InputNeeds{
				RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_PREFIX_BLOCKS}, PrefixBlockSizeBytes: 64, MaxPrefixBlocks: 256,
			})
			s.score = func(ctx context.Context, m *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
				resp, err := ones(ctx, m)
				n := uint32(len(m.GetRequest().GetPrefix().GetHashes()))
				resp.MatchedBlockCounts = []uint32{0, 1, n, n}
				resp.RequestsPerPoint = 3
				return resp, err
			}
			r := newRig(t, []ScorerConfig{{Name: "acme", Target: s.serve(t, ""), Transport: transport}})
			sc := r.resolved("acme")
			c := r.cycle()
			c.Request.Prompt = chain(300)
			out := r.askAs(t.Context(), c, allOf(c), sc)[0]
			r.wantVerdict(out, route.Scored)
			if !cmp.Equal(out.Matched, []uint32{0, 1, 256, 256}) || out.BlockSize != 64 || out.RequestsPerPoint != 3 {
				t.Errorf("matched %v of blocks of %d, %v requests per point", out.Matched, out.BlockSize, out.RequestsPerPoint)
			}
			if size, limit := sc.Asked.(*Instance).PrefixNeeds(&roster.Table{}); size != 64 || limit != 256 {
				t.Errorf("needs %d, %d", size, limit)
			}
			p := s.seen()[0].GetRequest().GetPrefix()
			if p.GetScheme() != route.Scheme || p.GetBlockSizeBytes() != 64 || len(p.GetHashes()) != 256 {
				t.Errorf("prefix of %d blocks, %s", len(p.GetHashes()), p.GetScheme())
			}
		})
	}
}
