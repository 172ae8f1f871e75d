package requests

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

const (
	unknown = scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT
	stale   = scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE
)

func TestScoreTable(t *testing.T) {
	second := durationpb.New(time.Second)
	cases := map[string]struct {
		waiting, running []int32
		ages             []time.Duration
		positions        []uint32
		kind             string
		want             *scorerv1.ScoreResponse
	}{
		"F1": {
			waiting: []int32{10, 5, 0}, ages: []time.Duration{0, time.Second, 0},
			want: &scorerv1.ScoreResponse{Scores: []float32{0, .5, 1}, RequestsPerPoint: 10, StateAge: second},
		},
		"M18 queue part": {
			waiting: []int32{3, 0, 10},
			want:    &scorerv1.ScoreResponse{Scores: []float32{.7, 1, 0}, RequestsPerPoint: 10, StateAge: &durationpb.Duration{}},
		},
		"F1 by running requests": {
			waiting: []int32{0, 0, 7}, running: []int32{10, 5, 0}, kind: "running",
			want: &scorerv1.ScoreResponse{Scores: []float32{0, .5, 1}, RequestsPerPoint: 10, StateAge: &durationpb.Duration{}},
		},
		"only some of the table are candidates": {
			waiting: []int32{100, 4, 0, 2}, positions: []uint32{1, 3},
			want: &scorerv1.ScoreResponse{Scores: []float32{0, 1}, RequestsPerPoint: 2, StateAge: &durationpb.Duration{}},
		},
		"never scraped": {
			waiting: []int32{4, 0, 2}, ages: []time.Duration{0, -1, 0},
			want: &scorerv1.ScoreResponse{Scores: []float32{0, 0, 1}, RequestsPerPoint: 2, AbstainedIndices: []uint32{1}, AbstainReason: unknown, StateAge: &durationpb.Duration{}},
		},
		"the page lacks the metric": {
			waiting: []int32{4, -1, 2}, running: []int32{1, 1, 1},
			want: &scorerv1.ScoreResponse{Scores: []float32{0, 0, 1}, RequestsPerPoint: 2, AbstainedIndices: []uint32{1}, AbstainReason: unknown, StateAge: &durationpb.Duration{}},
		},
		"stale": {
			waiting: []int32{4, 0, 2}, ages: []time.Duration{0, limit + time.Millisecond, time.Second},
			want: &scorerv1.ScoreResponse{Scores: []float32{0, 0, 1}, RequestsPerPoint: 2, AbstainedIndices: []uint32{1}, AbstainReason: stale, StateAge: second},
		},
		"stale and never scraped": {
			waiting: []int32{4, 0, 2}, ages: []time.Duration{0, limit + time.Millisecond, -1},
			want: &scorerv1.ScoreResponse{Scores: []float32{1, 0, 0}, RequestsPerPoint: 8, AbstainedIndices: []uint32{1, 2}, AbstainReason: stale, StateAge: &durationpb.Duration{}},
		},
		"nothing is known": {
			waiting: []int32{-1, -1, -1},
			want:    &scorerv1.ScoreResponse{AbstainedOnAll: true, AbstainReason: unknown},
		},
		"all is stale": {
			waiting: []int32{1, 2, 3}, ages: []time.Duration{time.Minute, time.Minute, time.Minute},
			want: &scorerv1.ScoreResponse{AbstainedOnAll: true, AbstainReason: stale},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, len(c.waiting))
			p.load(c.waiting, c.running, c.ages...)
			kind := c.kind
			if kind == "" {
				kind = "queue"
			}
			got := p.score(kind, p.of(c.positions...))
			if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			abstained := len(got.GetAbstainedIndices())
			if got.GetAbstainedOnAll() {
				abstained = len(c.waiting)
			}
			if p.abstained[got.GetAbstainReason()] != abstained {
				t.Errorf("reported abstentions %v, want %d for %v", p.abstained, abstained, got.GetAbstainReason())
			}
		})
	}
}

// B135: what was picked since the scrape counts, whoever picked it.
func TestCreditsCountB135(t *testing.T) {
	p := newPool(t, 3)
	p.load([]int32{0, 2, 4}, []int32{1, 1, 3})
	for i := range uint64(4) {
		p.r.Pick("router-1", i, id(0), 100, p.now)
	}
	for kind, want := range map[string][]float32{"queue": {0, 1, 0}, "running": {0, 1, .5}} {
		if got := p.score(kind, p.of()); !cmp.Equal(want, got.GetScores()) {
			t.Errorf("%s: scores %v, want %v", kind, got.GetScores(), want)
		}
	}
	// A pick that has ended, or that a later scrape has seen, counts no more.
	for i := range uint64(4) {
		p.r.Finish("router-1", i)
	}
	if got := p.score("queue", p.of()); !cmp.Equal([]float32{1, .5, 0}, got.GetScores()) {
		t.Errorf("after the end: scores %v", got.GetScores())
	}
}

// While engines report no difference, a credited request takes an eighth of a point:
// it is expected to run, not to wait. Once they do, it counts like one that waits.
func TestWhatACreditedRequestTakes(t *testing.T) {
	for name, c := range map[string]struct {
		waiting []int32
		picks   int // on endpoint 0
		want    []float32
		per     float32
	}{
		"none, all equal":                  {[]int32{3, 3}, 0, []float32{1, 1}, 8},
		"one, all equal":                   {[]int32{3, 3}, 1, []float32{.875, 1}, 8},
		"more than that, all equal":        {[]int32{0, 0}, 16, []float32{0, 1}, 16},
		"one, engines differ":              {[]int32{0, 2}, 1, []float32{1, 0}, 1},
		"as many as the engines differ by": {[]int32{0, 2}, 2, []float32{1, 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, 2)
			p.load(c.waiting, nil)
			for i := range c.picks {
				p.r.Pick("router-1", uint64(i), id(0), 0, p.now)
			}
			got := p.score("queue", p.of())
			if !cmp.Equal(c.want, got.GetScores()) || got.GetRequestsPerPoint() != c.per {
				t.Errorf("scores %v, %v requests per point; want %v, %v", got.GetScores(), got.GetRequestsPerPoint(), c.want, c.per)
			}
		})
	}
}

func TestPicksDoNotMakeAnEndpointKnown(t *testing.T) {
	p := newPool(t, 3)
	p.load([]int32{4, 0, 2}, nil, 0, -1, 0)
	p.r.Pick("router-1", 1, id(1), 0, p.now)
	req := p.of()
	req.Pending = &scorerv1.PendingPicks{RouterId: "router-1", Sequences: []uint64{5}, Positions: []uint32{1}, UncachedTokenCounts: []uint32{0}}
	got := p.score("queue", req)
	if !cmp.Equal([]uint32{1}, got.GetAbstainedIndices()) || !cmp.Equal([]float32{0, 0, 1}, got.GetScores()) {
		t.Errorf("abstained on %v with scores %v, want on 1 alone", got.GetAbstainedIndices(), got.GetScores())
	}
}

func TestPendingPicks(t *testing.T) {
	cases := map[string]struct {
		positions []uint32
		pending   *scorerv1.PendingPicks
		applied   uint64
		want      []float32
	}{
		"none": {want: []float32{1, 1, 1, 1}},
		"all are new": {
			pending: &scorerv1.PendingPicks{Sequences: []uint64{1, 1, 2}, Positions: []uint32{0, 0, 2}},
			want:    []float32{.75, 1, .875, 1},
		},
		"those that were applied count once": {
			pending: &scorerv1.PendingPicks{Sequences: []uint64{1, 7, 8}, Positions: []uint32{0, 0, 2}}, applied: 7,
			want: []float32{1, 1, .875, 1},
		},
		"a pick outside of the candidates": {
			positions: []uint32{1, 2, 3},
			pending:   &scorerv1.PendingPicks{Sequences: []uint64{1, 1}, Positions: []uint32{0, 2}},
			want:      []float32{1, .875, 1},
		},
		"a pick outside of the table": {
			pending: &scorerv1.PendingPicks{Sequences: []uint64{1, 1}, Positions: []uint32{4, 1}},
			want:    []float32{1, .875, 1, 1},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, 4)
			p.load([]int32{3, 3, 3, 3}, nil)
			p.r.Applied("router-1", c.applied)
			req := p.of(c.positions...)
			if c.pending != nil {
				c.pending.RouterId = "router-1"
				req.Pending = c.pending
			}
			got := p.score("queue", req)
			if diff := cmp.Diff(c.want, got.GetScores()); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
			if c.pending != nil && got.GetAppliedOutcomeSequence() != c.applied {
				t.Errorf("applied %d, want %d", got.GetAppliedOutcomeSequence(), c.applied)
			}
		})
	}
}

func TestTableThatIsNotHeld(t *testing.T) {
	p := newPool(t, 3)
	var e *scorer.Error
	for name, c := range map[string]struct {
		ref  *scorerv1.TableReference
		want string
	}{
		"unknown digest":            {&scorerv1.TableReference{TableDigest: 42}, scorer.ReasonTableNotHeld},
		"position beyond the table": {&scorerv1.TableReference{TableDigest: p.table.Digest, Positions: []uint32{0, 3}}, scorer.ReasonInvalidRequest},
	} {
		req := &scorerv1.ScoreRequest{Candidates: &scorerv1.ScoreRequest_Table{Table: c.ref}}
		err := p.types["queue"].Score(context.Background(), nil, req, &scorerv1.ScoreResponse{})
		if !errors.As(err, &e) || e.Reason != c.want {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}

func TestOlderTableIsStillUnderstood(t *testing.T) {
	p := newPool(t, 3)
	old := p.of()
	p.load([]int32{9, 3, 0}, nil)
	p.setTable(5)
	if got := p.score("queue", old).GetScores(); len(got) != 3 || got[2] != 1 {
		t.Errorf("scores by the older table %v", got)
	}
}

func TestListedCandidates(t *testing.T) {
	p := newPool(t, 3)
	p.load([]int32{6, 1, 1}, nil, 0, 0, time.Minute)
	p.r.Pick("router-1", 1, id(0), 0, p.now)
	ago := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(-d)) }
	got := p.score("queue", listed(
		&scorerv1.Candidate{EndpointId: "stranger-1", Load: &scorerv1.EndpointLoad{WaitingRequestCount: proto.Uint32(1), CreditedRequestCount: 1, ObserveTime: ago(-time.Hour)}},
		&scorerv1.Candidate{EndpointId: "stranger-2", Load: &scorerv1.EndpointLoad{WaitingRequestCount: proto.Uint32(12)}},
		&scorerv1.Candidate{EndpointId: "stranger-3", Load: &scorerv1.EndpointLoad{RunningRequestCount: proto.Uint32(2)}},
		&scorerv1.Candidate{EndpointId: "stranger-4", Load: &scorerv1.EndpointLoad{WaitingRequestCount: proto.Uint32(0), ObserveTime: ago(time.Minute)}},
		&scorerv1.Candidate{EndpointId: "stranger-5"},
		&scorerv1.Candidate{EndpointId: string(id(0))}, // known from the broadcast: 6 + 1
		&scorerv1.Candidate{EndpointId: string(id(2))}, // known to be stale
	))
	want := &scorerv1.ScoreResponse{
		Scores: []float32{1, 0, 0, 0, 0, .5, 0}, RequestsPerPoint: 10, AbstainedIndices: []uint32{2, 3, 4, 6}, AbstainReason: stale, StateAge: &durationpb.Duration{},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

func TestExplanations(t *testing.T) {
	p := newPool(t, 4)
	p.load([]int32{3, 7, -1, 0}, []int32{1, 2, 3, 4}, 0, 0, 0, 7250*time.Millisecond)
	p.r.Pick("router-1", 1, id(0), 0, p.now)
	for kind, want := range map[string][]string{
		"queue":   {"3 waiting + 1 credited, pool 4–7", "7 waiting + 0 credited, pool 4–7", "waiting requests not known", "figures are 7.3s old"},
		"running": {"1 running + 1 credited, pool 2–3", "2 running + 0 credited, pool 2–3", "3 running + 0 credited, pool 2–3", "figures are 7.3s old"},
	} {
		req := p.of()
		req.Explain = true
		var got []string
		for i, e := range p.score(kind, req).GetExplanations() {
			if int(e.GetCandidateIndex()) != i {
				t.Errorf("explanation %d is of candidate %d", i, e.GetCandidateIndex())
			}
			got = append(got, e.GetText())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

func TestParameters(t *testing.T) {
	p := newPool(t, 1)
	cases := map[string][]string{"": nil, "{}": nil, `{"threshold": 5, "Max": 1}`: {"Max", "threshold"}, "[]": {""}}
	for text, want := range cases {
		_, _, faults := p.types["queue"].Parse([]byte(text))
		var got []string
		for _, f := range faults {
			got = append(got, f.GetKey())
			if f.GetMessage() == "" {
				t.Errorf("%s: a fault without a message", text)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: keys at fault (-want +got):\n%s", text, diff)
		}
	}
}

// TestPermutation asks for the same candidates in two orders.
func TestPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		candidates := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *scorerv1.Candidate {
			c := &scorerv1.Candidate{EndpointId: rapid.StringMatching("[a-z]{3}").Draw(t, "id")}
			if rapid.IntRange(0, 4).Draw(t, "known") > 0 {
				c.Load = &scorerv1.EndpointLoad{
					WaitingRequestCount:  proto.Uint32(rapid.Uint32Range(0, 50).Draw(t, "waiting")),
					CreditedRequestCount: rapid.Uint32Range(0, 5).Draw(t, "credited"),
				}
			}
			return c
		}), 1, 20).Draw(t, "candidates")
		p := newPool(discard{}, 1)
		order := rapid.Permutation(indices(len(candidates))).Draw(t, "order")
		moved := make([]*scorerv1.Candidate, len(candidates))
		for to, from := range order {
			moved[to] = candidates[from]
		}
		a, b := byCandidate(p.score("queue", listed(candidates...)), len(candidates)), byCandidate(p.score("queue", listed(moved...)), len(candidates))
		for to, from := range order {
			if a[from] != b[to] {
				t.Fatalf("candidate %d has %v, at place %d %v", from, a[from], to, b[to])
			}
			if a[from] > 1 || a[from] < 0 && a[from] != -1 {
				t.Fatalf("candidate %d has %v", from, a[from])
			}
		}
	})
}

// discard is a testing.TB for helpers inside of a property.
type discard struct{ testing.TB }

func (discard) Helper() {}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// byCandidate returns the scores, -1 for an abstention.
func byCandidate(r *scorerv1.ScoreResponse, n int) []float32 {
	out := make([]float32, n)
	copy(out, r.GetScores())
	for i := range out {
		if r.GetAbstainedOnAll() {
			out[i] = -1
		}
	}
	for _, i := range r.GetAbstainedIndices() {
		out[i] = -1
	}
	return out
}
