package route

import (
	"fmt"
	"slices"
)

// ScoredFilter is a Filter that goes by what the scorers have said. It runs after
// scoring, and so do all filters that stand after it in its profile, so that every
// scorer is asked once, about everybody who may yet stay.
type ScoredFilter interface {
	Filter
	// FilterScored is Filter, with what was said of the candidates.
	FilterScored(c *Cycle, said Said, in []int32) []int32
}

// Said is what the scorers of a profile said.
type Said struct {
	// Candidates are the positions that were scored, ascending.
	Candidates []int32
	// Scores has one entry per scorer of the profile.
	Scores []Scores
}

// Matched returns the share of the prompt's blocks, 0..1, that the endpoint at the
// position is believed to hold from the start without a gap: the most that a scorer
// said whose answer counts. It is false if none said anything.
func (s Said) Matched(pos int32) (float64, bool) {
	i, asked := slices.BinarySearch(s.Candidates, pos)
	if !asked {
		return 0, false
	}
	share, told := 0.0, false
	for k := range s.Scores {
		if sc := &s.Scores[k]; sc.Verdict == Scored && sc.Blocks > 0 && i < len(sc.Matched) {
			share, told = max(share, float64(sc.Matched[i])/float64(sc.Blocks)), true
		}
	}
	return share, told
}

// early returns how many of the profile's filters run before scoring.
func (p *Profile) early() int {
	for i, f := range p.Filters {
		if _, late := f.(ScoredFilter); late {
			return i
		}
	}
	return len(p.Filters)
}

// filterLate runs the filters that come after scoring, and takes what was said of
// those who are dropped out of the result.
func filterLate(c *Cycle, res *ProfileResult, then *[]int64) error {
	late := res.Profile.Filters[res.Profile.early():]
	if len(late) == 0 {
		return nil
	}
	said := Said{Candidates: res.Candidates, Scores: res.Scores}
	kept := slices.Clone(res.Candidates)
	var before []int32
	for _, f := range late {
		n := len(kept)
		if c.Explain {
			before = append(before[:0], kept...)
		}
		if s, ok := f.(ScoredFilter); ok {
			kept = s.FilterScored(c, said, kept)
		} else {
			kept = f.Filter(c, kept)
		}
		if c.Explain {
			noteDropped(res.DroppedBy, before, kept, f.Name())
		}
		if len(kept) == 0 {
			res.Candidates = nil
			return leftNone(f, n)
		}
	}
	res.retain(kept, then)
	return nil
}

// leftNone is the error of a filter that left none of n candidates.
func leftNone(f Filter, n int) error {
	reason := ErrNoEndpoint
	if _, load := f.(LoadFilter); load {
		reason = ErrShed
	}
	return fmt.Errorf("%w: filter %q left none of %d endpoints", reason, f.Name(), n)
}

// retain makes kept, which are some of the candidates, the candidates.
func (r *ProfileResult) retain(kept []int32, then *[]int64) {
	if len(kept) == len(r.Candidates) {
		return
	}
	to := make([]int32, len(r.Candidates)) // a candidate's new index, −1: dropped
	next := int32(0)
	for i, pos := range r.Candidates {
		to[i] = -1
		if _, stays := slices.BinarySearch(kept, pos); stays {
			to[i] = next
			next++
		}
	}
	r.Candidates = kept
	r.Totals, r.InFlight, *then = squeeze(r.Totals, to), squeeze(r.InFlight, to), squeeze(*then, to)
	for k := range r.Scores {
		r.Scores[k].retain(to)
	}
}

func (s *Scores) retain(to []int32) {
	s.Values, s.Matched = squeeze(s.Values, to), squeeze(s.Matched, to)
	var on []uint32
	for _, i := range s.AbstainedOn {
		if int(i) < len(to) && to[i] >= 0 {
			on = append(on, uint32(to[i]))
		}
	}
	s.AbstainedOn = on
	if s.Texts == nil {
		return
	}
	texts := make(map[uint32]string, len(s.Texts))
	for i, text := range s.Texts {
		if int(i) < len(to) && to[i] >= 0 {
			texts[uint32(to[i])] = text
		}
	}
	s.Texts = texts
}

// squeeze returns a column without those who are dropped. The column itself, which
// may be shared, is left as it is.
func squeeze[T any](column []T, to []int32) []T {
	if len(column) != len(to) {
		return column // it is empty: nothing was said
	}
	out := make([]T, 0, len(column))
	for i, v := range column {
		if to[i] >= 0 {
			out = append(out, v)
		}
	}
	return out
}
