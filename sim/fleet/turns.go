package fleet

import (
	"time"

	"github.com/pointsman/pointsman/sim/workload"
)

// dueTurn is a request that is to be sent at a time.
type dueTurn struct {
	at      time.Duration
	session *workload.Session
	turn    workload.Turn
}

// turnHeap has the turn that is due first on top; of equals, that of the session with the lowest number.
type turnHeap []dueTurn

func (h turnHeap) Len() int { return len(h) }
func (h turnHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].session.Number < h[j].session.Number
}
func (h turnHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *turnHeap) Push(x any)   { *h = append(*h, x.(dueTurn)) }
func (h *turnHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = dueTurn{}
	*h = old[:len(old)-1]
	return last
}
