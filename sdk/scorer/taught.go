package scorer

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// tables are what a router has taught on one stream, which one goroutine uses.
type tables struct {
	held []*table // the one taught last is last

	// Candidates of the call at hand, if they are a part of a table.
	part scorerv1.ScoreRequest_Listed
}

// table is a taught table as listed candidates, with the newest loads. Loads are
// written in place: no call is under way then.
type table struct {
	digest     uint64
	all        scorerv1.ScoreRequest_Listed
	candidates []scorerv1.Candidate
	loads      []scorerv1.EndpointLoad
	times      []timestamppb.Timestamp
	// What the optional figures of loads point to.
	waiting, running []uint32
	usage            []float32
}

func (ts *tables) find(digest uint64) *table {
	for i := len(ts.held) - 1; i >= 0; i-- {
		if ts.held[i].digest == digest {
			return ts.held[i]
		}
	}
	return nil
}

// teach takes a table, and forgets the oldest beyond the limit. A table that is
// taught again keeps its loads.
func (ts *tables) teach(m *scorerv1.TaughtTable) error {
	endpoints := m.GetEndpoints()
	if m.GetTableDigest() == 0 {
		return InvalidRequest("tables: table_digest missing")
	}
	if len(endpoints) > MaxCandidates {
		return InvalidRequest("tables: %d endpoints, at most %d", len(endpoints), MaxCandidates)
	}
	for i, e := range endpoints {
		if id := e.GetEndpointId(); id == "" || len(id) > MaxIDBytes {
			return InvalidRequest("tables: endpoint %d has an id of %d bytes, want 1 to %d", i, len(id), MaxIDBytes)
		}
		if i > 0 && e.GetEndpointId() <= endpoints[i-1].GetEndpointId() {
			return InvalidRequest("tables: endpoint %d is not in ascending order of ids", i)
		}
	}
	old := ts.find(m.GetTableDigest())
	t := old
	if old == nil || len(old.candidates) != len(endpoints) {
		t = newTable(m.GetTableDigest(), len(endpoints))
	}
	for i, e := range endpoints {
		t.candidates[i].EndpointId = e.GetEndpointId()
		t.candidates[i].Labels = e.GetLabels()
	}
	if old != nil {
		ts.held = slices.DeleteFunc(ts.held, func(h *table) bool { return h == old })
	}
	ts.held = append(ts.held, t)
	if n := len(ts.held) - HeldTables; n > 0 {
		ts.held = slices.Delete(ts.held, 0, n)
	}
	return nil
}

func newTable(digest uint64, n int) *table {
	t := &table{
		digest:     digest,
		candidates: make([]scorerv1.Candidate, n),
		loads:      make([]scorerv1.EndpointLoad, n),
		times:      make([]timestamppb.Timestamp, n),
		waiting:    make([]uint32, n),
		running:    make([]uint32, n),
		usage:      make([]float32, n),
	}
	t.all.Listed = &scorerv1.CandidateList{Candidates: make([]*scorerv1.Candidate, n)}
	for i := range t.candidates {
		t.all.Listed.Candidates[i] = &t.candidates[i]
	}
	return t
}

// load takes loads. Those of a table that is not held any more say nothing.
func (ts *tables) load(m *scorerv1.TaughtLoads, now time.Time) error {
	t := ts.find(m.GetTableDigest())
	if t == nil {
		return nil
	}
	if err := t.checkLoads(m); err != nil {
		return err
	}
	for i := range t.candidates {
		t.loadOne(m, i, now)
	}
	for _, a := range m.GetAdapters() {
		t.candidates[a.GetPosition()].Adapters = a.GetAdapters()
	}
	return nil
}

func (t *table) checkLoads(m *scorerv1.TaughtLoads) error {
	n := len(t.candidates)
	for _, c := range []struct {
		name   string
		length int
	}{
		{"age_ms", len(m.GetAgeMs())},
		{"waiting_request_counts", len(m.GetWaitingRequestCounts())},
		{"running_request_counts", len(m.GetRunningRequestCounts())},
		{"kv_cache_usage_ratios", len(m.GetKvCacheUsageRatios())},
		{"credited_request_counts", len(m.GetCreditedRequestCounts())},
		{"credited_token_counts", len(m.GetCreditedTokenCounts())},
	} {
		if c.length != 0 && c.length != n {
			return InvalidRequest("loads: %s has %d entries for %d endpoints", c.name, c.length, n)
		}
	}
	for i, v := range m.GetKvCacheUsageRatios() {
		if !(v <= 1) { // negative is unknown; NaN is neither
			return InvalidRequest("loads: kv_cache_usage_ratios[%d]: %v, at most 1", i, v)
		}
	}
	for _, a := range m.GetAdapters() {
		if int64(a.GetPosition()) >= int64(n) {
			return InvalidRequest("loads: adapters of position %d for %d endpoints", a.GetPosition(), n)
		}
	}
	return nil
}

// loadOne sets the load of one candidate. Figures that nobody has ever read
// leave it without a load, but for the credits.
func (t *table) loadOne(m *scorerv1.TaughtLoads, i int, now time.Time) {
	c, l := &t.candidates[i], &t.loads[i]
	c.Load, c.Adapters = nil, nil
	l.ObserveTime, l.WaitingRequestCount, l.RunningRequestCount, l.KvCacheUsageRatio = nil, nil, nil, nil
	l.CreditedRequestCount, l.CreditedTokenCount = 0, 0
	if v := m.GetCreditedRequestCounts(); len(v) > 0 {
		l.CreditedRequestCount = v[i]
	}
	if v := m.GetCreditedTokenCounts(); len(v) > 0 {
		l.CreditedTokenCount = v[i]
	}
	read := len(m.GetAgeMs()) > 0 && m.GetAgeMs()[i] >= 0
	if read {
		at := now.Add(-time.Duration(m.GetAgeMs()[i]) * time.Millisecond)
		t.times[i].Seconds, t.times[i].Nanos = at.Unix(), int32(at.Nanosecond())
		l.ObserveTime = &t.times[i]
		if v := m.GetWaitingRequestCounts(); len(v) > 0 && v[i] >= 0 {
			t.waiting[i] = uint32(v[i])
			l.WaitingRequestCount = &t.waiting[i]
		}
		if v := m.GetRunningRequestCounts(); len(v) > 0 && v[i] >= 0 {
			t.running[i] = uint32(v[i])
			l.RunningRequestCount = &t.running[i]
		}
		if v := m.GetKvCacheUsageRatios(); len(v) > 0 && v[i] >= 0 {
			t.usage[i] = v[i]
			l.KvCacheUsageRatio = &t.usage[i]
		}
	}
	if read || l.CreditedRequestCount > 0 || l.CreditedTokenCount > 0 {
		c.Load = l
	}
}

// check finds positions that the table does not have, and tables that are empty.
// A nil table is not known, so nothing can be said.
func (t *table) check(ref *scorerv1.TableReference) error {
	if t == nil {
		return nil
	}
	n := len(t.candidates)
	if n == 0 {
		return InvalidRequest("table: it has no endpoints, so there are no candidates")
	}
	if p := ref.GetPositions(); len(p) > 0 && int64(p[len(p)-1]) >= int64(n) {
		return InvalidRequest("table.positions: %d is not in the table, which has %d endpoints", p[len(p)-1], n)
	}
	return nil
}

// list replaces the request's reference by the candidates it stands for, which
// are ours and hold until the next call.
func (ts *tables) list(t *table, req *scorerv1.ScoreRequest) {
	positions := req.GetTable().GetPositions()
	req.Pending = nil // its positions would dangle
	if len(positions) == 0 {
		req.Candidates = &t.all
		return
	}
	if ts.part.Listed == nil {
		ts.part.Listed = &scorerv1.CandidateList{}
	}
	list := ts.part.Listed.Candidates[:0]
	for _, p := range positions {
		list = append(list, &t.candidates[p])
	}
	ts.part.Listed.Candidates = list
	req.Candidates = &ts.part
}
