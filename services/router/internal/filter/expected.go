package filter

import "github.com/pointsman/pointsman/services/router/internal/route"

// expectedQueue returns the requests that wait at the position, picks since the last
// scrape included; false if unknown.
func expectedQueue(c *route.Cycle, pos int32) (int64, bool) {
	s := c.Snapshot
	if s.Waiting[pos] < 0 || !s.Fresh(int(pos), c.Now) {
		return 0, false
	}
	credit, _ := s.Credit(int(pos))
	return int64(s.Waiting[pos]) + credit, true
}

// expectedKV returns the share of KV cache in use at the position, plus the prompt
// blocks of the picks since the last scrape if the size of the cache is known; false
// if unknown.
func expectedKV(c *route.Cycle, pos int32) (float64, bool) {
	s := c.Snapshot
	if !(s.KV[pos] >= 0) || !s.Fresh(int(pos), c.Now) {
		return 0, false
	}
	used := float64(s.KV[pos])
	e := &s.Table.Endpoints[pos]
	if room := float64(e.CacheBlockSize) * float64(e.CacheBlockCount); room > 0 {
		_, tokens := s.Credit(int(pos))
		used += float64(tokens) / room
	}
	return used, true
}
