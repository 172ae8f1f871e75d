package fleet

import (
	"container/heap"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
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

// arrival is a prompt that will be there.
type arrival struct {
	at     time.Duration
	number int // in order of their sending
	decode int
	id     engine.ID // at decode
}

// arrivalHeap has the first on top.
type arrivalHeap []arrival

func (h arrivalHeap) Len() int { return len(h) }
func (h arrivalHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].number < h[j].number
}
func (h arrivalHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *arrivalHeap) Push(x any)   { *h = append(*h, x.(arrival)) }
func (h *arrivalHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// transfer sends the prompt that an engine has begun to fetch, when those before it have been sent.
func (f *Fleet) transfer(decode int, ev engine.Event) {
	from := f.pending[decode][ev.ID].prefill
	begin := max(ev.At, f.link[from])
	f.link[from] = begin + f.cfg.TransferBase + time.Duration(float64(ev.Tokens)/f.cfg.TransferRate*float64(time.Second))
	f.transfers++
	heap.Push(&f.arrivals, arrival{f.link[from], f.transfers, decode, ev.ID})
}

// arrive tells both engines that a prompt is there.
func (f *Fleet) arrive(a arrival) {
	s := f.pending[a.decode][a.id]
	f.engines[a.decode].Arrive(a.at, a.id)
	f.engines[s.prefill].Release(a.at, s.holds)
	for _, i := range []int{a.decode, s.prefill} {
		if at, ok := f.engines[i].Next(); ok {
			f.due[i] = max(a.at, at)
		}
	}
}
