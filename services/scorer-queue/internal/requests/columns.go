package requests

import (
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/services/scorer-queue/internal/contrast"
)

// columns is what is known of the candidates of one call: entry i of each column is
// candidate i. It is used again for other calls.
type columns struct {
	scraped  []int64         // contrast.Unknown: not known
	credited []int64         // picks that the scrape cannot have seen
	expected []int64         // the sum; contrast.Unknown: abstain
	ages     []time.Duration // empty unless explanations are asked for

	least, most int64 // of what is expected; set by comparison

	oldest  time.Duration // age of the oldest figure that is used
	unknown int           // candidates that nothing is known of
	stale   int           // candidates of which what is known is too old
	applied uint64        // last outcome batch of the asking router that is in credited
}

func (c *columns) reset(n int) {
	c.scraped = slices.Grow(c.scraped[:0], n)[:n]
	c.credited = slices.Grow(c.credited[:0], n)[:n]
	c.expected = slices.Grow(c.expected[:0], n)[:n]
	c.ages = c.ages[:0]
	c.oldest, c.unknown, c.stale, c.applied = 0, 0, 0, 0
}

// creditSpan is how many credited requests take the whole point from a candidate while
// the engines themselves report no difference. A credited request is expected to
// run, not to wait: counting it like a request that waits would turn every choice
// of a moment ago into the full contrast between two idle engines, and pull
// conversations away from their cached prefix.
const creditSpan = 8

// width is the count that makes the difference of one point between candidates:
// that between the least and the most expected, as the formula has it, or, while
// only credits differ, at least creditSpan.
func (c *columns) width(least, most int64) int64 {
	first := int64(contrast.Unknown)
	for i, e := range c.expected {
		switch {
		case e < 0:
		case first < 0:
			first = c.scraped[i]
		case c.scraped[i] != first:
			return max(most-least, 1) // 1: credits make up for what engines report
		}
	}
	return max(most-least, creditSpan)
}

// reason says why there are abstentions. Stale state is the graver news.
func (c *columns) reason() scorerv1.AbstainReason {
	if c.stale > 0 {
		return scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE
	}
	return scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT
}

// set notes one candidate. A negative age is: never read.
func (c *columns) set(i int, scraped, credited int64, age time.Duration, fresh bool) {
	c.scraped[i], c.credited[i] = scraped, credited
	c.ages = append(c.ages, age)
	switch {
	case scraped < 0:
		c.expected[i] = contrast.Unknown
		c.unknown++
	case !fresh:
		c.expected[i] = contrast.Unknown
		c.stale++
	default:
		c.expected[i] = scraped + credited
		c.oldest = max(c.oldest, age)
	}
}

// fill resolves the candidates.
func (t *Type) fill(c *columns, req *scorerv1.ScoreRequest) error {
	ref := req.GetTable()
	if ref == nil {
		t.fillListed(c, req.GetListed().GetCandidates())
		return nil
	}
	snapshot, ok := t.cfg.Roster.SnapshotOf(ref.GetTableDigest())
	if !ok {
		return scorer.TableNotHeld(ref.GetTableDigest())
	}
	positions := ref.GetPositions()
	n := len(positions)
	if n == 0 {
		n = snapshot.Len()
	} else if last := positions[n-1]; int(last) >= snapshot.Len() {
		return scorer.InvalidRequest("table.positions: %d is not in the table, which has %d endpoints", last, snapshot.Len())
	}
	c.reset(n)
	// The sequence is read before the credits: a batch that arrives in between counts
	// twice for this one call, rather than not at all.
	pending := req.GetPending()
	c.applied = t.cfg.Roster.AppliedSequence(pending.GetRouterId())
	now := t.cfg.Roster.Now()
	c.known(snapshot, t.figure.column(snapshot), positions, now)
	if req.GetExplain() {
		for i := range n {
			c.ages = append(c.ages, snapshot.Age(at(positions, i), now))
		}
	}
	c.addPending(pending, positions)
	return nil
}

// at returns the table position of candidate i; no positions are all of the table.
func at(positions []uint32, i int) int {
	if len(positions) > 0 {
		return int(positions[i])
	}
	return i
}

// known notes what the roster knows of the candidates. It is set for many at once, but for
// their ages.
func (c *columns) known(s *roster.Snapshot, figures []int32, positions []uint32, now int64) {
	credited, scraped, expected := c.credited, c.scraped[:len(c.credited)], c.expected[:len(c.credited)]
	fresh, oldest := s.FreshSince(now), now
	for i := range credited {
		pos := at(positions, i)
		figure, credit := int64(figures[pos]), s.Credited(pos)
		scraped[i], credited[i], expected[i] = figure, credit, figure+credit
		switch observed := s.ObservedAt[pos]; {
		case figure < 0:
			expected[i] = contrast.Unknown
			c.unknown++
		case observed < fresh:
			expected[i] = contrast.Unknown
			c.stale++
		default:
			oldest = min(oldest, observed)
		}
	}
	c.oldest = time.Duration(now - oldest)
}

// addPending counts the asking router's picks that are not in the credits yet.
func (c *columns) addPending(pending *scorerv1.PendingPicks, positions []uint32) {
	for i, sequence := range pending.GetSequences() {
		if sequence <= c.applied {
			continue
		}
		at := int(pending.GetPositions()[i])
		if len(positions) > 0 {
			var among bool
			if at, among = slices.BinarySearch(positions, pending.GetPositions()[i]); !among {
				continue
			}
		}
		if at >= len(c.expected) {
			continue
		}
		c.credited[at]++
		if c.expected[at] >= 0 {
			c.expected[at]++
		}
	}
}

// fillListed takes the loads that come with the candidates, and those of the roster
// for candidates without one: a router sends no loads to those who follow the
// broadcast.
func (t *Type) fillListed(c *columns, candidates []*scorerv1.Candidate) {
	c.reset(len(candidates))
	snapshot, now := t.cfg.Roster.Snapshot(), t.cfg.Roster.Now()
	column := t.figure.column(snapshot)
	for i, candidate := range candidates {
		if load := candidate.GetLoad(); load != nil {
			t.setLoad(c, i, load)
		} else if pos, ok := snapshot.Table.Position(roster.ID(candidate.GetEndpointId())); ok {
			credited, _ := snapshot.Credit(pos)
			c.set(i, int64(column[pos]), credited, snapshot.Age(pos, now), snapshot.Fresh(pos, now))
		} else {
			c.set(i, contrast.Unknown, 0, -1, false)
		}
	}
}

func (t *Type) setLoad(c *columns, i int, load *scorerv1.EndpointLoad) {
	scraped := int64(contrast.Unknown)
	if n := t.figure.listed(load); n != nil {
		scraped = int64(*n)
	}
	age := time.Duration(0)
	if load.GetObserveTime() != nil {
		// By the sender's clock, which may be ahead of ours.
		age = max(0, time.Since(load.GetObserveTime().AsTime()))
	}
	c.set(i, scraped, int64(load.GetCreditedRequestCount()), age, age <= t.cfg.StalenessLimit)
}
