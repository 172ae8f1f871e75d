package inflight

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// pool is a roster whose clock stands still, and the types under test.
type pool struct {
	t         testing.TB
	r         *roster.Roster
	table     *roster.Table
	types     map[string]*Type
	abstained int
	picks     uint64
}

func newPool(t testing.TB, n int) *pool {
	p := &pool{t: t, r: roster.New(roster.Config{Clock: func() int64 { return int64(time.Hour) }})}
	endpoints := make([]roster.Endpoint, n)
	for i := range endpoints {
		endpoints[i] = roster.Endpoint{ID: id(i), Host: "10.0.0.1", Port: uint16(1 + i)}
	}
	var err error
	if p.table, err = roster.NewTable(endpoints); err != nil {
		t.Fatal(err)
	}
	p.r.SetTable(p.table)
	cfg := Config{Roster: p.r, Abstained: func(_ string, _ scorerv1.AbstainReason, n int) { p.abstained += n }}
	p.types = map[string]*Type{"active": NewActive(cfg), "tokens": NewTokens(cfg)}
	return p
}

func id(i int) roster.ID { return roster.ID(fmt.Sprintf("e%04d", i)) }

// pick makes n picks of so many tokens each on an endpoint, and returns how to end
// them.
func (p *pool) pick(endpoint, n int, tokens uint32) (finish func()) {
	first := p.picks + 1
	for range n {
		p.picks++
		p.r.Pick("router-1", p.picks, id(endpoint), tokens, p.r.Now())
	}
	last := p.picks
	return func() {
		for i := first; i <= last; i++ {
			p.r.Finish("router-1", i)
		}
	}
}

func (p *pool) of(parameters string, positions ...uint32) *scorerv1.ScoreRequest {
	return &scorerv1.ScoreRequest{
		ParametersJson: []byte(parameters), Request: &scorerv1.InferenceRequest{RequestId: "r"},
		Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: p.table.Digest, Positions: positions}},
	}
}

func (p *pool) score(kind string, req *scorerv1.ScoreRequest) *scorerv1.ScoreResponse {
	p.t.Helper()
	instance, _, faults := p.types[kind].Parse(req.GetParametersJson())
	if len(faults) > 0 {
		p.t.Fatalf("parameters: %v", faults)
	}
	out := &scorerv1.ScoreResponse{}
	if err := p.types[kind].Score(context.Background(), instance, req, out); err != nil {
		p.t.Fatal(err)
	}
	return out
}

func TestScores(t *testing.T) {
	for name, c := range map[string]struct {
		kind, parameters string
		counts           []int
		want             []float32
		per              float32
	}{
		// An endpoint without picks has none in flight, so there is no "no attribute".
		"F12":                         {"active", "", []int{0, 0, 0}, []float32{1, 1, 1}, 1},
		"F13 3,0,6":                   {"active", "", []int{3, 0, 6}, []float32{.5, 1, 0}, 6},
		"F13 4,none,1":                {"active", "", []int{4, 0, 1}, []float32{0, 1, .75}, 4},
		"F15":                         {"active", `{"idleThreshold":1,"maxBusyScore":0.5}`, []int{1, 2, 0}, []float32{1, 0, 1}, 4},
		"F15 with a less busy one":    {"active", `{"idleThreshold":1,"maxBusyScore":0.5}`, []int{4, 2, 0}, []float32{0, .25, 1}, 8},
		"unset maxBusyScore is 1":     {"active", `{"requestTimeout":"2m"}`, []int{4, 1}, []float32{0, .75}, 4},
		"maxBusyScore 0 is yes or no": {"active", `{"maxBusyScore":0}`, []int{4, 1, 0}, []float32{0, 0, 1}, 1},
		"F7":                          {"tokens", `{"queueThresholdTokens":1000}`, []int{0, 500, 1000}, []float32{1, .5, 0}, 10},
		"more tokens than that":       {"tokens", `{"queueThresholdTokens":1000}`, []int{0, 5000}, []float32{1, 0}, 10},
		"the default of tokens":       {"tokens", "", []int{0, 4194304, 2097152}, []float32{1, 0, .5}, 41943.04},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, len(c.counts))
			for i, n := range c.counts {
				if c.kind == "tokens" {
					p.pick(i, 1, uint32(n))
				} else {
					p.pick(i, n, 7)
				}
			}
			req := p.of(c.parameters)
			req.Request.PromptTokenCount = proto.Uint32(100)
			got := p.score(c.kind, req)
			want := &scorerv1.ScoreResponse{Scores: c.want, RequestsPerPoint: c.per}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

// F16: what is in flight ends with the request.
func TestF16InFlightEnds(t *testing.T) {
	p := newPool(t, 2)
	finish := p.pick(0, 1, 100)
	for kind, want := range map[string][]float32{"active": {0, 1}, "tokens": {.9, 1}} {
		if got := p.score(kind, p.of(map[string]string{"tokens": `{"queueThresholdTokens":1000}`}[kind])); !cmp.Equal(want, got.GetScores()) {
			t.Errorf("%s, in flight: %v", kind, got.GetScores())
		}
	}
	finish()
	for kind := range p.types {
		if got := p.score(kind, p.of("")); !cmp.Equal([]float32{1, 1}, got.GetScores()) {
			t.Errorf("%s, after the end: %v", kind, got.GetScores())
		}
	}
}

// Picks that have not been broadcast yet count, and count once when they have.
func TestPendingPicks(t *testing.T) {
	p := newPool(t, 3)
	with := func(req *scorerv1.ScoreRequest) *scorerv1.ScoreRequest {
		req.Pending = &scorerv1.PendingPicks{RouterId: "router-1", Sequences: []uint64{1, 2}, Positions: []uint32{1, 2}, UncachedTokenCounts: []uint32{300, 500}}
		return req
	}
	if got := p.score("active", with(p.of(""))).GetScores(); !cmp.Equal([]float32{1, 0, 0}, got) {
		t.Errorf("active: %v", got)
	}
	if got := p.score("tokens", with(p.of(`{"queueThresholdTokens":1000}`, 1, 2))).GetScores(); !cmp.Equal([]float32{.7, .5}, got) {
		t.Errorf("tokens: %v", got)
	}
	if got := p.score("active", with(p.of("", 0, 2))).GetScores(); !cmp.Equal([]float32{1, 0}, got) {
		t.Errorf("a pick of nobody asked about: %v", got)
	}
}

func TestListedCandidates(t *testing.T) {
	p := newPool(t, 2)
	p.pick(1, 2, 100)
	req := p.of("")
	req.Explain = true
	req.Candidates = &scorerv1.ScoreRequest_Listed{Listed: &scorerv1.CandidateList{Candidates: []*scorerv1.Candidate{{EndpointId: "e0001"}, {EndpointId: "stranger"}, {EndpointId: "e0000"}}}}
	got := p.score("active", req)
	want := &scorerv1.ScoreResponse{
		Scores: []float32{0, 0, 1}, AbstainedIndices: []uint32{1}, AbstainReason: scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT, RequestsPerPoint: 2,
		Explanations: []*scorerv1.Explanation{{Text: "2 requests in flight"}, {CandidateIndex: 1, Text: "endpoint not in the pool"}, {CandidateIndex: 2, Text: "0 requests in flight"}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || p.abstained != 1 {
		t.Errorf("%d abstentions reported, response (-want +got):\n%s", p.abstained, diff)
	}
	req.GetListed().Candidates = []*scorerv1.Candidate{{EndpointId: "stranger"}}
	if got := p.score("tokens", req); !got.GetAbstainedOnAll() || got.GetAbstainReason() != scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT {
		t.Errorf("strangers alone: %v", got)
	}
}

func TestTableFaults(t *testing.T) {
	p := newPool(t, 2)
	for name, req := range map[string]*scorerv1.ScoreRequest{"beyond the table": p.of("", 0, 2), "a table that is not held": {Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: 1}}}} {
		for kind, typ := range p.types {
			instance, _, _ := typ.Parse(nil)
			if err := typ.Score(t.Context(), instance, req, &scorerv1.ScoreResponse{}); err == nil {
				t.Errorf("%s: %s: no error", kind, name)
			}
		}
	}
}

func TestParameterFaults(t *testing.T) {
	p := newPool(t, 1)
	for kind, texts := range map[string][]string{
		"active": {`{"idleThreshold":-1}`, `{"maxBusyScore":1.1}`, `{"maxBusyScore":-0.1}`, `{"requestTimeout":5}`, `{"idle":1}`},
		"tokens": {`{"queueThresholdTokens":0}`, `{"queueThresholdTokens":"x"}`, `{"threshold":1}`},
	} {
		for _, text := range texts {
			if _, _, faults := p.types[kind].Parse([]byte(text)); len(faults) != 1 {
				t.Errorf("%s %s: faults %v", kind, text, faults)
			}
		}
	}
}

// Properties: scores are in 0..1, permuting the candidates permutes the scores, fewer
// in flight never scores lower.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "n")
		p := newPool(t, n)
		counts := rapid.SliceOfN(rapid.IntRange(0, 9), n, n).Draw(rt, "counts")
		for i, c := range counts {
			p.pick(i, c, 100)
		}
		order := rand.Perm(n)
		list := make([]*scorerv1.Candidate, n)
		for i, at := range order {
			list[i] = &scorerv1.Candidate{EndpointId: string(id(at))}
		}
		for kind, parameters := range map[string]string{
			"active": fmt.Sprintf(`{"idleThreshold":%d,"maxBusyScore":%v}`, rapid.IntRange(0, 4).Draw(rt, "idle"), rapid.Float64Range(0, 1).Draw(rt, "busy")),
			"tokens": fmt.Sprintf(`{"queueThresholdTokens":%d}`, rapid.IntRange(1, 2000).Draw(rt, "threshold")),
		} {
			a := p.score(kind, p.of(parameters)).GetScores()
			req := p.of(parameters)
			req.Candidates = &scorerv1.ScoreRequest_Listed{Listed: &scorerv1.CandidateList{Candidates: list}}
			b := p.score(kind, req).GetScores()
			for i, at := range order {
				if a[at] != b[i] || !(a[at] >= 0 && a[at] <= 1) {
					rt.Fatalf("%s: scores %v, permuted by %v: %v", kind, a, order, b)
				}
				for j := range n {
					if counts[at] < counts[j] && a[at] < a[j] {
						rt.Fatalf("%s: counts %v, scores %v", kind, counts, a)
					}
				}
			}
		}
	})
}

func BenchmarkScore(b *testing.B) {
	for _, n := range []int{16, 256} {
		for _, kind := range []string{"active", "tokens"} {
			b.Run(fmt.Sprintf("%s-%d", kind, n), func(b *testing.B) {
				p := newPool(b, n)
				for i := range n {
					p.pick(i, i%7, 100)
				}
				req, out := p.of(""), &scorerv1.ScoreResponse{}
				instance, _, _ := p.types[kind].Parse(nil)
				b.ReportAllocs()
				for b.Loop() {
					if err := p.types[kind].Score(b.Context(), instance, req, out); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
