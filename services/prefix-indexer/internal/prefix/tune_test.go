package prefix

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// F40, F43, F45 and the needs by which a router knows.
func TestAutoTuneFollowsTheCache(t *testing.T) {
	p := newPool(t, 3)
	_, needs, _ := p.typ.Parse([]byte(`{"autoTune":true,"blockSizeTokens":32}`))
	want := &scorerv1.InputNeeds{
		RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_PREFIX_BLOCKS}, PrefixBlockSizeBytes: 128, MaxPrefixBlocks: 256, PrefixBlockFollowsCache: true,
	}
	if diff := cmp.Diff(want, needs, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}

	// F43: endpoints say 16 tokens, 32 are configured, 128 bytes are 2 blocks.
	prompt := chain("m", strings.Repeat("a", 128), 64, 256)
	if len(prompt) != 2 {
		t.Fatalf("%d blocks", len(prompt))
	}
	const tuned = `{"autoTune":true,"blockSizeTokens":32}`
	if got := p.score(tuned, p.of(64, prompt)); !cmp.Equal([]float32{0, 0, 0}, got.GetScores()) {
		t.Errorf("before: %v", got)
	}
	p.place(1, 64, prompt[:1])
	if got := p.score(tuned, p.of(64, prompt)); !cmp.Equal([]float32{0, .5, 0}, got.GetScores()) {
		t.Errorf("F43: %v", got)
	}
	// Without it, blocks of another size are none of its own; nor are odd sizes with it.
	for parameters, size := range map[string]int{`{"blockSizeTokens":32}`: 64, tuned: 63} {
		if got := p.score(parameters, p.of(size, prompt)); !got.GetAbstainedOnAll() || got.GetAbstainReason() != nothing {
			t.Errorf("%s, blocks of %d bytes: %v", parameters, size, got)
		}
	}
}

// F45: how many blocks are looked at, by blocks and by tokens, whatever their size.
func TestF45MostBlocks(t *testing.T) {
	long := chain("m", strings.Repeat("abcd", 64), 4, 256) // 64 blocks of one token
	for parameters, want := range map[string]uint32{
		`{"blockSizeTokens":1,"maxPrefixTokensToMatch":0,"maxPrefixBlocksToMatch":3}`: 3,
		`{"blockSizeTokens":1,"maxPrefixTokensToMatch":5,"maxPrefixBlocksToMatch":3}`: 5,
		`{"blockSizeTokens":16,"autoTune":true,"maxPrefixTokensToMatch":7}`:           7,
		`{"blockSizeTokens":16,"autoTune":true,"maxPrefixBlocksToMatch":9}`:           9,
		`{"blockSizeTokens":1}`: 64,
	} {
		p := newPool(t, 1)
		p.place(0, 4, long)
		got := p.score(parameters, p.of(4, long))
		if diff := cmp.Diff([]uint32{want}, got.GetMatchedBlockCounts()); diff != "" {
			t.Errorf("%s: %s", parameters, diff)
		}
	}
	p := newPool(t, 1)
	if _, needs, _ := p.typ.Parse([]byte(`{"autoTune":true,"maxPrefixTokensToMatch":7}`)); needs.GetMaxPrefixBlocks() != 8192 {
		t.Errorf("needs %v: what tokens come to depends on the block size", needs)
	}
}

// B119: block sizes that differ from the engines' are told, once for each size.
func TestB119MismatchedBlocksAreTold(t *testing.T) {
	p := newPool(t, 1)
	table, err := roster.NewTable([]roster.Endpoint{{ID: "a", Host: "h", Port: 1, CacheBlockSize: 16}, {ID: "b", Host: "h", Port: 2, CacheBlockSize: 32}, {ID: "c", Host: "h", Port: 3}})
	if err != nil {
		t.Fatal(err)
	}
	p.r.SetTable(table)
	p.table = table
	var told []string
	p.typ.cfg.Mismatched = func(size uint32, endpoints int, tokens uint32) {
		told = append(told, fmt.Sprint(size, endpoints, tokens))
	}
	inst, _, _ := p.typ.Parse([]byte(`{"autoTune":true,"hashBlockSize":100}`))
	for _, size := range []int{128, 128, 64, 100, 128, 64} {
		if err := p.typ.Score(t.Context(), inst, p.of(size, prompt('a')), &scorerv1.ScoreResponse{}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"128 1 16", "64 1 32", "100 2 32"}, told); diff != "" {
		t.Error(diff)
	}
}
