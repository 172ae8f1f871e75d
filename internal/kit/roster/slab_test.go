package roster

import (
	"fmt"
	"testing"
)

// Counts of more endpoints than a slab has do not mix, and those of an endpoint that is gone
// are nobody else's.
func TestCountsOfManyEndpoints(t *testing.T) {
	const n = 2*slabSize + 100
	r := New(Config{})
	set := func(generation string) *Snapshot {
		endpoints := make([]Endpoint, n)
		for i := range endpoints {
			endpoints[i] = Endpoint{ID: ID(fmt.Sprintf("%s%04d", generation, i)), Host: "h", Port: 1}
		}
		table, err := NewTable(endpoints)
		if err != nil {
			t.Fatal(err)
		}
		r.SetTable(table)
		return r.Snapshot()
	}
	before := set("a")
	picks := uint64(0)
	for i := range n {
		for range i % 3 {
			picks++
			r.Pick("router", picks, before.Table.Endpoints[i].ID, uint32(i), r.Now()) //nolint:gosec // a test's
		}
	}
	positions := make([]int32, 0, n)
	for i := n - 1; i >= 0; i-- {
		positions = append(positions, int32(i)) //nolint:gosec // a test's
	}
	counts := make([]int64, n)
	check := func(s *Snapshot, times int64) {
		t.Helper()
		s.InFlightOf(positions, counts)
		for at, pos := range positions {
			want := times * int64(pos%3)
			requests, tokens := s.Credit(int(pos))
			if counts[at] != want || s.InFlight(int(pos)) != want || requests != want || tokens != want*int64(pos) ||
				s.InFlightTokens(int(pos)) != tokens || s.Credited(int(pos)) != requests || s.CreditedTokens(int(pos)) != tokens {
				t.Fatalf("endpoint %d has %d in flight, credit for %d of %d tokens, want %d", pos, counts[at], requests, tokens, want)
			}
		}
	}
	check(before, 1)
	var after *Snapshot
	for i := range heldTables + 1 { // until the first table is forgotten
		after = set(fmt.Sprint("b", i))
	}
	check(after, 0)
	check(before, 1)
	for id := uint64(1); id <= picks; id++ {
		r.Finish("router", id)
	}
	check(before, 0)
}

func TestFreshSince(t *testing.T) {
	r := New(Config{})
	table, err := NewTable([]Endpoint{{ID: "a", Host: "h", Port: 1}})
	if err != nil {
		t.Fatal(err)
	}
	r.SetTable(table)
	s := r.Snapshot()
	for _, now := range []int64{0, s.staleness - 1, s.staleness, s.staleness + 1, 10 * s.staleness} {
		for _, at := range []int64{Never, 0, now - s.staleness - 1, now - s.staleness, now} {
			s.ObservedAt[0] = at
			if want, got := s.Fresh(0, now), at >= s.FreshSince(now); got != want {
				t.Errorf("figures of %d at %d: fresh %t, want %t", at, now, got, want)
			}
		}
	}
}
