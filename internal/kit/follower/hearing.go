package follower

import (
	"sync/atomic"
	"time"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// hearing is how long messages take over the bus, measured by this process's own
// that come back to it: one clock, and the same way that others' take.
type hearing struct{ ns atomic.Int64 }

// echo notes one of our own messages that came back. A longer time counts at once; a
// shorter one pulls by a fifth.
func (h *hearing) echo(s *statev1.Stamp) {
	took := int64(max(0, time.Since(s.GetPublishTime().AsTime())))
	old := h.ns.Load()
	h.ns.Store(max(took, old-(old-took)/5))
}

// Hearing returns about how long a pick takes to be heard of by others; 0 if nothing
// was published yet.
func (f *Follower) Hearing() time.Duration { return time.Duration(f.hearing.ns.Load()) }
