package scorer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

func ids(n int) []string {
	v := make([]string, n)
	for i := range v {
		v[i] = fmt.Sprintf("endpoint-%04d", i)
	}
	return v
}

func TestRequestsThatBreakARuleNeverReachTheType(t *testing.T) {
	prefix := func(n int) *scorerv1.PrefixBlocks {
		return &scorerv1.PrefixBlocks{Scheme: "s", BlockSizeBytes: 64, Hashes: make([]uint64, n)}
	}
	pending := func(a, b, c int) *scorerv1.PendingPicks {
		return &scorerv1.PendingPicks{RouterId: "r", Sequences: make([]uint64, a), Positions: make([]uint32, b), UncachedTokenCounts: make([]uint32, c)}
	}
	usage := func(v float32) func(*scorerv1.ScoreRequest) {
		return func(r *scorerv1.ScoreRequest) {
			r.GetListed().Candidates[0].Load = &scorerv1.EndpointLoad{KvCacheUsageRatio: proto.Float32(v)}
		}
	}
	table := func(positions ...uint32) func(*scorerv1.ScoreRequest) {
		return func(r *scorerv1.ScoreRequest) { r.Candidates = byTable("", 1, positions...).Candidates }
	}
	cases := []struct {
		name  string
		spoil func(*scorerv1.ScoreRequest)
		field string // empty: good
	}{
		{"good", func(*scorerv1.ScoreRequest) {}, ""},
		{"alias", func(r *scorerv1.ScoreRequest) { r.ScorerType = "alias" }, ""},
		{"unknown type", func(r *scorerv1.ScoreRequest) { r.ScorerType = "x" }, "scorer_type: \"x\" is not served here; served here: a"},
		{"no type", func(r *scorerv1.ScoreRequest) { r.ScorerType = "" }, "scorer_type: missing; served here: a"},
		{"no request", func(r *scorerv1.ScoreRequest) { r.Request = nil }, "request: missing"},
		{"no request id", func(r *scorerv1.ScoreRequest) { r.Request.RequestId = "" }, "request.request_id: missing"},
		{"longest request id", func(r *scorerv1.ScoreRequest) { r.Request.RequestId = strings.Repeat("x", 128) }, ""},
		{"request id too long", func(r *scorerv1.ScoreRequest) { r.Request.RequestId = strings.Repeat("x", 129) }, "request.request_id: 129 bytes"},
		{"no candidates", func(r *scorerv1.ScoreRequest) { r.Candidates = nil }, "candidates: missing"},
		{"empty list", func(r *scorerv1.ScoreRequest) { r.GetListed().Candidates = nil }, "listed.candidates: 0"},
		{"most candidates", func(r *scorerv1.ScoreRequest) { r.Candidates = listed("", ids(4096)...).Candidates }, ""},
		{"too many candidates", func(r *scorerv1.ScoreRequest) { r.Candidates = listed("", ids(4097)...).Candidates }, "listed.candidates: 4097"},
		{"no endpoint id", func(r *scorerv1.ScoreRequest) { r.GetListed().Candidates[1].EndpointId = "" }, "listed.candidates[1].endpoint_id"},
		{"endpoint id too long", func(r *scorerv1.ScoreRequest) { r.GetListed().Candidates[1].EndpointId = strings.Repeat("x", 129) }, "listed.candidates[1].endpoint_id"},
		{"usage 0", usage(0), ""},
		{"usage 1", usage(1), ""},
		{"usage below 0", usage(-0.1), "kv_cache_usage_ratio: -0.1"},
		{"usage above 1", usage(1.1), "kv_cache_usage_ratio: 1.1"},
		{"usage NaN", usage(float32(math.NaN())), "kv_cache_usage_ratio: NaN"},
		{"most hashes", func(r *scorerv1.ScoreRequest) { r.Request.Prefix = prefix(8192) }, ""},
		{"no hashes", func(r *scorerv1.ScoreRequest) { r.Request.Prefix = prefix(0) }, ""},
		{"too many hashes", func(r *scorerv1.ScoreRequest) { r.Request.Prefix = prefix(8193) }, "request.prefix.hashes: 8193"},
		{"no scheme", func(r *scorerv1.ScoreRequest) { r.Request.Prefix = prefix(1); r.Request.Prefix.Scheme = "" }, "request.prefix.scheme"},
		{"no block size", func(r *scorerv1.ScoreRequest) { r.Request.Prefix = prefix(1); r.Request.Prefix.BlockSizeBytes = 0 }, "request.prefix.block_size_bytes"},
		{"pending", func(r *scorerv1.ScoreRequest) { r.Pending = pending(2, 2, 2) }, ""},
		{"pending of nobody", func(r *scorerv1.ScoreRequest) { r.Pending = &scorerv1.PendingPicks{} }, "pending.router_id"},
		{"pending without positions", func(r *scorerv1.ScoreRequest) { r.Pending = pending(2, 1, 2) }, "pending: columns"},
		{"pending without tokens", func(r *scorerv1.ScoreRequest) { r.Pending = pending(2, 2, 3) }, "pending: columns"},
		{"no digest", func(r *scorerv1.ScoreRequest) { r.Candidates = byTable("", 0).Candidates }, "table.table_digest"},
		{"positions not ascending", table(1, 0), "table.positions[1]: 0 after 1"},
		{"position twice", table(0, 1, 1), "table.positions[2]: 1 after 1"},
		{"position in no table", table(0, 4096), "table.positions[1]: 4096"},
		{"too many positions", table(make([]uint32, 4097)...), "table.positions: 4097"},
		{"parameters that are no object", func(r *scorerv1.ScoreRequest) { r.ParametersJson = []byte("7") }, "parameters of a: a JSON object is wanted"},
		{"parameters with faults", func(r *scorerv1.ScoreRequest) { r.ParametersJson = []byte(`{"bad":1}`) }, "parameters of a: bad: is not known; and more"},
	}
	typ := newStub("a", "alias")
	typ.parse = func(text []byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
		if string(text) == `{"bad":1}` {
			return nil, nil, []*scorerv1.ParameterFault{{Key: "bad", Message: "is not known"}, {Message: "and more"}}
		}
		return nil, nil, nil
	}
	c := dial(t, newServer(t, typ))
	r := connect(t, c)
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			req := listed("a", "x", "y")
			tc.spoil(req)
			before := typ.scores.Load()
			out, err := c.Score(t.Context(), req)
			streamed := r.call(req)[0]
			if tc.field == "" {
				if err != nil || !proto.Equal(out, streamed.GetResponse()) || typ.scores.Load() != before+2 {
					t.Errorf("Score = %v, %v; on the stream %v", out, err, streamed)
				}
				return
			}
			unary := unaryFault(t, err)
			if !unary.is(codes.InvalidArgument, "INVALID_REQUEST", tc.field) {
				t.Errorf("fault %+v, want it to name %s", unary, tc.field)
			}
			if got := streamFault(streamed); got != unary {
				t.Errorf("the stream says %+v, unary %+v", got, unary)
			}
			if typ.scores.Load() != before {
				t.Error("the type was called")
			}
		})
	}
}

func TestAnswersThatBreakARuleStayHere(t *testing.T) {
	reason := scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	cases := []struct {
		name string
		out  *scorerv1.ScoreResponse
		rule string // empty: good
	}{
		{"good", &scorerv1.ScoreResponse{Scores: []float32{0, 0.5, 1}}, ""},
		{"good with all else", &scorerv1.ScoreResponse{
			Scores: []float32{0, nan, 1}, AbstainedIndices: []uint32{1}, AbstainReason: reason, StateAge: durationpb.New(time.Second),
			MatchedBlockCounts: []uint32{1, 2, 3}, AppliedOutcomeSequence: 7, RequestsPerPoint: 8,
			Explanations: []*scorerv1.Explanation{{CandidateIndex: 2, Text: "x"}},
		}, ""},
		{"abstained on all", &scorerv1.ScoreResponse{AbstainedOnAll: true, AbstainReason: reason}, ""},
		{"abstained on each", &scorerv1.ScoreResponse{AbstainedIndices: []uint32{0, 1, 2}, AbstainReason: reason}, ""},
		{"no scores", &scorerv1.ScoreResponse{}, "scores: 0 for 3"},
		{"too few scores", &scorerv1.ScoreResponse{Scores: make([]float32, 2)}, "scores: 2 for 3"},
		{"too many scores", &scorerv1.ScoreResponse{Scores: make([]float32, 4)}, "scores: 4 for 3"},
		{"too few scores, the others abstained", &scorerv1.ScoreResponse{Scores: make([]float32, 2), AbstainedIndices: []uint32{2}, AbstainReason: reason}, "scores: 2 for 3"},
		{"abstained on all with scores", &scorerv1.ScoreResponse{Scores: make([]float32, 3), AbstainedOnAll: true, AbstainReason: reason}, "abstained_on_all"},
		{"NaN", &scorerv1.ScoreResponse{Scores: []float32{0, nan, 1}}, "scores[1]: NaN"},
		{"infinite", &scorerv1.ScoreResponse{Scores: []float32{0, 0, inf}}, "scores[2]: +Inf"},
		{"above 1", &scorerv1.ScoreResponse{Scores: []float32{1.0001, 0, 0}}, "scores[0]"},
		{"below 0", &scorerv1.ScoreResponse{Scores: []float32{0, -0.0001, 0}}, "scores[1]"},
		{"abstained beyond", &scorerv1.ScoreResponse{Scores: make([]float32, 3), AbstainedIndices: []uint32{3}, AbstainReason: reason}, "abstained_indices[0]: 3"},
		{"abstained twice", &scorerv1.ScoreResponse{Scores: make([]float32, 3), AbstainedIndices: []uint32{1, 1}, AbstainReason: reason}, "abstained_indices[1]: 1"},
		{"abstained descending", &scorerv1.ScoreResponse{Scores: make([]float32, 3), AbstainedIndices: []uint32{2, 1}, AbstainReason: reason}, "abstained_indices[1]: 1"},
		{"abstained for no reason", &scorerv1.ScoreResponse{Scores: make([]float32, 3), AbstainedIndices: []uint32{1}}, "abstain_reason"},
		{"abstained on all for no reason", &scorerv1.ScoreResponse{AbstainedOnAll: true}, "abstain_reason"},
		{"matches of others", &scorerv1.ScoreResponse{Scores: make([]float32, 3), MatchedBlockCounts: []uint32{1}}, "matched_block_counts: 1"},
		{"age below 0", &scorerv1.ScoreResponse{Scores: make([]float32, 3), StateAge: durationpb.New(-time.Second)}, "state_age"},
		{"age that is none", &scorerv1.ScoreResponse{Scores: make([]float32, 3), StateAge: &durationpb.Duration{Nanos: -1, Seconds: 1}}, "state_age"},
		{"less than no request a point", &scorerv1.ScoreResponse{Scores: make([]float32, 3), RequestsPerPoint: -1}, "requests_per_point: -1"},
		{"endless requests a point", &scorerv1.ScoreResponse{Scores: make([]float32, 3), RequestsPerPoint: inf}, "requests_per_point: +Inf"},
		{"requests a point that are none", &scorerv1.ScoreResponse{Scores: make([]float32, 3), RequestsPerPoint: nan}, "requests_per_point: NaN"},
		{"explanation of nothing", &scorerv1.ScoreResponse{Scores: make([]float32, 3), Explanations: []*scorerv1.Explanation{{CandidateIndex: 3, Text: "x"}}}, "explanations[0]"},
		{"explanation without text", &scorerv1.ScoreResponse{Scores: make([]float32, 3), Explanations: []*scorerv1.Explanation{{}}}, "explanations[0]"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			typ := newStub("a")
			typ.score = func(_ context.Context, _ any, _ *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
				proto.Merge(out, tc.out)
				return nil
			}
			log := &journal{}
			cfg := DefaultConfig()
			cfg.Log = log.logger()
			s := newServerWith(t, cfg, allCapabilities, typ)
			req := listed("a", "x", "y", "z")
			req.Explain = true
			out, err := s.Score(t.Context(), req)
			if tc.rule == "" {
				if err != nil || !proto.Equal(out, tc.out) {
					t.Errorf("Score = %v, %v, want %v", out, err, tc.out)
				}
				return
			}
			if f := unaryFault(t, err); !f.is(codes.Internal, "", "a broke the contract: ") || !strings.Contains(f.Message, tc.rule) {
				t.Errorf("fault %+v, want %s", f, tc.rule)
			}
			if !strings.Contains(log.String(), "a scorer type broke the contract") {
				t.Errorf("the log does not tell: %s", log)
			}

			cfg.CheckAnswers = false
			out, err = newServerWith(t, cfg, allCapabilities, typ).Score(t.Context(), req)
			if err != nil || !proto.Equal(out, tc.out) {
				t.Errorf("unchecked: Score = %v, %v", out, err)
			}
		})
	}
}

func TestAnswersForAWholeTableOfUnknownSize(t *testing.T) {
	reason := scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE
	for _, tc := range []struct {
		name string
		out  *scorerv1.ScoreResponse
		rule string
	}{
		{"scores", &scorerv1.ScoreResponse{Scores: make([]float32, 9), MatchedBlockCounts: make([]uint32, 9)}, ""},
		{"abstained on all", &scorerv1.ScoreResponse{AbstainedOnAll: true, AbstainReason: reason}, ""},
		{"abstained on each", &scorerv1.ScoreResponse{AbstainedIndices: []uint32{0, 1, 2}, AbstainReason: reason}, ""},
		{"nothing", &scorerv1.ScoreResponse{}, "scores: none"},
		{"unequal columns", &scorerv1.ScoreResponse{Scores: make([]float32, 9), MatchedBlockCounts: make([]uint32, 8)}, "matched_block_counts"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := checkAnswer(tc.out, -1)
			if (err == nil) != (tc.rule == "") || err != nil && !strings.Contains(err.Error(), tc.rule) {
				t.Errorf("checkAnswer = %v, want %q", err, tc.rule)
			}
		})
	}
}

func TestErrorsOfTypes(t *testing.T) {
	cases := []struct {
		name string
		err  error
		want fault
	}{
		{"invalid", InvalidRequest("position %d", 7), fault{codes.InvalidArgument, "INVALID_REQUEST", "position 7"}},
		{"not held", TableNotHeld(0xabc), fault{codes.FailedPrecondition, "TABLE_NOT_HELD", "table 0000000000000abc is not held here"}},
		{"overloaded", Overloaded("full"), fault{codes.ResourceExhausted, "OVERLOADED", "full"}},
		{"unavailable", Unavailable("no table yet"), fault{codes.Unavailable, "DEPENDENCY_UNAVAILABLE", "no table yet"}},
		{"wrapped", fmt.Errorf("score: %w", Overloaded("full")), fault{codes.ResourceExhausted, "OVERLOADED", "full"}},
		{"deadline", fmt.Errorf("look up: %w", context.DeadlineExceeded), fault{codes.DeadlineExceeded, "", "time of the call is over"}},
		{"cancelled", context.Canceled, fault{codes.Canceled, "", "cancelled"}},
		{"status", status.Error(codes.NotFound, "gone"), fault{codes.NotFound, "", "gone"}},
		{"status with a reason", contract(Overloaded("full")).GRPCStatus().Err(), fault{codes.ResourceExhausted, "OVERLOADED", "full"}},
		{"any other", errors.New("index 7"), fault{codes.Internal, "", "index 7"}},
	}
	typ := newStub("a")
	c := dial(t, newServer(t, typ))
	r := connect(t, c)
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			typ.score = func(_ context.Context, _ any, _ *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
				Scores(out, 3) // must not leave the process
				return tc.err
			}
			out, err := c.Score(t.Context(), listed("a", "x"))
			if got := unaryFault(t, err); !got.is(tc.want.Code, tc.want.Reason, tc.want.Message) || out != nil {
				t.Errorf("unary: %v, %+v, want %+v", out, got, tc.want)
			}
			a := r.call(listed("a", "x"))[0]
			if got := streamFault(a); got != unaryFault(t, err) || a.GetResponse() != nil {
				t.Errorf("stream: %v, want as unary", a)
			}
		})
	}
}

func TestAPanicFailsTheOneCall(t *testing.T) {
	typ := newStub("a")
	typ.score = func(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		Scores(out, 1)
		if req.GetRequest().GetModel() == "panic" {
			panic("the value, which may hold a prompt")
		}
		return nil
	}
	log := &journal{}
	cfg := DefaultConfig()
	cfg.Log = log.logger()
	c := dial(t, newServerWith(t, cfg, allCapabilities, typ))
	bad := listed("a", "x")
	bad.Request.Model = "panic"
	_, err := c.Score(t.Context(), bad)
	if f := unaryFault(t, err); f != (fault{codes.Internal, "", "a panicked; its log says where"}) {
		t.Errorf("unary: %+v", f)
	}
	answers := connect(t, c).call(listed("a", "x"), bad, listed("a", "x"))
	if f := streamFault(answers[1]); f.Code != codes.Internal {
		t.Errorf("stream: %v", answers[1])
	}
	for _, i := range []int{0, 2} {
		if answers[i].GetResponse() == nil {
			t.Errorf("call %d of the same batch: %v", i, answers[i])
		}
	}
	if got := log.String(); strings.Count(got, "a scorer type panicked") != 2 || !strings.Contains(got, "call_test.go") || strings.Contains(got, "prompt") {
		t.Errorf("the log does not say where, or says too much: %s", got)
	}
}

func TestExplanationsOnlyWhereAskedForAndListed(t *testing.T) {
	typ := newStub("a")
	typ.score = func(_ context.Context, _ any, _ *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		Scores(out, 1)
		out.Explanations = []*scorerv1.Explanation{{Text: "x"}}
		return nil
	}
	for _, tc := range []struct {
		name         string
		capabilities []scorerv1.Capability
		explain      bool
		want         int
	}{
		{"asked for and listed", allCapabilities, true, 1},
		{"not asked for", allCapabilities, false, 0},
		{"not listed", nil, true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := listed("a", "x")
			req.Explain = tc.explain
			out, err := newServerWith(t, DefaultConfig(), tc.capabilities, typ).Score(t.Context(), req)
			if err != nil || len(out.GetExplanations()) != tc.want {
				t.Errorf("Score = %v, %v, want %d explanations", out, err, tc.want)
			}
		})
	}
}

func TestUnaryTableReferences(t *testing.T) {
	follower := newStub("follower")
	follower.follows = true
	follower.score = func(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		if d := req.GetTable().GetTableDigest(); d != 1 {
			return TableNotHeld(d)
		}
		Scores(out, 3)
		return nil
	}
	s := newServer(t, follower, newStub("other"))
	if out, err := s.Score(t.Context(), byTable("follower", 1)); err != nil || len(out.GetScores()) != 3 {
		t.Errorf("a held table: %v, %v", out, err)
	}
	_, err := s.Score(t.Context(), byTable("follower", 2))
	if f := unaryFault(t, err); !f.is(codes.FailedPrecondition, "TABLE_NOT_HELD", "0000000000000002") {
		t.Errorf("a table that is not held: %+v", f)
	}
	_, err = s.Score(t.Context(), byTable("other", 1))
	if f := unaryFault(t, err); !f.is(codes.FailedPrecondition, "TABLE_NOT_HELD", "") {
		t.Errorf("a type that does not follow: %+v", f)
	}
	_, err = newServerWith(t, DefaultConfig(), nil, follower).Score(t.Context(), byTable("follower", 1))
	if f := unaryFault(t, err); !f.is(codes.Unimplemented, "", "CAPABILITY_TABLE_REFERENCE") {
		t.Errorf("without the capability: %+v", f)
	}
	if _, err := s.Score(t.Context(), byTable("follower", 1, 0, 1)); status.Code(err) != codes.Internal {
		t.Errorf("3 scores for 2 positions: %v", err)
	}
}
