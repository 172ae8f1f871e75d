package index

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func place(t *testing.T, x *Index, id string, chain []uint64) {
	t.Helper()
	if _, err := x.Place(testKey, id, chain); err != nil {
		t.Fatalf("place on %s: %v", id, err)
	}
}

func names(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("endpoint-%04d", i)
	}
	return ids
}

// long returns a chain of n blocks that shares its first `shared` blocks with all
// chains of the same seed.
func long(seed, branch uint64, shared, n int) []uint64 {
	steps := make([]uint64, n)
	for i := range steps {
		steps[i] = seed
		if i >= shared {
			steps[i] = branch + 1<<32
		}
	}
	return path(steps...)
}

func TestMatch(t *testing.T) {
	a, ab, abc := path(1), path(1, 2), path(1, 2, 3)
	abd := path(1, 2, 4)
	cases := map[string]struct {
		placed map[string][][]uint64
		asked  []uint64
		want   []uint32 // x, y, a stranger
	}{
		"nothing is known":                {nil, abc, []uint32{0, 0, 0}},
		"the whole chain":                 {map[string][][]uint64{"x": {abc}}, abc, []uint32{3, 0, 0}},
		"a longer chain was placed":       {map[string][][]uint64{"x": {abc}}, ab, []uint32{2, 0, 0}},
		"a shorter chain was placed":      {map[string][][]uint64{"x": {ab}}, abc, []uint32{2, 0, 0}},
		"the chains part":                 {map[string][][]uint64{"x": {abd}, "y": {a}}, abc, []uint32{2, 1, 0}},
		"two branches on one":             {map[string][][]uint64{"x": {abc, abd}}, abd, []uint32{3, 0, 0}},
		"no blocks asked for":             {map[string][][]uint64{"x": {abc}}, nil, []uint32{0, 0, 0}},
		"another prompt":                  {map[string][][]uint64{"x": {abc}}, path(9, 2, 3), []uint32{0, 0, 0}},
		"placed twice counts once":        {map[string][][]uint64{"x": {abc, abc}}, abc, []uint32{3, 0, 0}},
		"an empty prompt changes nothing": {map[string][][]uint64{"x": {nil}}, abc, []uint32{0, 0, 0}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			x := newIndex(t, DefaultConfig())
			x.SetEndpoints([]string{"x", "y"})
			for id, chains := range c.placed {
				for _, chain := range chains {
					place(t, x, id, chain)
				}
			}
			if diff := cmp.Diff(c.want, match(x, testKey, c.asked, []string{"x", "y", "stranger"})); diff != "" {
				t.Errorf("matched (-want +got):\n%s", diff)
			}
			x.check(t)
		})
	}
}

func TestBlockSizesAndSchemesAreApart(t *testing.T) {
	x := newIndex(t, DefaultConfig())
	x.SetEndpoints([]string{"x"})
	place(t, x, "x", path(1, 2))
	for _, k := range []Key{{"test", 32}, {"other", 64}} {
		if got := match(x, k, path(1, 2), []string{"x"}); got[0] != 0 {
			t.Errorf("%v matches %d blocks of %v", k, got[0], testKey)
		}
	}
}

// F36: capacity 2, three hashes one by one: size 1, 2, 2, and the least recent went.
func TestCapacityF36(t *testing.T) {
	x := newIndex(t, Config{MaxBytes: leastBytes, DefaultCapacity: 2})
	x.SetEndpoints([]string{"x"})
	var sizes []int64
	for i := range uint64(3) {
		place(t, x, "x", path(i))
		sizes = append(sizes, x.Stats().Entries)
	}
	if diff := cmp.Diff([]int64{1, 2, 2}, sizes); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
	for i, want := range []uint32{0, 1, 1, 0} {
		if got := match(x, testKey, path(uint64(i)), []string{"x"}); got[0] != want {
			t.Errorf("hash %d matches %d, want %d", i, got[0], want)
		}
	}
	if got := x.Stats().Evicted; got != (Evictions{Capacity: 1}) {
		t.Errorf("evicted %+v, want one above capacity", got)
	}
}

// M29: a prompt of more blocks than the capacity leaves its head, and no ghosts.
func TestChainAboveCapacityM29(t *testing.T) {
	x := newIndex(t, Config{MaxBytes: leastBytes, DefaultCapacity: 3})
	x.SetEndpoints([]string{"x"})
	chain := path(1, 2, 3, 4)
	for range 2 {
		place(t, x, "x", chain)
		if got := match(x, testKey, chain, []string{"x"}); got[0] != 3 {
			t.Errorf("matches %d of 4 blocks with room for 3, want 3", got[0])
		}
	}
	if got := x.Stats(); got.Entries != 3 || got.Refused.Chain != 0 {
		t.Errorf("%+v, want 3 entries and no complaint", got)
	}
	x.check(t)
}

func TestTailGoesBeforeHead(t *testing.T) {
	x := newIndex(t, Config{MaxBytes: leastBytes, DefaultCapacity: 5})
	x.SetEndpoints([]string{"x"})
	old := path(1, 1, 1, 1)
	place(t, x, "x", old)
	for i, want := range []uint32{4, 3, 2, 1, 0, 0} {
		place(t, x, "x", path(100+uint64(i)))
		if got := match(x, testKey, old, []string{"x"}); got[0] != want {
			t.Errorf("after %d other prompts %d blocks are left, want %d", i+1, got[0], want)
		}
	}
}

func TestPlacingAgainRefreshesTheWholeChain(t *testing.T) {
	x := newIndex(t, Config{MaxBytes: leastBytes, DefaultCapacity: 6})
	x.SetEndpoints([]string{"x"})
	kept, other := path(1, 2, 3), path(7, 8, 9)
	place(t, x, "x", kept)
	place(t, x, "x", other)
	place(t, x, "x", kept)
	place(t, x, "x", path(50, 51))
	if got := match(x, testKey, kept, []string{"x"}); got[0] != 3 {
		t.Errorf("%d of the refreshed blocks are left, want 3", got[0])
	}
	if got := match(x, testKey, other, []string{"x"}); got[0] != 1 {
		t.Errorf("%d of the other blocks are left, want 1", got[0])
	}
}

// B103: an endpoint that is gone must not attract anything.
func TestEndpointThatLeavesIsForgottenB103(t *testing.T) {
	x := newIndex(t, DefaultConfig())
	x.SetEndpoints([]string{"x", "y"})
	chain := path(1, 2, 3)
	place(t, x, "x", chain)
	place(t, x, "y", chain[:1])
	x.SetEndpoints([]string{"y"})
	if got := x.Stats(); got.Entries != 1 || got.Blocks != 1 || got.Evicted.Gone != 3 {
		t.Errorf("%+v, want 1 entry left and 3 gone", got)
	}
	if _, err := x.Place(testKey, "x", chain); !errors.Is(err, ErrUnknownEndpoint) {
		t.Errorf("a late placement: %v, want ErrUnknownEndpoint", err)
	}
	x.SetEndpoints([]string{"x", "y", "z"})
	if diff := cmp.Diff([]uint32{0, 1, 0}, match(x, testKey, chain, []string{"x", "y", "z"})); diff != "" {
		t.Errorf("matched after x is back and z came (-want +got):\n%s", diff)
	}
	x.check(t)
}

// Blocks of an endpoint that left are used again. If they came back in the order of its
// table, all that follows would crowd one part of the next one's, where each block
// then takes thousands of steps to find.
func TestTablesStayEvenWhenEndpointsAreReplaced(t *testing.T) {
	x := newIndex(t, DefaultConfig())
	seed := uint64(0)
	for _, id := range names(3) {
		twin := id + "-twin" // else stamps would be in the blocks
		x.SetEndpoints([]string{id, twin})
		ordinal := x.Endpoints().Ordinal(id)
		for range 150 {
			seed++
			place(t, x, id, long(seed, 0, 256, 256))
			place(t, x, twin, long(seed, 0, 256, 256))
			slots, run, longest := (*x.forests.Load())[testKey].held[ordinal].pairs.slots, 0, 0
			if len(slots) == 0 {
				t.Fatalf("%s has no table", id)
			}
			for _, s := range slots {
				if run++; s == 0 {
					run = 0
				}
				longest = max(longest, run)
			}
			if longest > 256 {
				t.Fatalf("%s: %d slots in a row are taken", id, longest)
			}
		}
	}
}

// What an endpoint was sent up to a mark is forgotten, and nothing else: not what it
// was sent since, not what is at the beginning of that, nothing of others.
func TestForgetGoesUpToAMark(t *testing.T) {
	ids := []string{"x", "y"}
	x := newIndex(t, DefaultConfig())
	x.SetEndpoints(ids)
	put := func(id string, chain []uint64) Placed {
		p, err := x.Place(testKey, id, chain)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	old, shared, other := path(1, 2), path(3, 4, 5), path(3, 4, 6, 7)
	put("y", old)
	first := put("x", old)
	second := put("x", shared)
	third := put("x", other)
	if first.Held != 0 || first.Last != 0 || third.Held != 2 || third.Last != second.Mark || first.Mark >= second.Mark || second.Mark >= third.Mark {
		t.Errorf("placements %+v, %+v, %+v", first, second, third)
	}
	for _, c := range []struct {
		name               string
		key                Key
		id                 string
		upTo               Mark
		forgotten          int
		old, shared, other uint32
	}{
		{"a stranger", testKey, "stranger", third.Mark, 0, 2, 3, 4},
		{"another key", Key{"other", 64}, "x", third.Mark, 0, 2, 3, 4},
		{"before the first", testKey, "x", first.Mark - 1, 0, 2, 3, 4},
		{"the first", testKey, "x", first.Mark, 2, 0, 3, 4},
		{"the second keeps what the third used again", testKey, "x", second.Mark, 1, 0, 2, 4},
		{"all", testKey, "x", third.Mark, 4, 0, 0, 0},
		{"nothing is left", testKey, "x", third.Mark, 0, 0, 0, 0},
	} {
		if n := x.Forget(c.key, c.id, c.upTo); n != c.forgotten {
			t.Errorf("%s: %d blocks forgotten, want %d", c.name, n, c.forgotten)
		}
		x.check(t)
		for i, chain := range [][]uint64{old, shared, other} {
			want := []uint32{[]uint32{c.old, c.shared, c.other}[i], []uint32{2, 0, 0}[i]}
			if diff := cmp.Diff(want, match(x, testKey, chain, ids)); diff != "" {
				t.Errorf("%s: matched of chain %d (-want +got):\n%s", c.name, i, diff)
			}
		}
	}
	if got := x.Stats().Evicted; got != (Evictions{Contradicted: 7}) {
		t.Errorf("evicted %+v", got)
	}
	if again := put("x", old); again.Held != 0 || again.Mark <= third.Mark {
		t.Errorf("placed again: %+v", again)
	}
}

// TestForgetHeedsNoMarkOfAnEarlierLife forgets up to a mark that was given before the endpoint
// left and came back: nothing that it was sent since is as old as that.
func TestForgetHeedsNoMarkOfAnEarlierLife(t *testing.T) {
	x := newIndex(t, DefaultConfig())
	x.SetEndpoints([]string{"a"})
	var mark Mark
	for i := range uint64(3) {
		placed, err := x.Place(testKey, "a", path(i))
		if err != nil {
			t.Fatal(err)
		}
		mark = placed.Mark
	}
	x.SetEndpoints(nil)
	x.SetEndpoints([]string{"a"})
	place(t, x, "a", path(7, 7))
	if n := x.Forget(testKey, "a", mark); n != 0 {
		t.Errorf("forgot %d blocks that were placed after the mark", n)
	}
	if got := match(x, testKey, path(7, 7), []string{"a"}); got[0] != 2 {
		t.Errorf("matches %d blocks, want 2", got[0])
	}
}

func TestOrdinalsAreGivenAgain(t *testing.T) {
	x := newIndex(t, DefaultConfig())
	x.SetEndpoints([]string{"a", "b", "c"})
	b := x.Endpoints().Ordinal("b")
	x.SetEndpoints([]string{"a", "c"})
	x.SetEndpoints([]string{"a", "c", "d", "e"})
	if got := x.Endpoints().Ordinal("d"); got != b {
		t.Errorf("d has ordinal %d, want that of b, %d", got, b)
	}
	if got := x.Endpoints().Ordinal("e"); got != 3 {
		t.Errorf("e has ordinal %d, want 3", got)
	}
	if got := x.Endpoints().Ordinal("b"); got != Unknown {
		t.Errorf("b has ordinal %d, want none", got)
	}
}

// TestExportLeavesOutWhoLeft has an endpoint leave during an export, and another get its
// ordinal and its memory: what this one holds is not what that one held.
func TestExportLeavesOutWhoLeft(t *testing.T) {
	x := newIndex(t, DefaultConfig())
	x.SetEndpoints([]string{"gone"})
	place(t, x, "gone", path(1, 1, 1))
	e := x.Export()
	x.SetEndpoints([]string{"new"})
	place(t, x, "new", path(2, 2, 2))
	if got := x.Endpoints().Ordinal("new"); got != 0 {
		t.Fatalf("new has ordinal %d, want that of gone, 0", got)
	}
	for _, s := range e.Next(1 << 20) {
		t.Errorf("%s is said to hold %d blocks, although it has left", s.Endpoint, len(s.Blocks))
	}
	x.check(t)
}

func TestMostEndpoints(t *testing.T) {
	x := newIndex(t, DefaultConfig())
	ids := names(MaxEndpoints + 1)
	x.SetEndpoints(ids)
	if got := x.Endpoints().Len(); got != MaxEndpoints {
		t.Fatalf("%d endpoints known, want %d", got, MaxEndpoints)
	}
	chain := path(1, 2, 3)
	for i, id := range ids[:MaxEndpoints] {
		place(t, x, id, chain[:1+i%3])
	}
	got := match(x, testKey, chain, ids)
	for i := range ids[:MaxEndpoints] {
		if want := uint32(1 + i%3); got[i] != want {
			t.Fatalf("endpoint %d matches %d, want %d", i, got[i], want)
		}
	}
	if got[MaxEndpoints] != 0 {
		t.Errorf("the endpoint beyond the limit matches %d", got[MaxEndpoints])
	}
	x.check(t)
}

func TestRefusedPlacements(t *testing.T) {
	chain := path(1, 2, 3)
	cases := map[string]struct {
		key   Key
		chain []uint64
		want  error
		held  uint32 // of the chain afterwards
	}{
		"no scheme":                {Key{"", 64}, chain, ErrKey, 0},
		"endless scheme":           {Key{strings.Repeat("x", 65), 64}, chain, ErrKey, 0},
		"no block size":            {Key{"test", 0}, chain, ErrKey, 0},
		"a block twice":            {testKey, []uint64{chain[0], chain[1], chain[0]}, ErrChain, 2},
		"the same block in a row":  {testKey, []uint64{chain[0], chain[0]}, ErrChain, 1},
		"a head that is elsewhere": {testKey, []uint64{5, 6}, ErrChain, 0},
		"zeros":                    {testKey, make([]uint64, 4), ErrChain, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			x := newIndex(t, DefaultConfig())
			x.SetEndpoints([]string{"x", "y"})
			place(t, x, "y", []uint64{4, 5, 6})
			if _, err := x.Place(c.key, "x", c.chain); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if got := match(x, c.key, c.chain[:c.held], []string{"x"}); got[0] != c.held {
				t.Errorf("%d blocks held, want %d", got[0], c.held)
			}
			if got := x.Stats().Entries; got != 3+int64(c.held) {
				t.Errorf("%d entries, want %d", got, 3+c.held)
			}
			x.check(t)
		})
	}
}

func TestChainAboveTheLimit(t *testing.T) {
	x := newIndex(t, DefaultConfig())
	x.SetEndpoints([]string{"x"})
	chain := long(1, 1, 0, MaxChain+10)
	if _, err := x.Place(testKey, "x", chain); !errors.Is(err, ErrChain) {
		t.Errorf("error %v, want ErrChain", err)
	}
	if got := match(x, testKey, chain, []string{"x"}); got[0] != MaxChain {
		t.Errorf("matches %d, want %d", got[0], MaxChain)
	}
	x.check(t)
}

func TestTooManyForestsReplaceTheIdlest(t *testing.T) {
	x := newIndex(t, DefaultConfig())
	x.SetEndpoints([]string{"x"})
	key := func(i int) Key { return Key{"test", uint32(i + 1)} }
	chain := path(1, 2)
	for i := range MaxForests {
		if _, err := x.Place(key(i), "x", chain); err != nil {
			t.Fatal(err)
		}
	}
	// The first is used again, so the second is the idlest.
	for _, i := range []int{0, MaxForests} {
		if _, err := x.Place(key(i), "x", chain); err != nil {
			t.Fatal(err)
		}
	}
	for i := range MaxForests + 1 {
		want := uint32(2)
		if i == 1 {
			want = 0
		}
		if got := match(x, key(i), chain, []string{"x"}); got[0] != want {
			t.Errorf("block size %d matches %d, want %d", i+1, got[0], want)
		}
	}
}

func TestLargestCapacityAskedForCounts(t *testing.T) {
	x := newIndex(t, DefaultConfig())
	x.SetEndpoints([]string{"x"})
	chain := long(1, 1, 0, 100)
	place(t, x, "x", chain)
	for _, c := range []struct {
		asked int
		held  uint32
	}{{10, 10}, {5, 10}, {40, 40}} {
		x.Ask(testKey.BlockSize, c.asked)
		x.Ask(testKey.BlockSize+1, 7)
		place(t, x, "x", chain)
		if got := match(x, testKey, chain, []string{"x"}); got[0] != c.held {
			t.Errorf("after asking for %d, %d blocks are held, want %d", c.asked, got[0], c.held)
		}
	}
	x.check(t)
}

func TestStampsRunOut(t *testing.T) {
	x := newIndex(t, Config{MaxBytes: leastBytes, DefaultCapacity: 4})
	x.SetEndpoints([]string{"x"})
	place(t, x, "x", path(1, 1))
	h := (*x.forests.Load())[testKey].held[0]
	h.newest = math.MaxUint32 - 1
	for i := range uint64(4) {
		place(t, x, "x", path(1, 2+i))
		x.check(t)
	}
	if h.newest > firstStamp+10 {
		t.Errorf("stamps were not renumbered: newest is %d", h.newest)
	}
	for i, want := range []uint32{1, 1, 2, 2, 2} {
		if got := match(x, testKey, path(1, 1+uint64(i)), []string{"x"}); got[0] != want {
			t.Errorf("prompt %d matches %d, want %d", i, got[0], want)
		}
	}
}

func TestConfigFaults(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("default: %v", err)
	}
	_, err := New(Config{MaxBytes: 1, DefaultCapacity: 0})
	for _, key := range []string{"maxBytes", "defaultCapacity"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("error %v does not name %s", err, key)
		}
	}
}

// A match of many blocks on many endpoints allocates nothing.
func TestMatchAllocatesNothing(t *testing.T) {
	x := newIndex(t, DefaultConfig())
	ids := names(100)
	x.SetEndpoints(ids)
	chain := long(1, 1, 1563, 1563)
	ordinals, matched := make([]int32, len(ids)), make([]uint32, len(ids))
	for i, id := range ids {
		place(t, x, id, chain[:1+i*15])
		ordinals[i] = x.Endpoints().Ordinal(id)
	}
	if n := testing.AllocsPerRun(100, func() { x.Match(testKey, chain, ordinals, matched) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
