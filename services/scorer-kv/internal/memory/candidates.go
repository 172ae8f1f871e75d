package memory

import (
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// Config is how figures are judged.
type Config struct {
	// Roster is followed.
	Roster *roster.Roster
	// StalenessLimit is the age above which figures that come with a request are not
	// believed. Those of the roster have its own limit, which should be the same.
	StalenessLimit time.Duration
	// Abstained, if set, is called with the number of candidates that were abstained
	// on, after a call in which there were any.
	Abstained func(scorerType string, reason scorerv1.AbstainReason, candidates int)
}

// candidates is who is to be rated in one call. It is used again for other calls.
type candidates struct {
	snapshot *roster.Snapshot
	now      int64 // ns of the roster's clock
	// at is the position in the snapshot's table, -1 for candidates that are not in it.
	at []int32
	// listed is nil for candidates by reference to a table.
	listed []*scorerv1.Candidate

	all  []int32 // 0, 1, 2 and so on, for requests about a whole table
	some []int32 // room for at
}

// resolve fills in the candidates of a request.
func (c *candidates) resolve(r *roster.Roster, req *scorerv1.ScoreRequest) error {
	c.now = r.Now()
	ref := req.GetTable()
	if ref == nil {
		c.snapshot, c.listed = r.Snapshot(), req.GetListed().GetCandidates()
		c.some = slices.Grow(c.some[:0], len(c.listed))
		for _, l := range c.listed {
			at := int32(-1)
			if pos, ok := c.snapshot.Table.Position(roster.ID(l.GetEndpointId())); ok {
				at = int32(pos)
			}
			c.some = append(c.some, at)
		}
		c.at = c.some
		return nil
	}
	var ok bool
	if c.snapshot, ok = r.SnapshotOf(ref.GetTableDigest()); !ok {
		return scorer.TableNotHeld(ref.GetTableDigest())
	}
	c.listed = nil
	if len(ref.GetPositions()) == 0 {
		for i := len(c.all); i < c.snapshot.Len(); i++ {
			c.all = append(c.all, int32(i))
		}
		c.at = c.all[:c.snapshot.Len()]
		return nil
	}
	c.some = c.some[:0]
	for _, p := range ref.GetPositions() {
		if int(p) >= c.snapshot.Len() {
			return scorer.InvalidRequest("table.positions: %d is not in the table, which has %d endpoints", p, c.snapshot.Len())
		}
		c.some = append(c.some, int32(p))
	}
	c.at = c.some
	return nil
}

// release lets go of what belongs to the request.
func (c *candidates) release() { c.snapshot, c.listed, c.at = nil, nil, nil }

// load returns the load that came with a candidate; nil if none did.
func (c *candidates) load(i int) *scorerv1.EndpointLoad {
	if c.listed == nil {
		return nil
	}
	return c.listed[i].GetLoad()
}

// endpoint returns what the table says of a candidate; nil if it is not in it.
func (c *candidates) endpoint(i int) *roster.Endpoint {
	if c.at[i] < 0 {
		return nil
	}
	return &c.snapshot.Table.Endpoints[c.at[i]]
}

// index returns the candidate at a table position, -1 if there is none. Candidates by
// reference are in table order.
func (c *candidates) index(position uint32) int {
	if i, ok := slices.BinarySearch(c.at, int32(min(position, 1<<30))); ok {
		return i
	}
	return -1
}

// sent is the age of a load that came with a candidate. The sender's clock may be
// ahead of ours.
func sent(load *scorerv1.EndpointLoad) time.Duration {
	if load.GetObserveTime() == nil {
		return 0
	}
	return max(0, time.Since(load.GetObserveTime().AsTime()))
}

// abstentions counts the candidates that are not rated, by cause.
type abstentions struct {
	oldest         time.Duration // age of the oldest figure that is used
	unknown, stale int
}

// judge says whether a figure of the age may be used. Negative: never read.
func (a *abstentions) judge(known, fresh bool, age time.Duration) bool {
	switch {
	case !known:
		a.unknown++
		return false
	case !fresh:
		a.stale++
		return false
	}
	a.oldest = max(a.oldest, age)
	return true
}

func (a *abstentions) count() int { return a.unknown + a.stale }

// reason says why there are abstentions. Stale state is the graver news.
func (a *abstentions) reason() scorerv1.AbstainReason {
	if a.stale > 0 {
		return scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE
	}
	return scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT
}
