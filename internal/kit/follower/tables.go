package follower

import (
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// tableHold is how long a collector's table counts after its last broadcast: three
// of its 2 s periods.
const tableHold = 6 * time.Second

// tables chooses among what the collectors say. Guarded by Follower.mu.
type tables struct {
	said map[string]saidTable
}

type saidTable struct {
	table   *roster.Table
	changed int64 // ns, by the collector's clock
	heard   int64 // ns, by the roster's clock
}

// hear notes what a collector says and returns the table to follow.
func (t *tables) hear(m *statev1.EndpointTable, received int64) (*roster.Table, error) {
	publisher := m.GetStamp().GetPublisherId()
	table, err := TableFromProto(m)
	if err != nil {
		return nil, err
	}
	if t.said == nil {
		t.said = make(map[string]saidTable)
	}
	t.said[publisher] = saidTable{table, m.GetChangeTime().AsTime().UnixNano(), received}
	var best saidTable
	for p, s := range t.said {
		if received-s.heard > int64(tableHold) {
			delete(t.said, p)
			continue
		}
		if best.table == nil || s.changed > best.changed ||
			s.changed == best.changed && (s.table.Digest > best.table.Digest || s.table.Digest == best.table.Digest && s.heard > best.heard) {
			best = s
		}
	}
	return best.table, nil
}
