package fleet

import "time"

// peer is another collector of the pool.
type peer struct {
	heard   time.Time // last sign of life
	alive   bool
	changed time.Time // change time of its table
	table   map[ID]Details
	numbers map[string]int // lives in the table, by address
}

// TableEntry is an endpoint in another collector's table.
type TableEntry struct {
	ID      ID
	Address string // host:port
	Details Details
}

// sameAs says whether a table has the same entries.
func (p *peer) sameAs(entries []TableEntry) bool {
	if len(p.table) != len(entries) {
		return false
	}
	for _, e := range entries {
		d, ok := p.table[e.ID]
		if !ok || !d.Equal(e.Details) {
			return false
		}
	}
	return true
}
