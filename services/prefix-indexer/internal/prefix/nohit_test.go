package prefix

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/recency"
)

// coldPool is a pool and no-hit-lru-scorer over it.
type coldPool struct {
	*pool
	order *recency.Order
	typ   *NoHit
}

func newColdPool(t testing.TB, n int) *coldPool {
	p := &coldPool{pool: newPool(t, n), order: &recency.Order{}}
	p.typ = NewNoHit(p.pool.typ.cfg, p.order)
	return p
}

func (p *coldPool) ask(parameters string, req *scorerv1.ScoreRequest) *scorerv1.ScoreResponse {
	p.t.Helper()
	in, _, faults := p.typ.Parse([]byte(parameters))
	if len(faults) > 0 {
		p.t.Fatal(faults)
	}
	out := &scorerv1.ScoreResponse{}
	if err := p.typ.Score(context.Background(), in, req, out); err != nil {
		p.t.Fatal(err)
	}
	return out
}

func prompt(seed byte) []uint64 {
	text := make([]byte, 256)
	for i := range text {
		text[i] = seed
	}
	return chain("m", string(text), 64, 256)
}

func (p *coldPool) wantScores(what string, req *scorerv1.ScoreRequest, want ...float32) {
	p.t.Helper()
	if got := p.ask("", req).GetScores(); !cmp.Equal(want, got) {
		p.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestF18NoHit(t *testing.T) {
	p := newColdPool(t, 3)
	p.wantScores("three unused", p.of(64, prompt('a')), 1, .5, 0)
	p.place(1, 64, prompt('w'))
	p.wantScores("one is warm", p.of(64, prompt('w')), .5, .5, .5)
	newColdPool(t, 1).wantScores("a single one", newColdPool(t, 1).of(64, prompt('a')), 1)
}

func TestF19LeastRecentlyUsed(t *testing.T) {
	p := newColdPool(t, 3)
	p.order.Touch(id(0))
	p.wantScores("A was used", p.of(64, prompt('a')), 0, 1, .5)
	p.place(0, 64, prompt('w'))
	p.wantScores("a warm request", p.of(64, prompt('w')), .5, .5, .5)
	p.wantScores("changes no order", p.of(64, prompt('a')), 0, 1, .5)
	p.order.Touch(id(1))
	p.wantScores("then B: C is best", p.of(64, prompt('a')), .5, 0, 1)
	p.order.Touch(id(2))
	p.wantScores("then C: A is best", p.of(64, prompt('a')), 1, .5, 0)
}

func TestNoHitRules(t *testing.T) {
	p := newColdPool(t, 3)
	if got := p.ask("", p.of(64, nil)); !got.GetAbstainedOnAll() || got.GetAbstainReason() != nothing {
		t.Errorf("a prompt shorter than a block: %v", got)
	}
	if got := p.ask("", p.of(32, prompt('a'))); !got.GetAbstainedOnAll() {
		t.Errorf("blocks of another size: %v", got)
	}
	// Matches are told, so that routers know what was cold.
	if got := p.ask("", p.of(64, prompt('a'))).GetMatchedBlockCounts(); !cmp.Equal([]uint32{0, 0, 0}, got) {
		t.Errorf("matched %v", got)
	}
	// Those beyond lruSize are as if never used.
	for i := range 3 {
		p.order.Touch(id(2 - i))
	}
	if got := p.ask(`{"lruSize":1}`, p.of(64, prompt('a'))).GetScores(); !cmp.Equal([]float32{0, 1, .5}, got) {
		t.Errorf("lruSize 1: %v", got)
	}
	// What the router has just done counts although it was not heard of, newest first.
	req := p.of(64, prompt('a'))
	req.Pending = &scorerv1.PendingPicks{RouterId: "r1", Sequences: []uint64{2, 1}, Positions: []uint32{2, 1}}
	p.wantScores("pending picks", req, 1, .5, 0)
	req = p.of(64, prompt('a'), 1, 2)
	req.Pending = &scorerv1.PendingPicks{RouterId: "r1", Sequences: []uint64{1}, Positions: []uint32{2}}
	p.wantScores("pending picks of some", req, 1, 0)
}

func TestNoHitListed(t *testing.T) {
	p := newColdPool(t, 2)
	p.order.Touch(id(0))
	req := p.listed(64, prompt('a'), id(0), "stranger", id(1))
	req.Explain = true
	want := &scorerv1.ScoreResponse{
		Scores: []float32{0, 0, 1}, AbstainedIndices: []uint32{1}, AbstainReason: unknown, MatchedBlockCounts: []uint32{0, 0, 0},
		Explanations: []*scorerv1.Explanation{
			{Text: "cold prompt: place 2 of 2, was given a cold prompt before"},
			{CandidateIndex: 1, Text: "endpoint not in the pool"},
			{CandidateIndex: 2, Text: "cold prompt: place 1 of 2, was given no cold prompt yet"},
		},
	}
	if diff := cmp.Diff(want, p.ask("", req), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if got := p.ask("", p.listed(64, prompt('a'), "stranger")); !got.GetAbstainedOnAll() || got.GetAbstainReason() != unknown {
		t.Errorf("strangers alone: %v", got)
	}
}

func TestNoHitParameters(t *testing.T) {
	typ := newColdPool(t, 1).typ
	in, needs, faults := typ.Parse([]byte(`{"lruSize":7,"prefixPluginType":"x","prefixPluginName":"y","blockSizeTokens":32,"autoTune":true}`))
	if len(faults) > 0 || in.(*noHit).size != 7 || needs.GetPrefixBlockSizeBytes() != 128 || !needs.GetPrefixBlockFollowsCache() {
		t.Errorf("%+v, needs %v, faults %v", in, needs, faults)
	}
	for _, text := range []string{`{"lruSize":0}`, `{"lruSize":"x"}`, `{"prefixPluginType":1}`, `{"lru":1}`} {
		if _, _, faults := typ.Parse([]byte(text)); len(faults) != 1 {
			t.Errorf("%s: faults %v", text, faults)
		}
	}
}

// Permuting the candidates permutes the scores, which are in 0..1 and all different if
// the prompt is cold.
func TestNoHitProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(rt, "n")
		p := newColdPool(t, n)
		for _, i := range rapid.SliceOf(rapid.IntRange(0, n-1)).Draw(rt, "used") {
			p.order.Touch(id(i))
		}
		a := p.ask("", p.of(64, prompt('a'))).GetScores()
		order := rand.Perm(n)
		var ids []string
		for _, at := range order {
			ids = append(ids, id(at))
		}
		b := p.ask("", p.listed(64, prompt('a'), ids...)).GetScores()
		seen := map[float32]bool{}
		for i, at := range order {
			if a[at] != b[i] || !(a[at] >= 0 && a[at] <= 1) || seen[a[at]] {
				rt.Fatalf("scores %v, permuted by %v: %v", a, order, b)
			}
			seen[a[at]] = true
		}
	})
}
