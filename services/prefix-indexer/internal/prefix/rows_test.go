package prefix

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// F42: blocks of one token, 4 bytes. The prompt before went to pod1 by one profile and
// to pod3 by another, and both have its first block of this one's two.
func TestF42BothProfilesEndpointsHoldThePrompt(t *testing.T) {
	const parameters = `{"blockSizeTokens": 1}`
	p := newPool(t, 3)
	before, now := chain("m", "aaaaaa", 4, 256), chain("m", "aaaabbbb", 4, 256)
	if got := p.score(parameters, p.of(4, now)); len(now) != 2 || !cmp.Equal(got.GetMatchedBlockCounts(), []uint32{0, 0, 0}) {
		t.Fatalf("F40: %d blocks, matched %v", len(now), got.GetMatchedBlockCounts())
	}
	p.place(0, 4, before)
	p.place(2, 4, before)
	got := p.score(parameters, p.of(4, now))
	if diff := cmp.Diff([]float32{.5, 0, .5}, got.GetScores()); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint32{1, 0, 1}, got.GetMatchedBlockCounts()); diff != "" {
		t.Errorf("matched (-want +got):\n%s", diff)
	}
}

// B143: endpoints that keep blocks beyond their GPU's memory hold more than the default
// capacity, and the index as many if it is told to. 100 conversations have 40,000
// blocks.
func TestB143CapacityCanCoverOffloadedCaches(t *testing.T) {
	for _, c := range []struct {
		parameters string
		all        bool
	}{
		{`{"maxPrefixBlocksToMatch": 400, "lruCapacityPerServer": 10000}`, false},
		{`{"maxPrefixBlocksToMatch": 400, "lruCapacityPerServer": 100000}`, true},
	} {
		p := newPool(t, 1)
		prompts := make([][]uint64, 100)
		for i := range prompts {
			prompts[i] = chain("m", strings.Repeat(fmt.Sprintf("%064d", i), 400), 64, 400)
		}
		p.score(c.parameters, p.of(64, prompts[0]))
		for _, h := range prompts {
			p.place(0, 64, h)
		}
		held := 0
		for _, h := range prompts {
			held += int(p.score(c.parameters, p.of(64, h)).GetMatchedBlockCounts()[0])
		}
		if c.all && held != 40000 || !c.all && held > 10000 {
			t.Errorf("%s: %d of 40000 blocks are found", c.parameters, held)
		}
	}
}
