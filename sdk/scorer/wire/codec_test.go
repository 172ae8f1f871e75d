package wire

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

func request() *scorerv1.ScoreStreamRequest {
	tokens := uint32(7)
	return &scorerv1.ScoreStreamRequest{
		RouterId: "router-1",
		Tables: []*scorerv1.TaughtTable{{TableDigest: 9, Endpoints: []*scorerv1.TableEndpoint{
			{EndpointId: "a", Labels: []*scorerv1.Label{{Name: "zone", Value: "1"}}}, {EndpointId: "b"},
		}}},
		Loads:            []*scorerv1.TaughtLoads{{TableDigest: 9, AgeMs: []int32{-1, 5}, KvCacheUsageRatios: []float32{-1, 0.5}}},
		CancelledCallIds: []uint64{3, 1 << 60},
		Calls: []*scorerv1.StreamCall{
			{CallId: 1, TimeoutUs: 20_000, Traceparent: "00-1", Request: &scorerv1.ScoreRequest{
				ScorerType: "x", ParametersJson: []byte(`{"a":1}`), Explain: true,
				Request: &scorerv1.InferenceRequest{
					RequestId: "r", Model: "m", PromptTokenCount: &tokens, Priority: -1,
					Prefix:  &scorerv1.PrefixBlocks{Scheme: "s", BlockSizeBytes: 64, Hashes: []uint64{1, math.MaxUint64}},
					Headers: []*scorerv1.Header{{Name: "h", Value: "v"}},
				},
				Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: 9, Positions: []uint32{0, 300}}},
				Pending:    &scorerv1.PendingPicks{RouterId: "router-1", Sequences: []uint64{1}, Positions: []uint32{2}, UncachedTokenCounts: []uint32{3}},
			}},
			{CallId: 2, Request: &scorerv1.ScoreRequest{Candidates: &scorerv1.ScoreRequest_Listed{Listed: &scorerv1.CandidateList{Candidates: []*scorerv1.Candidate{{EndpointId: "a"}}}}}},
		},
	}
}

func response() *scorerv1.ScoreStreamResponse {
	return &scorerv1.ScoreStreamResponse{Answers: []*scorerv1.StreamAnswer{
		{CallId: 1, Result: &scorerv1.StreamAnswer_Response{Response: &scorerv1.ScoreResponse{
			Scores: []float32{0, 0.5, float32(math.Inf(1))}, AbstainedIndices: []uint32{2}, AbstainReason: scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE,
			StateAge: durationpb.New(time.Second), MatchedBlockCounts: []uint32{1, 2, 3}, AppliedOutcomeSequence: 8, RequestsPerPoint: 4,
			Explanations: []*scorerv1.Explanation{{CandidateIndex: 1, Text: "w"}},
		}}},
		{CallId: 2, Result: &scorerv1.StreamAnswer_Error{Error: &scorerv1.Status{Code: 9, Reason: "TABLE_NOT_HELD", Message: "no"}}},
		{CallId: 3, Result: &scorerv1.StreamAnswer_Response{Response: &scorerv1.ScoreResponse{AbstainedOnAll: true}}},
	}}
}

func messages() []proto.Message {
	return []proto.Message{request(), response(), &scorerv1.ScoreStreamRequest{}, &scorerv1.GetScorerInfoResponse{Name: "n", Types: []*scorerv1.ScorerType{{Name: "t"}}}, &emptypb.Empty{}}
}

// What one side's codec writes the other reads, whichever it has.
func TestSameBytesAsOthers(t *testing.T) {
	for _, m := range messages() {
		t.Run(string(m.ProtoReflect().Descriptor().FullName()), func(t *testing.T) {
			ours, err := Codec().Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			back := m.ProtoReflect().New().Interface()
			whole := ours.MaterializeToBuffer(mem.DefaultBufferPool())
			if err := proto.Unmarshal(whole.ReadOnlyData(), back); err != nil {
				t.Fatal(err)
			}
			whole.Free()
			if diff := cmp.Diff(m, back, protocmp.Transform()); diff != "" {
				t.Errorf("others read: %s", diff)
			}
			ours.Free()
			theirs, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			proto.Reset(back)
			if err := Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(theirs)}, back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, back, protocmp.Transform()); diff != "" {
				t.Errorf("we read: %s", diff)
			}
		})
	}
}

// A message that is received into again holds nothing of the one before.
func TestUsedAgain(t *testing.T) {
	var m scorerv1.ScoreStreamRequest
	var r scorerv1.ScoreStreamResponse
	small := &scorerv1.ScoreStreamRequest{Calls: []*scorerv1.StreamCall{{CallId: 5, Request: &scorerv1.ScoreRequest{Request: &scorerv1.InferenceRequest{RequestId: "q"}}}}}
	short := &scorerv1.ScoreStreamResponse{Answers: []*scorerv1.StreamAnswer{{CallId: 9, Result: &scorerv1.StreamAnswer_Response{Response: &scorerv1.ScoreResponse{Scores: []float32{1}}}}}}
	for _, want := range []proto.Message{request(), small, request(), &scorerv1.ScoreStreamRequest{}, small} {
		decode(t, want, &m)
	}
	for _, want := range []proto.Message{response(), short, response(), short} {
		decode(t, want, &r)
	}
}

func decode(t *testing.T, want, into proto.Message) {
	t.Helper()
	b, err := proto.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if err := Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, into); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, into, protocmp.Transform(), protocmp.IgnoreEmptyMessages()); diff != "" {
		t.Error(diff)
	}
}

func TestReceivingIntoTheSameMessageAllocatesLittle(t *testing.T) {
	calls := &scorerv1.ScoreStreamRequest{}
	for i := range 64 {
		calls.Calls = append(calls.Calls, &scorerv1.StreamCall{CallId: uint64(i + 1), TimeoutUs: 1, Request: &scorerv1.ScoreRequest{
			ScorerType: "x", Request: &scorerv1.InferenceRequest{RequestId: "r"},
			Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: 9}},
		}})
	}
	b, err := proto.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	c, data := Codec(), mem.BufferSlice{mem.SliceBuffer(b)}
	var m scorerv1.ScoreStreamRequest
	n := testing.AllocsPerRun(20, func() {
		if err := c.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
	})
	if n > 64*5 { // two strings, what says that candidates are a table, and now and then what the collector took from the pools
		t.Errorf("%v allocations for 64 calls", n)
	}
}

// FuzzDecode holds the generated decoder against the reflective one. It refuses a known
// field of a wrong wire type, which the other takes for an unknown field; those may be lost.
func FuzzDecode(f *testing.F) {
	for _, m := range messages() {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []proto.Message{&scorerv1.ScoreStreamRequest{}, &scorerv1.ScoreStreamResponse{}} {
			want := m.ProtoReflect().New().Interface()
			if proto.Unmarshal(b, want) != nil {
				_ = Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m) // must not panic
				continue
			}
			if err := Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m); err == nil && !cmp.Equal(want, m, protocmp.Transform(), protocmp.IgnoreUnknown(), cmpopts.EquateNaNs()) {
				t.Fatalf("%T: %v, where others see %v", m, m, want)
			}
		}
	})
}
