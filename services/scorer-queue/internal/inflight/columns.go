package inflight

import (
	"slices"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// unknown is the count of a candidate that is not in the pool.
const unknown = -1

// columns is what is in flight at the candidates of one call: entry i is candidate i.
// It is used again for other calls.
type columns struct {
	counts    []int64
	abstained int
	applied   uint64 // last outcome batch of the asking router that is in counts
}

// measure is what is counted.
type measure struct {
	count func(s *roster.Snapshot, pos int) int64
	// pending is what pick i of the asking router adds.
	pending func(p *scorerv1.PendingPicks, i int) int64
}

// fill counts for the candidates of a request.
func (c *columns) fill(r *roster.Roster, m *measure, req *scorerv1.ScoreRequest) error {
	c.counts, c.abstained, c.applied = c.counts[:0], 0, 0
	ref := req.GetTable()
	if ref == nil {
		c.fillListed(r.Snapshot(), m, req.GetListed().GetCandidates())
		return nil
	}
	snapshot, ok := r.SnapshotOf(ref.GetTableDigest())
	if !ok {
		return scorer.TableNotHeld(ref.GetTableDigest())
	}
	positions := ref.GetPositions()
	if n := len(positions); n > 0 && int(positions[n-1]) >= snapshot.Len() {
		return scorer.InvalidRequest("table.positions: %d is not in the table, which has %d endpoints", positions[n-1], snapshot.Len())
	}
	// The sequence is read before the counts: a batch that arrives in between counts
	// twice for this one call, rather than not at all.
	pending := req.GetPending()
	c.applied = r.AppliedSequence(pending.GetRouterId())
	if len(positions) == 0 {
		for pos := range snapshot.Len() {
			c.counts = append(c.counts, max(0, m.count(snapshot, pos)))
		}
	}
	for _, pos := range positions {
		c.counts = append(c.counts, max(0, m.count(snapshot, int(pos))))
	}
	c.addPending(m, pending, positions)
	return nil
}

func (c *columns) fillListed(snapshot *roster.Snapshot, m *measure, candidates []*scorerv1.Candidate) {
	for _, l := range candidates {
		count := int64(unknown)
		if pos, ok := snapshot.Table.Position(roster.ID(l.GetEndpointId())); ok {
			count = max(0, m.count(snapshot, pos))
		} else {
			c.abstained++
		}
		c.counts = append(c.counts, count)
	}
}

// addPending counts the asking router's picks that are not in the counts yet.
func (c *columns) addPending(m *measure, pending *scorerv1.PendingPicks, positions []uint32) {
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
		if at < len(c.counts) {
			c.counts[at] += m.pending(pending, i)
		}
	}
}
