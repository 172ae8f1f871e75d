package scorer

import (
	"context"
	"math"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// checking is a Type that fails the test if it is called with anything that the
// contract forbids.
func checking(t *testing.T) *stub {
	typ := newStub("a", "b")
	typ.score = func(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		list := req.GetListed().GetCandidates()
		if n := len(list); n == 0 || n > MaxCandidates || req.GetRequest().GetRequestId() == "" || len(req.GetRequest().GetPrefix().GetHashes()) > MaxHashes {
			t.Errorf("the type was called with %v", req)
		}
		scores := Scores(out, len(list))
		for i, c := range list {
			scores[i] = 1 - c.GetLoad().GetKvCacheUsageRatio()
			if v := c.GetLoad().GetKvCacheUsageRatio(); c.GetEndpointId() == "" || !(v >= 0 && v <= 1) {
				t.Errorf("the type was called with the candidate %v", c)
			}
		}
		return nil
	}
	return typ
}

func FuzzScore(f *testing.F) {
	rich := listed("a", "x", "y")
	rich.ParametersJson = []byte(`{"k":1}`)
	rich.Request.Prefix = &scorerv1.PrefixBlocks{Scheme: "s", BlockSizeBytes: 64, Hashes: []uint64{1, 2}}
	rich.GetListed().Candidates[0].Load = &scorerv1.EndpointLoad{KvCacheUsageRatio: proto.Float32(float32(math.NaN()))}
	rich.Pending = &scorerv1.PendingPicks{RouterId: "r", Sequences: []uint64{1}, Positions: []uint32{1}, UncachedTokenCounts: []uint32{1}}
	for _, m := range []*scorerv1.ScoreRequest{listed("a", "x"), rich, byTable("a", 1, 0, 2), byTable("b", 2), {}} {
		f.Add(marshal(f, m))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		req := &scorerv1.ScoreRequest{}
		if proto.Unmarshal(data, req) != nil {
			return
		}
		out, err := newServer(t, checking(t)).Score(t.Context(), req)
		if err == nil {
			if n := len(req.GetListed().GetCandidates()); len(out.GetScores()) != n {
				t.Errorf("%d scores for %d candidates", len(out.GetScores()), n)
			}
			return
		}
		if got := unaryFault(t, err); got.Reason != ReasonInvalidRequest && got.Reason != ReasonTableNotHeld {
			t.Errorf("a foreign request gives %+v", got)
		}
	})
}

// scripted is a stream that has one batch to read and keeps what is sent.
type scripted struct {
	grpc.ServerStream
	ctx  context.Context
	sent []*scorerv1.StreamAnswer
}

func (s *scripted) Context() context.Context { return s.ctx }

func (s *scripted) Recv() (*scorerv1.ScoreStreamRequest, error) { panic("not called") }

func (s *scripted) Send(m *scorerv1.ScoreStreamResponse) error {
	s.sent = append(s.sent, clone(m).GetAnswers()...)
	return nil
}

func FuzzStreamBatch(f *testing.F) {
	f.Add(marshal(f, &scorerv1.ScoreStreamRequest{
		Tables: []*scorerv1.TaughtTable{table3(7)},
		Loads:  []*scorerv1.TaughtLoads{{TableDigest: 7, AgeMs: []int32{1, -1, math.MaxInt32}, KvCacheUsageRatios: []float32{0, -1, 1}}},
		Calls:  []*scorerv1.StreamCall{streamCall(1, byTable("a", 7)), streamCall(2, byTable("a", 7, 0, 2)), streamCall(3, nil), {CallId: 4}},
	}))
	f.Add(marshal(f, &scorerv1.ScoreStreamRequest{Calls: []*scorerv1.StreamCall{streamCall(1, listed("b", "x"))}, CancelledCallIds: []uint64{1}}))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		batch := &scorerv1.ScoreStreamRequest{}
		if proto.Unmarshal(data, batch) != nil {
			return
		}
		stream := &scripted{ctx: t.Context()}
		se := &session{server: newServer(t, checking(t)), stream: stream}
		for range 2 {
			stream.sent = nil
			if err := se.handle(clone(batch), time.Now()); err != nil {
				if contract(err).Reason != ReasonInvalidRequest {
					t.Errorf("a foreign batch gives %v", err)
				}
				return
			}
			want := 0
			for _, c := range batch.GetCalls() {
				if !cancelled(batch, c.GetCallId()) {
					want++
				}
			}
			if len(stream.sent) != want {
				t.Errorf("%d answers to %d calls", len(stream.sent), want)
			}
			for _, a := range stream.sent {
				if code := codes.Code(a.GetError().GetCode()); code == codes.Internal || a.GetResult() == nil {
					t.Errorf("answer %v", a)
				}
			}
		}
	})
}

func marshal(f *testing.F, m proto.Message) []byte {
	f.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	return data
}
