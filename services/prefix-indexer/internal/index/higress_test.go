package index

import "testing"

// Rows of Higress's ai-endpoint-picker about its memory of prompts, whose capacity is in
// blocks of the endpoint's cache. So it is here, where routers hash in blocks of about that
// size; a chain in blocks of another size is another chain.

// H10: a prompt of 5 blocks. One that does not fit loses its end; the reference loses all
// of what is longer than the capacity.
func TestHigressH10Capacity(t *testing.T) {
	for _, c := range []struct {
		capacity int
		held     uint32
	}{{10, 5}, {5, 5}, {4, 4}, {2, 2}} {
		x := newIndex(t, Config{MaxBytes: leastBytes, DefaultCapacity: c.capacity})
		x.SetEndpoints([]string{"x"})
		chain := path(1, 2, 3, 4, 5)
		place(t, x, "x", chain)
		if got := match(x, testKey, chain, []string{"x"}); got[0] != c.held || x.Stats().Entries != int64(c.held) {
			t.Errorf("room for %d: %d blocks match, %d entries; want %d", c.capacity, got[0], x.Stats().Entries, c.held)
		}
		if got := match(x, Key{testKey.Scheme, testKey.BlockSize / 2}, chain, []string{"x"}); got[0] != 0 {
			t.Errorf("blocks of half the size: %d match", got[0])
		}
		x.check(t)
	}
}

// H11: being asked about keeps nothing; being recorded does; the end goes before the head.
func TestHigressH11WhatIsKept(t *testing.T) {
	for _, c := range []struct {
		name          string
		again         bool   // the first is recorded again
		first, second uint32 // blocks that are left
	}{{"asked about only", false, 1, 3}, {"recorded again", true, 3, 1}} {
		t.Run(c.name, func(t *testing.T) {
			x := newIndex(t, Config{MaxBytes: leastBytes, DefaultCapacity: 6})
			x.SetEndpoints([]string{"x"})
			first, second := path(1, 2, 3), path(7, 8, 9)
			place(t, x, "x", first)
			place(t, x, "x", second)
			for range 5 {
				if got := match(x, testKey, first, []string{"x"}); got[0] != 3 {
					t.Fatalf("matches %d", got[0])
				}
			}
			if c.again {
				place(t, x, "x", first)
			}
			place(t, x, "x", path(50, 51))
			if a, b := match(x, testKey, first, []string{"x"}), match(x, testKey, second, []string{"x"}); a[0] != c.first || b[0] != c.second {
				t.Errorf("%d and %d blocks are left, want %d and %d", a[0], b[0], c.first, c.second)
			}
		})
	}
}
