package index

// placement is one prompt sent to an endpoint. It owns the blocks of the chain that
// ends in leaf whose stamp is still its own: those that no later placement used. They
// are the end of the chain, since whoever uses a block uses all before it.
type placement struct {
	stamp uint32 // orders the placements of one endpoint
	leaf  uint32
	tick  uint32 // roughly orders the placements of all endpoints; wraps around
}

const placementBytes = 12

// recency is a queue of placements, oldest first, that grows at both ends.
type recency struct {
	ring []placement
	head int
	n    int
}

func (q *recency) at(i int) *placement {
	if i += q.head; i >= len(q.ring) {
		i -= len(q.ring)
	}
	return &q.ring[i]
}

func (q *recency) pushNewest(p placement) {
	q.n++
	*q.at(q.n - 1) = p
}

func (q *recency) pushOldest(p placement) {
	if q.head--; q.head < 0 {
		q.head += len(q.ring)
	}
	q.n++
	*q.at(0) = p
}

func (q *recency) popOldest() {
	if q.head++; q.head == len(q.ring) {
		q.head = 0
	}
	q.n--
}

func (q *recency) full() bool { return q.n == len(q.ring) }

// tidy keeps the placements that are alive, in order, and makes room for more.
func (q *recency) tidy(alive func(*placement) bool) {
	kept := 0
	for i := range q.n {
		if p := q.at(i); alive(p) {
			*q.at(kept) = *p
			kept++
		}
	}
	q.n = kept
	size := max(len(q.ring), 8)
	for kept*4 > size*3 {
		size += size / 4
	}
	for kept*8 < size && size > 8 {
		size /= 2
	}
	if size == len(q.ring) {
		return
	}
	ring := make([]placement, size)
	for i := range q.n {
		ring[i] = *q.at(i)
	}
	q.ring, q.head = ring, 0
}
