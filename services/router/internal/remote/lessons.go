package remote

import (
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// heldTables is how many tables a peer keeps, by the contract.
const heldTables = 8

// lessons is what a stream's peer has been taught, oldest first.
type lessons struct{ taught []*lesson }

type lesson struct {
	table  *roster.Table
	labels bool
	loads  columns // as last told
	told   bool    // loads were told
}

// columns are the loads of a table without their ages, which change all the time.
type columns struct {
	observedAt       []int64
	waiting, running []int32
	kv               []float32
	credits, tokens  []uint32
	adapters         []*roster.Adapters
}

func (l *lessons) find(digest uint64) *lesson {
	for i := len(l.taught) - 1; i >= 0; i-- {
		if l.taught[i].table.Digest == digest {
			return l.taught[i]
		}
	}
	return nil
}

// forget makes the table be taught again.
func (l *lessons) forget(digest uint64) {
	l.taught = slices.DeleteFunc(l.taught, func(t *lesson) bool { return t.table.Digest == digest })
}

// table returns the lesson about the table that a call refers to, nil if the peer has
// had it. Labels may change while the members, and so the digest, stay.
func (l *lessons) table(f *flight, wants uint32) *scorerv1.TaughtTable {
	table := f.call.Snapshot().Table
	labels := wants&wantLabels != 0
	if known := l.find(table.Digest); known != nil {
		if !labels || known.labels && sameLabels(known.table, table) {
			return nil
		}
		l.forget(table.Digest)
	}
	if len(l.taught) == heldTables {
		l.taught = slices.Delete(l.taught, 0, 1)
	}
	l.taught = append(l.taught, &lesson{table: table, labels: labels})
	return taughtTable(table, labels)
}

func sameLabels(a, b *roster.Table) bool {
	return a == b || slices.EqualFunc(a.Endpoints, b.Endpoints, func(x, y roster.Endpoint) bool {
		return slices.Equal(x.Labels, y.Labels)
	})
}

func taughtTable(table *roster.Table, labels bool) *scorerv1.TaughtTable {
	m := &scorerv1.TaughtTable{TableDigest: table.Digest, Endpoints: make([]*scorerv1.TableEndpoint, table.Len())}
	for i := range table.Endpoints {
		e := &table.Endpoints[i]
		m.Endpoints[i] = &scorerv1.TableEndpoint{EndpointId: string(e.ID)}
		if labels {
			m.Endpoints[i].Labels = labelsOf(e)
		}
	}
	return m
}

func labelsOf(e *roster.Endpoint) []*scorerv1.Label {
	var all []*scorerv1.Label
	for _, l := range e.Labels {
		all = append(all, &scorerv1.Label{Name: l.Name, Value: l.Value})
	}
	return all
}

// loads returns the newest loads of the tables that the batch refers to, as far as
// they have changed.
func (l *lessons) loads(r Roster, batch []*flight, wants uint32) []*scorerv1.TaughtLoads {
	var all []*scorerv1.TaughtLoads
	var looked uint64
	for i, f := range batch {
		digest := f.table.TableDigest
		if i > 0 && digest == looked {
			continue // nearly always there is one table
		}
		looked = digest
		known := l.find(digest)
		if known == nil {
			continue
		}
		snapshot, held := r.SnapshotOf(digest)
		if !held {
			snapshot = f.call.Snapshot()
		}
		if m := known.tell(snapshot, r.Now(), wants&wantAdapters != 0); m != nil {
			all = append(all, m)
		}
	}
	return all
}

// tell returns the loads if they are not those that were last told.
func (t *lesson) tell(s *roster.Snapshot, now int64, adapters bool) *scorerv1.TaughtLoads {
	c := columns{
		observedAt: s.ObservedAt, waiting: s.Waiting, running: s.Running, kv: s.KV, adapters: s.Adapters,
		credits: make([]uint32, s.Len()), tokens: make([]uint32, s.Len()),
	}
	for i := range c.credits {
		c.credits[i], c.tokens[i] = credit(s, i)
	}
	if t.told && c.equal(&t.loads) {
		return nil
	}
	t.told, t.loads = true, c
	m := &scorerv1.TaughtLoads{
		TableDigest: s.Table.Digest, AgeMs: make([]int32, s.Len()),
		WaitingRequestCounts: c.waiting, RunningRequestCounts: c.running, KvCacheUsageRatios: c.kv,
		CreditedRequestCounts: c.credits, CreditedTokenCounts: c.tokens,
	}
	for i := range m.AgeMs {
		m.AgeMs[i] = ageMs(s, i, now)
	}
	if adapters {
		for i, a := range s.Adapters {
			if a != nil {
				m.Adapters = append(m.Adapters, &scorerv1.PositionedAdapters{Position: uint32(i), Adapters: adaptersOf(a)}) //nolint:gosec // a table position
			}
		}
	}
	return m
}

// equal compares columns. Snapshots share those that have not changed, so this is
// mostly a comparison of credits.
func (c *columns) equal(o *columns) bool {
	return slices.Equal(c.credits, o.credits) && slices.Equal(c.tokens, o.tokens) &&
		slices.Equal(c.observedAt, o.observedAt) && slices.Equal(c.waiting, o.waiting) && slices.Equal(c.running, o.running) &&
		slices.Equal(c.kv, o.kv) && slices.Equal(c.adapters, o.adapters)
}

func credit(s *roster.Snapshot, pos int) (requests, tokens uint32) {
	r, t := s.Credit(pos)
	return uint32(min(max(r, 0), 1<<32-1)), uint32(min(max(t, 0), 1<<32-1)) //nolint:gosec // bounded
}

func ageMs(s *roster.Snapshot, pos int, now int64) int32 {
	age := s.Age(pos, now)
	if age < 0 {
		return -1
	}
	return int32(min(age/time.Millisecond, 1<<31-1)) //nolint:gosec // bounded
}

func adaptersOf(a *roster.Adapters) *scorerv1.Adapters {
	return &scorerv1.Adapters{Running: a.Running, Waiting: a.Waiting, MaxCount: a.Max}
}
