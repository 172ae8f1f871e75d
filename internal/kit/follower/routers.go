package follower

import (
	"time"

	"github.com/pointsman/pointsman/internal/kit/outcomes"
	"github.com/pointsman/pointsman/internal/kit/roster"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// routerSilence is how long a router may say nothing before its picks are ended; it
// sends an empty batch every second.
const routerSilence = 10 * time.Second

// askAgainAfter is how long after a question without an answer it is asked again. What
// was lost may be the end of a pick, which would count for as long as its router lives.
const askAgainAfter = 10 * time.Second

// feed is the outcome batches of one router. Guarded by Follower.mu.
type feed struct {
	last     uint64 // sequence of the last batch applied
	heard    int64  // ns, by the roster's clock
	asking   bool   // its open picks were asked for; batches wait
	queue    []*outcomes.Batch
	askAgain int64 // ns, by the roster's clock; 0: nothing is known to be missing
}

// routers applies what routers say to the roster. Guarded by Follower.mu.
type routers struct {
	roster *roster.Roster
	feeds  map[string]*feed
}

// hear applies a batch, or keeps it until the router's open picks are known. It
// returns true if those must be asked for.
func (rs *routers) hear(m *outcomes.Batch, received int64) (ask bool) {
	id, seq := m.GetStamp().GetPublisherId(), m.GetStamp().GetSequence()
	if m.Leaving {
		rs.drop(id)
		return false
	}
	f := rs.feeds[id]
	if f == nil {
		f = &feed{}
		rs.feeds[id] = f
	}
	f.heard = received
	if f.asking {
		f.queue = append(f.queue, m.Clone())
		return false
	}
	if seq <= f.last {
		return false
	}
	if seq != f.last+1 {
		f.asking = true
		f.queue = append(f.queue, m.Clone())
		return true
	}
	rs.apply(id, f, m, received)
	return false
}

// answered takes over a router's open picks (nil: it did not answer) and applies the
// batches that waited. It returns true if the picks must be asked for again: the answer
// was given before what is missing was sent, as one to an earlier question may be.
func (rs *routers) answered(id string, m *statev1.GetPicksResponse, received int64) (again bool) {
	f := rs.feeds[id]
	if f == nil {
		if m == nil {
			return false
		}
		f = &feed{heard: received}
		rs.feeds[id] = f
	}
	switch {
	case m != nil && m.GetStamp().GetSequence() >= f.last:
		rs.take(id, f, m, received)
	case m == nil && f.asking:
		f.askAgain = received + int64(askAgainAfter)
	}
	queue := f.queue
	f.asking, f.queue = false, nil
	for i, b := range queue {
		switch seq := b.GetStamp().GetSequence(); {
		case seq <= f.last:
		case m != nil && seq != f.last+1:
			f.asking, f.queue = true, queue[i:]
			return true
		default:
			rs.apply(id, f, b, received)
		}
	}
	return false
}

// take makes a router's open picks what it says they are.
func (rs *routers) take(id string, f *feed, m *statev1.GetPicksResponse, received int64) {
	open := make(map[uint64]bool, len(m.GetPicks()))
	for _, p := range m.GetPicks() {
		open[p.GetPickId()] = true
		rs.pick(id, p.GetPickId(), p.GetPicked().GetEndpointId(), p.GetPicked().GetUncachedTokenCount(), p.GetPicked().GetAgeMs(), received)
	}
	rs.roster.Keep(id, open)
	f.last, f.askAgain = m.GetStamp().GetSequence(), 0
	rs.roster.Applied(id, f.last)
}

// doubtful returns the routers whose open picks are to be asked for again, since they
// were not told when something was missing. Their batches wait from now on.
func (rs *routers) doubtful(now int64) (ids []string) {
	for id, f := range rs.feeds {
		if f.askAgain != 0 && now >= f.askAgain && !f.asking {
			f.askAgain, f.asking = 0, true
			ids = append(ids, id)
		}
	}
	return ids
}

func (rs *routers) apply(id string, f *feed, m *outcomes.Batch, received int64) {
	for i := range m.Events {
		switch e := &m.Events[i]; e.Kind {
		case outcomes.Picked:
			rs.pick(id, e.PickID, e.Endpoint, e.UncachedTokens, e.AgeMS, received)
		case outcomes.Finished:
			rs.roster.Finish(id, e.PickID)
		}
	}
	f.last = m.GetStamp().GetSequence()
	rs.roster.Applied(id, f.last)
}

func (rs *routers) pick(id string, pickID uint64, endpoint string, uncached, ageMS uint32, received int64) {
	rs.roster.Pick(id, pickID, roster.ID(endpoint), uncached, received-int64(ageMS)*int64(time.Millisecond))
}

// silent drops the routers that have said nothing for too long and returns their ids.
func (rs *routers) silent(now int64) (gone []string) {
	for id, f := range rs.feeds {
		if now-f.heard > int64(routerSilence) {
			rs.drop(id)
			gone = append(gone, id)
		}
	}
	return gone
}

func (rs *routers) drop(id string) {
	delete(rs.feeds, id)
	rs.roster.DropRouter(id)
}
