package broadcast

import (
	"sync"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

// heldTables is how many tables are remembered for the loads that refer to them.
const heldTables = 16

// held is the members of tables by their digest. Safe for concurrent use.
type held struct {
	mu     sync.Mutex
	tables map[uint64][]fleet.ID
	order  []uint64 // used last comes last
}

func (h *held) put(digest uint64, ids []fleet.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tables == nil {
		h.tables = make(map[uint64][]fleet.ID)
	}
	if h.tables[digest] != nil {
		for i, d := range h.order {
			if d == digest {
				h.order = append(h.order[:i], h.order[i+1:]...)
				break
			}
		}
	}
	h.tables[digest] = ids
	h.order = append(h.order, digest)
	if len(h.order) > heldTables {
		delete(h.tables, h.order[0])
		h.order = h.order[1:]
	}
}

func (h *held) get(digest uint64) []fleet.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tables[digest]
}
