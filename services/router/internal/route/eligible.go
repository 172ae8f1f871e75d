package route

import (
	"fmt"
	"slices"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// Names under which ProfileResult.DroppedBy knows what is not a filter.
const (
	DroppedBySubset     = "subset"
	DroppedByModel      = "model"
	DroppedByQuarantine = "quarantine"
)

// eligible is who may serve a request before any profile is asked.
type eligible struct {
	positions []int32 // ascending; shared, not to be changed
	droppedBy []string
	waived    bool    // quarantine would have left nobody
	whole     []int32 // positions with those in quarantine; nil if nobody is
	err       error   // why there is nobody
}

// eligible heeds the subset, then the model, then quarantine.
func (s *Scheduler) eligible(c *Cycle) eligible {
	n := c.Snapshot.Len()
	in := eligible{positions: s.all(n)}
	if c.Explain {
		in.droppedBy = make([]string, n)
	}
	if n == 0 {
		in.err = fmt.Errorf("%w: no endpoint is known", ErrNoEndpoint)
		return in
	}
	if sub := c.Request.Subset; sub != nil {
		in.keep(s.addressesOf(c.Snapshot.Table).positions(sub), DroppedBySubset)
		if len(in.positions) == 0 {
			in.err = fmt.Errorf("%w: none of the %d endpoints is in the subset that the proxy allows", ErrNoEndpoint, n)
			return in
		}
	}
	if serving := c.Snapshot.Table.Serving(c.Request.Model); serving != nil && c.Request.Model != "" {
		before := len(in.positions)
		in.keep(intersect(in.positions, serving), DroppedByModel)
		if len(in.positions) == 0 {
			in.err = fmt.Errorf("%w: none of the %d endpoints serves model %.128q", ErrNoEndpoint, before, c.Request.Model)
			return in
		}
	}
	s.heedQuarantine(c, &in)
	return in
}

// heedQuarantine drops who is in quarantine, unless that is everybody: a pool in
// which all have failed is better tried than refused.
func (s *Scheduler) heedQuarantine(c *Cycle, in *eligible) {
	var out []int32
	if s.deps.Quarantine != nil {
		for _, id := range s.deps.Quarantine.Suspects() {
			if pos, in := c.Snapshot.Table.Position(id); in && s.deps.Quarantine.Reason(id, c.Now) != "" {
				out = append(out, int32(pos)) //nolint:gosec // at most roster.MaxEndpoints
			}
		}
	}
	if c.Request.Retry != nil { // it has tried some by itself
		for _, id := range c.Request.Retry.Failed {
			if pos, in := c.Snapshot.Table.Position(id); in {
				out = append(out, int32(pos)) //nolint:gosec // at most roster.MaxEndpoints
			}
		}
	}
	if len(out) == 0 {
		return
	}
	slices.Sort(out)
	kept := subtract(in.positions, out)
	if len(kept) == 0 {
		in.waived = true
		return
	}
	if len(kept) < len(in.positions) {
		in.whole = in.positions
	}
	in.keep(kept, DroppedByQuarantine)
}

// waive takes those in quarantine back.
func (in *eligible) waive() {
	in.positions, in.whole, in.waived = in.whole, nil, true
	for pos, by := range in.droppedBy {
		if by == DroppedByQuarantine {
			in.droppedBy[pos] = ""
		}
	}
}

func (in *eligible) keep(kept []int32, by string) {
	if in.droppedBy != nil {
		noteDropped(in.droppedBy, in.positions, kept, by)
	}
	in.positions = kept
}

// noteDropped names by for every position of before that is not in after, which is
// a subsequence of before.
func noteDropped(droppedBy []string, before, after []int32, by string) {
	for _, pos := range before {
		if len(after) > 0 && after[0] == pos {
			after = after[1:]
			continue
		}
		droppedBy[pos] = by
	}
}

// intersect returns the positions that are in both ascending lists.
func intersect(a, b []int32) []int32 {
	both := make([]int32, 0, min(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			both = append(both, a[0])
			a, b = a[1:], b[1:]
		}
	}
	return both
}

// subtract returns the positions of a that are not in b, both ascending.
func subtract(a, b []int32) []int32 {
	rest := make([]int32, 0, len(a))
	for _, pos := range a {
		for len(b) > 0 && b[0] < pos {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != pos {
			rest = append(rest, pos)
		}
	}
	return rest
}

// addressesOf returns the table's addresses, indexed once per table.
func (s *Scheduler) addressesOf(t *roster.Table) *addressIndex {
	if ix := s.addresses.Load(); ix != nil && ix.table == t {
		return ix
	}
	ix := newAddressIndex(t)
	s.addresses.Store(ix)
	return ix
}
