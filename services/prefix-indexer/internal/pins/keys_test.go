package pins

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

func TestMarks(t *testing.T) {
	for _, c := range []struct {
		n    int
		want []int
	}{
		{0, nil},
		{1, []int{1}},
		{3, []int{1, 2, 3}},
		{17, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}},
		{25, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 25}},
		{40, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40}},
	} {
		if diff := cmp.Diff(c.want, marks(nil, c.n)); diff != "" {
			t.Errorf("%d blocks (-want +got):\n%s", c.n, diff)
		}
	}
	for n, want := range map[int]int{100: 37, 256: 48, 500: 56, index.MaxChain: 88} {
		if got := len(marks(nil, n)); got != want {
			t.Errorf("%d keys for %d blocks, want %d", got, n, want)
		}
	}
}

// A prompt that goes on from another finds it, at most an eighth too short.
func TestAPromptThatGoesOnIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.IntRange(1, index.MaxChain).Draw(t, "first")
		longer := rapid.IntRange(first, index.MaxChain).Draw(t, "longer")
		there := make(map[int]bool)
		for _, m := range marks(nil, first) {
			there[m] = true
		}
		found, before := 0, 0
		for _, m := range marks(nil, longer) {
			if m <= before || m > longer {
				t.Fatalf("mark %d after %d of %d blocks", m, before, longer)
			}
			if before = m; there[m] {
				found = m
			}
		}
		if found > first || found < first-first/8 {
			t.Fatalf("%d of %d blocks are found", found, first)
		}
	})
}

func TestKeysAreApart(t *testing.T) {
	seen := make(map[string]string)
	for _, pool := range []string{"p", "p}", "p%7D", "{p", "", "a:b"} {
		for _, scheme := range []string{"s", "s:64", "s%3A64", "{x}"} {
			for _, size := range []uint32{6, 64, 641} {
				s := &Store{prefix: "pointsman:{" + tag(pool) + "}:prefix:"}
				for _, k := range s.keys(nil, index.Key{Scheme: scheme, BlockSize: size}, []uint64{1, 0x41}, []int{1, 2}) {
					what := pool + "|" + scheme + "|" + string(rune(size))
					if other, there := seen[k]; there {
						t.Errorf("%s is the key of %q and of %q", k, other, what)
					}
					seen[k] = what
				}
			}
		}
	}
	s := &Store{prefix: "pointsman:{" + tag("my pool") + "}:prefix:"}
	if diff := cmp.Diff([]string{"pointsman:{my%20pool}:prefix:xxh64-1:64:ff"}, s.keys(nil, index.Key{Scheme: "xxh64-1", BlockSize: 64}, []uint64{255}, []int{1})); diff != "" {
		t.Error(diff)
	}
}
