package fanout

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestCheck(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tc := range []struct {
		name   string
		resp   *scorerv1.ScoreResponse
		expect Expect
		want   route.Scores
		kind   string
	}{
		{
			name: "scores",
			resp: &scorerv1.ScoreResponse{Scores: []float32{0, 0.5, 1}, StateAge: durationpb.New(20 * time.Millisecond)},
			want: route.Scores{Verdict: route.Scored, Values: []float32{0, 0.5, 1}, StateAge: 20 * time.Millisecond},
		},
		{
			name: "counts requests",
			resp: &scorerv1.ScoreResponse{Scores: []float32{0, 0.5, 1}, RequestsPerPoint: 8},
			want: route.Scores{Verdict: route.Scored, Values: []float32{0, 0.5, 1}, StateAge: -1, RequestsPerPoint: 8},
		},
		{
			name:   "matched blocks",
			resp:   &scorerv1.ScoreResponse{Scores: []float32{0, 0.5, 1}, MatchedBlockCounts: []uint32{0, 4, 8}},
			expect: Expect{BlockSize: 64, Blocks: 8},
			want:   route.Scores{Verdict: route.Scored, Values: []float32{0, 0.5, 1}, StateAge: -1, Matched: []uint32{0, 4, 8}, BlockSize: 64, Blocks: 8},
		},
		{
			name: "abstained on one, whatever stands at its place",
			resp: &scorerv1.ScoreResponse{
				Scores: []float32{0.1, nan, 0.3}, AbstainedIndices: []uint32{1},
				AbstainReason: scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE,
			},
			want: route.Scores{Verdict: route.Scored, Values: []float32{0.1, 0, 0.3}, AbstainedOn: []uint32{1}, StateAge: -1, Reason: "what it knows is too old"},
		},
		{
			name: "abstained on all",
			resp: &scorerv1.ScoreResponse{AbstainedOnAll: true, AbstainReason: scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE},
			want: route.Scores{Verdict: route.Abstained, StateAge: -1, Reason: "the request gives it nothing to go by"},
		},
		{
			name: "abstained on each",
			resp: &scorerv1.ScoreResponse{AbstainedIndices: []uint32{0, 1, 2}},
			want: route.Scores{Verdict: route.Abstained, StateAge: -1, Reason: "it gave no reason"},
		},
		{
			name: "abstained on each, with scores that mean nothing",
			resp: &scorerv1.ScoreResponse{Scores: []float32{nan, nan, nan}, AbstainedIndices: []uint32{0, 1, 2}},
			want: route.Scores{Verdict: route.Abstained, StateAge: -1, Reason: "it gave no reason"},
		},
		{
			name: "an age from a clock that runs ahead",
			resp: &scorerv1.ScoreResponse{Scores: []float32{0, 0, 0}, StateAge: durationpb.New(-time.Second)},
			want: route.Scores{Verdict: route.Scored, Values: []float32{0, 0, 0}},
		},
		{
			name: "explanations, one of nobody",
			resp: &scorerv1.ScoreResponse{Scores: []float32{0, 0, 0}, Explanations: []*scorerv1.Explanation{
				{CandidateIndex: 1, Text: "3 waiting"}, {CandidateIndex: 3, Text: "who?"},
			}},
			want: route.Scores{Verdict: route.Scored, Values: []float32{0, 0, 0}, StateAge: -1, Texts: map[uint32]string{1: "3 waiting"}},
		},
		{name: "no answer", kind: "count", want: failed("the answer is empty")},
		{name: "too few", resp: &scorerv1.ScoreResponse{Scores: []float32{1}}, kind: "count", want: failed("1 scores for 3 candidates")},
		{name: "too many", resp: &scorerv1.ScoreResponse{Scores: []float32{1, 1, 1, 1}}, kind: "count", want: failed("4 scores for 3 candidates")},
		{name: "none without abstaining", resp: &scorerv1.ScoreResponse{}, kind: "count", want: failed("0 scores for 3 candidates")},
		{
			name: "not a number", resp: &scorerv1.ScoreResponse{Scores: []float32{1, nan, 1}}, kind: "not_finite",
			want: failed("the score of candidate 1 is NaN, not a number from 0 to 1"),
		},
		{
			name: "infinite", resp: &scorerv1.ScoreResponse{Scores: []float32{1, 1, inf}}, kind: "not_finite",
			want: failed("the score of candidate 2 is +Inf, not a number from 0 to 1"),
		},
		{
			name: "above one", resp: &scorerv1.ScoreResponse{Scores: []float32{1, 1.5, 1}}, kind: "range",
			want: failed("the score of candidate 1 is 1.5, not a number from 0 to 1"),
		},
		{
			name: "below zero", resp: &scorerv1.ScoreResponse{Scores: []float32{-0.25, 1, 1}}, kind: "range",
			want: failed("the score of candidate 0 is -0.25, not a number from 0 to 1"),
		},
		{
			name: "abstained on nobody's place", resp: &scorerv1.ScoreResponse{Scores: []float32{0, 0, 0}, AbstainedIndices: []uint32{3}}, kind: "abstained",
			want: failed("it abstained on candidate 3 of 3"),
		},
		{
			name: "abstained twice on one", resp: &scorerv1.ScoreResponse{Scores: []float32{0, 0, 0}, AbstainedIndices: []uint32{1, 1}}, kind: "abstained",
			want: failed("abstained candidate 1 comes after 1"),
		},
		{
			name: "abstained out of order", resp: &scorerv1.ScoreResponse{Scores: []float32{0, 0, 0}, AbstainedIndices: []uint32{2, 0}}, kind: "abstained",
			want: failed("abstained candidate 0 comes after 2"),
		},
		{
			name: "abstained on all and yet scores", resp: &scorerv1.ScoreResponse{Scores: []float32{0, 0, 0}, AbstainedOnAll: true}, kind: "abstained",
			want: failed("it abstained on every candidate and yet sent 3 scores"),
		},
		{
			name: "too few matched", resp: &scorerv1.ScoreResponse{Scores: []float32{0, 0, 0}, MatchedBlockCounts: []uint32{1}}, expect: Expect{Blocks: 8}, kind: "matched",
			want: failed("1 matched block counts for 3 candidates"),
		},
		{
			name: "more matched than sent", resp: &scorerv1.ScoreResponse{Scores: []float32{0, 0, 0}, MatchedBlockCounts: []uint32{0, 9, 0}}, expect: Expect{Blocks: 8}, kind: "matched",
			want: failed("candidate 1 is said to hold 9 blocks of 8"),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, breach := Check(tc.resp, 3, tc.expect, nil, nil)
			if breach.Kind != tc.kind {
				t.Errorf("breach %q, want %q", breach.Kind, tc.kind)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func failed(reason string) route.Scores {
	return route.Scores{Verdict: route.Failed, Reason: reason, StateAge: -1}
}

func TestLongTextsAreCut(t *testing.T) {
	got, _ := Check(&scorerv1.ScoreResponse{
		Scores: []float32{1}, Explanations: []*scorerv1.Explanation{{Text: strings.Repeat("é", maxTextBytes)}},
	}, 1, Expect{}, nil, nil)
	if n := len(got.Texts[0]); n > maxTextBytes+len("…") {
		t.Errorf("a text of %d bytes came through", n)
	}
}

// FuzzCheck decodes answers as they come off the wire: whatever is accepted keeps
// the rules that the scheduler relies on.
func FuzzCheck(f *testing.F) {
	for _, m := range []*scorerv1.ScoreResponse{
		{Scores: []float32{0, 1, 0.5}},
		{AbstainedOnAll: true},
		{Scores: []float32{0, 1, 0.5}, AbstainedIndices: []uint32{0, 2}, MatchedBlockCounts: []uint32{1, 2, 3}},
		{Scores: []float32{float32(math.NaN()), 1, 2}, AbstainedIndices: []uint32{0}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint16(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, n uint16) {
		resp := &scorerv1.ScoreResponse{}
		if n == 0 || proto.Unmarshal(b, resp) != nil {
			return
		}
		s, breach := Check(resp, int(n), Expect{BlockSize: 64, Blocks: 4}, nil, nil)
		if breach.Broken() {
			if s.Verdict != route.Failed || s.Values != nil || s.Reason == "" {
				t.Fatalf("breach %v gave %+v", breach, s)
			}
			return
		}
		switch s.Verdict {
		case route.Abstained:
			if s.Values != nil {
				t.Fatalf("abstained with values: %+v", s)
			}
		case route.Scored:
			if len(s.Values) != int(n) || len(s.AbstainedOn) >= int(n) {
				t.Fatalf("%d values, %d abstained on, for %d candidates", len(s.Values), len(s.AbstainedOn), n)
			}
			for i, v := range s.Values {
				if !(v >= 0 && v <= 1) {
					t.Fatalf("value %d is %v", i, v)
				}
			}
		default:
			t.Fatalf("verdict %v", s.Verdict)
		}
	})
}
