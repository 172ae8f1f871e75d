package prefix

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

// keptColumns is one for each table that a roster holds.
const keptColumns = 8

// columns translates table positions into the index's ordinals: once per table and
// change of membership, not once per call. The zero value is ready for use.
type columns struct {
	made atomic.Pointer[[]column]
	mu   sync.Mutex // held while made is replaced
}

// column is the ordinals of a table's endpoints, in table order. Immutable.
type column struct {
	table     *roster.Table
	endpoints *index.Endpoints
	ordinals  []int32
}

func (c *columns) find(table *roster.Table, endpoints *index.Endpoints) []int32 {
	if made := c.made.Load(); made != nil {
		for i := range *made {
			if m := &(*made)[i]; m.table == table && m.endpoints == endpoints {
				return m.ordinals
			}
		}
	}
	return nil
}

// of returns the ordinals of the table's endpoints; index.Unknown for those that have
// left.
func (c *columns) of(table *roster.Table, endpoints *index.Endpoints) []int32 {
	if ordinals := c.find(table, endpoints); ordinals != nil {
		return ordinals
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ordinals := c.find(table, endpoints); ordinals != nil {
		return ordinals
	}
	next := column{table, endpoints, make([]int32, table.Len())}
	for i := range table.Endpoints {
		next.ordinals[i] = endpoints.Ordinal(string(table.Endpoints[i].ID))
	}
	made := []column{next}
	if old := c.made.Load(); old != nil {
		for _, m := range *old {
			if m.endpoints == endpoints && len(made) < keptColumns {
				made = append(made, m)
			}
		}
	}
	made = slices.Clip(made)
	c.made.Store(&made)
	return next.ordinals
}
