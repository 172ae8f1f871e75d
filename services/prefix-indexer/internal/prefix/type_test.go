package prefix

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

func TestChainIsTheRouters(t *testing.T) {
	want := []uint64{0xe764d651d54e82bf, 0x49a63b97a7cef4cc, 0x10cc8d2ebbf8d47b, 0x40def5e5d3fbfc9f}
	if diff := cmp.Diff(want, chain("m", strings.Repeat("x", 256), 64, 256)); diff != "" {
		t.Fatalf("hashes (-want +got):\n%s", diff)
	}
}

// TestConversations plays prompts one after the other, each placed where the case says
// after it was scored. The model is no block here, so scores are not those of the
// endpoint picker of that time.
func TestConversations(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	type step struct {
		model, prompt string
		want          []float32 // of two endpoints; nil: abstained
		placed        int
	}
	cases := map[string]struct {
		parameters string
		size       int
		steps      []step
	}{
		"F30–F33": {`{"hashBlockSize": 4}`, 4, []step{
			{"m1", "aaaaaa", []float32{0, 0}, 0},      // F30
			{"m1", "aaaabbbb", []float32{.5, 0}, 0},   // F32: 1 of 2
			{"m-new", "aaaabbbb", []float32{0, 0}, 0}, // F33: another model
			{"m1", "aaaabbbbcccc", []float32{2. / 3, 0}, 1},
			{"m1", "aaaabbbbcccc", []float32{2. / 3, 1}, 1},
		}},
		"M18": {"", 64, []step{
			{"m", x(256), []float32{0, 0}, 1},
			{"m", x(256), []float32{0, 1}, 1},
		}},
		"M26": {`{"hashBlockSize": 5, "maxPrefixBlocksToMatch": 256, "lruCapacityPerServer": 31250}`, 5, []step{
			{"m", "hello world abcde", []float32{0, 0}, 0},
			{"m", "hello world abcde", []float32{1, 0}, 0},
			{"m", "helloXXXXXYYYYYZ", []float32{1. / 3, 0}, 0}, // 1 of 3: all bytes of a block count
			{"m", "jello world abcde", []float32{0, 0}, 0},     // nothing for the model alone
			{"m", "hi", nil, 0},
		}},
		"M27": {`{"maxPrefixBlocksToMatch": 4, "lruCapacityPerServer": 3}`, 64, []step{
			{"m", x(63), nil, 0},
			{"m", x(64), []float32{0, 0}, 0},
			{"m", x(64), []float32{1, 0}, 0},
			{"m", x(127), []float32{1, 0}, 0},
		}},
		// The reference adds a quarter for long matches; here it is the share alone.
		"Higress H8": {`{"hashBlockSize": 4}`, 4, []step{
			{"m", "aaaabbbbcccc", []float32{0, 0}, 0},           // cold
			{"m", "aaaabbbbcccc", []float32{1, 0}, 0},           // recorded
			{"m", "aaaabbbbccccdddd", []float32{.75, 0}, 1},     // and longer
			{"m", "aaaaXXXXcccc", []float32{1. / 3, 1. / 3}, 0}, // another middle: only what is before it
		}},
		"M29: room for 3 of 4 blocks": {`{"maxPrefixBlocksToMatch": 4, "lruCapacityPerServer": 3}`, 64, []step{
			{"m", x(64), []float32{0, 0}, 0},
			{"m", x(256), []float32{.25, 0}, 0},
			{"m", x(256), []float32{.75, 0}, 1}, // no ghosts
		}},
		"M30: cut to 4 blocks": {`{"maxPrefixBlocksToMatch": 4, "lruCapacityPerServer": 4}`, 64, []step{
			{"m", x(256), []float32{0, 0}, 0},
			{"m", x(64), []float32{1, 0}, 1},
			{"m", x(256), []float32{1, .25}, 1},
			{"m", x(320), []float32{1, 1}, 1},
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, 2)
			s, _ := ParseSettings([]byte(c.parameters))
			for i, step := range c.steps {
				hashes := chain(step.model, step.prompt, c.size, s.MaxBlocks)
				got := p.score(c.parameters, p.of(c.size, hashes))
				if diff := cmp.Diff(step.want, got.GetScores()); diff != "" {
					t.Errorf("step %d, scores (-want +got):\n%s", i+1, diff)
				}
				if len(got.GetMatchedBlockCounts()) != 2 {
					t.Errorf("step %d: matched blocks %v", i+1, got.GetMatchedBlockCounts())
				}
				if step.want == nil && (!got.GetAbstainedOnAll() || got.GetAbstainReason() != nothing) {
					t.Errorf("step %d: %v, want an abstention", i+1, got)
				}
				p.place(step.placed, c.size, hashes)
			}
		})
	}
}

// B131, B137: when nobody has anything, the scorer is as if it were not there: 0 for
// all, so that it adds nothing, whatever else the endpoints hold.
func TestNothingFoundIsNeutralB131(t *testing.T) {
	p := newPool(t, 3)
	p.place(0, 64, chain("m", strings.Repeat("y", 6400), 64, 256))
	got := p.score("", p.of(64, chain("m", strings.Repeat("x", 256), 64, 256)))
	want := &scorerv1.ScoreResponse{Scores: []float32{0, 0, 0}, MatchedBlockCounts: []uint32{0, 0, 0}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float64{0}, p.ratios); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

func TestCandidates(t *testing.T) {
	hashes := chain("m", strings.Repeat("x", 256), 64, 256)
	p := newPool(t, 4)
	for i, n := range []int{4, 3, 0, 1} {
		p.place(i, 64, hashes[:n])
	}
	cases := map[string]struct {
		req  *scorerv1.ScoreRequest
		want *scorerv1.ScoreResponse
	}{
		"all of the table":  {p.of(64, hashes), &scorerv1.ScoreResponse{Scores: []float32{1, .75, 0, .25}, MatchedBlockCounts: []uint32{4, 3, 0, 1}}},
		"some of the table": {p.of(64, hashes, 1, 3), &scorerv1.ScoreResponse{Scores: []float32{.75, .25}, MatchedBlockCounts: []uint32{3, 1}}},
		"listed":            {p.listed(64, hashes, id(3), id(0)), &scorerv1.ScoreResponse{Scores: []float32{.25, 1}, MatchedBlockCounts: []uint32{1, 4}}},
		"listed, with a stranger": {p.listed(64, hashes, "stranger", id(1), "another"), &scorerv1.ScoreResponse{
			Scores: []float32{0, .75, 0}, MatchedBlockCounts: []uint32{0, 3, 0}, AbstainedIndices: []uint32{0, 2}, AbstainReason: unknown,
		}},
		"listed, all strangers": {p.listed(64, hashes, "stranger", "another"), &scorerv1.ScoreResponse{
			MatchedBlockCounts: []uint32{0, 0}, AbstainedOnAll: true, AbstainReason: unknown,
		}},
		"no blocks": {p.of(64, nil), &scorerv1.ScoreResponse{
			MatchedBlockCounts: []uint32{0, 0, 0, 0}, AbstainedOnAll: true, AbstainReason: nothing,
		}},
		"another block size than asked for": {p.of(32, hashes), &scorerv1.ScoreResponse{
			MatchedBlockCounts: []uint32{0, 0, 0, 0}, AbstainedOnAll: true, AbstainReason: nothing,
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			clear(p.abstained)
			if diff := cmp.Diff(c.want, p.score("", c.req), protocmp.Transform(), protocmp.IgnoreEmptyMessages()); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			n := len(c.want.GetAbstainedIndices())
			if c.want.GetAbstainedOnAll() {
				n = len(c.want.GetMatchedBlockCounts())
			}
			if p.abstained[c.want.GetAbstainReason()] != n {
				t.Errorf("reported %v, want %d", p.abstained, n)
			}
		})
	}
	req := p.of(64, nil)
	req.Request.Prefix = nil
	if got := p.score("", req); got.GetAbstainReason() != nothing || len(got.GetMatchedBlockCounts()) != 4 {
		t.Errorf("without a prompt: %v", got)
	}
}

// B103: who has left attracts nothing, also by an older table, and its successor
// inherits nothing.
func TestEndpointThatLeftB103(t *testing.T) {
	hashes := chain("m", strings.Repeat("x", 256), 64, 256)
	p := newPool(t, 2)
	p.place(0, 64, hashes)
	p.place(1, 64, hashes[:2])
	older := p.of(64, hashes)
	if got := p.score("", older); !cmp.Equal(got.GetScores(), []float32{1, .5}) {
		t.Fatalf("before: %v", got.GetScores())
	}
	p.set(1, 3)
	if diff := cmp.Diff([]float32{0, .5}, p.score("", older).GetScores()); diff != "" {
		t.Errorf("by the older table (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float32{.5, 0}, p.score("", p.of(64, hashes)).GetScores()); diff != "" {
		t.Errorf("by the new table (-want +got):\n%s", diff)
	}
}

func TestTableThatIsNotHeld(t *testing.T) {
	p := newPool(t, 3)
	hashes := chain("m", strings.Repeat("x", 256), 64, 256)
	inst, _, _ := p.typ.Parse(nil)
	stranger := p.of(64, hashes)
	stranger.GetTable().TableDigest = 42
	var e *scorer.Error
	for want, req := range map[string]*scorerv1.ScoreRequest{
		scorer.ReasonTableNotHeld: stranger, scorer.ReasonInvalidRequest: p.of(64, hashes, 1, 3),
	} {
		if err := p.typ.Score(context.Background(), inst, req, &scorerv1.ScoreResponse{}); !errors.As(err, &e) || e.Reason != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestAppliedSequence(t *testing.T) {
	p := newPool(t, 1)
	p.r.Applied("router-1", 77)
	req := p.of(64, chain("m", strings.Repeat("x", 64), 64, 256))
	req.Pending = &scorerv1.PendingPicks{RouterId: "router-1"}
	if got := p.score("", req).GetAppliedOutcomeSequence(); got != 77 {
		t.Errorf("applied %d, want 77", got)
	}
}

func TestCapacityOfSeveralInstances(t *testing.T) {
	p := newPool(t, 1)
	hashes := chain("m", strings.Repeat("x", 6400), 64, 256)
	small, large := `{"lruCapacityPerServer": 10}`, `{"lruCapacityPerServer": 60}`
	if _, _, faults := p.typ.Parse([]byte(`{"lruCapacityPerServer": 90}`)); len(faults) > 0 {
		t.Fatal(faults) // validated and never used: it must not count
	}
	for i, c := range []struct {
		parameters string
		want       uint32
	}{{small, 10}, {large, 60}, {small, 60}} {
		p.score(c.parameters, p.of(64, hashes))
		p.place(0, 64, hashes)
		if got := p.score(c.parameters, p.of(64, hashes)).GetMatchedBlockCounts()[0]; got != c.want {
			t.Errorf("step %d: %d blocks held, want %d", i, got, c.want)
		}
	}
}

func TestExplanations(t *testing.T) {
	p := newPool(t, 2)
	hashes := chain("m", strings.Repeat("x", 52*64), 64, 256)
	p.place(0, 64, hashes[:37])
	req := p.listed(64, hashes, id(0), id(1), "stranger")
	req.Explain = true
	var got []string
	for _, e := range p.score("", req).GetExplanations() {
		got = append(got, e.GetText())
	}
	if diff := cmp.Diff([]string{"37 of 52 blocks cached", "0 of 52 blocks cached", "endpoint not in the pool"}, got); diff != "" {
		t.Errorf("explanations (-want +got):\n%s", diff)
	}
}

func TestInfo(t *testing.T) {
	p := newPool(t, 1)
	_, needs, _ := p.typ.Parse([]byte(`{"blockSizeTokens": 32, "maxPrefixBlocksToMatch": 10}`))
	want := &scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_PREFIX_BLOCKS}, PrefixBlockSizeBytes: 128, MaxPrefixBlocks: 10}
	if diff := cmp.Diff(want, needs, protocmp.Transform()); diff != "" {
		t.Errorf("needs (-want +got):\n%s", diff)
	}
	if info := p.typ.Info(); info.GetDefaultNeeds().GetPrefixBlockSizeBytes() != 64 || info.GetParametersSchema() == "" {
		t.Errorf("info %v", info)
	}
}

// TestPermutation asks for the same candidates in two orders: the scores move with
// them and are in range.
func TestPermutation(t *testing.T) {
	p := newPool(t, 30)
	hashes := chain("m", strings.Repeat("x", 64*40), 64, 256)
	for i := range 30 {
		p.place(i, 64, hashes[:i*7%41])
	}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string { return id(rapid.IntRange(0, 35).Draw(t, "endpoint")) }), 1, 20, rapid.ID).Draw(t, "candidates")
		moved := rapid.Permutation(names).Draw(t, "moved")
		n := rapid.IntRange(1, 40).Draw(t, "blocks")
		a, b := p.score("", p.listed(64, hashes[:n], names...)), p.score("", p.listed(64, hashes[:n], moved...))
		of := map[string]string{}
		for i, name := range names {
			of[name] = say(a, i)
		}
		for i, name := range moved {
			if of[name] != say(b, i) {
				t.Fatalf("%s has %s, in another order %s", name, of[name], say(b, i))
			}
		}
		for _, s := range a.GetScores() {
			if s < 0 || s > 1 {
				t.Fatalf("score %v", s)
			}
		}
	})
}

// say puts one candidate's answer in words.
func say(r *scorerv1.ScoreResponse, i int) string {
	for _, a := range r.GetAbstainedIndices() {
		if int(a) == i {
			return "abstained"
		}
	}
	if r.GetAbstainedOnAll() {
		return "abstained"
	}
	return fmt.Sprint(r.GetScores()[i], r.GetMatchedBlockCounts()[i])
}

func BenchmarkScore(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		for _, blocks := range []int{16, 256} {
			b.Run(fmt.Sprintf("endpoints=%d/blocks=%d", n, blocks), func(b *testing.B) {
				p := newPool(b, n)
				hashes := chain("m", strings.Repeat("x", 64*blocks), 64, 256)
				for i := range n {
					p.place(i, 64, hashes[:i%(blocks/4)])
				}
				p.place(0, 64, hashes)
				inst, _, _ := p.typ.Parse(nil)
				req, out := p.of(64, hashes), &scorerv1.ScoreResponse{}
				b.ReportAllocs()
				for b.Loop() {
					if err := p.typ.Score(context.Background(), inst, req, out); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
