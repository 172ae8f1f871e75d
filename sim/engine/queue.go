package engine

// queue is a double-ended queue of requests, as a ring.
type queue struct {
	ring []*active
	head int
	n    int
}

func (q *queue) len() int { return q.n }

func (q *queue) at(i int) *active { return q.ring[(q.head+i)%len(q.ring)] }

func (q *queue) pushBack(r *active) {
	q.reserve()
	q.ring[(q.head+q.n)%len(q.ring)] = r
	q.n++
}

func (q *queue) pushFront(r *active) {
	q.reserve()
	q.head = (q.head + len(q.ring) - 1) % len(q.ring)
	q.ring[q.head] = r
	q.n++
}

func (q *queue) popFront() *active {
	r := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return r
}

// remove takes r out wherever it stands.
func (q *queue) remove(r *active) {
	kept := 0
	for i := range q.n {
		x := q.at(i)
		if x == r {
			continue
		}
		q.ring[(q.head+kept)%len(q.ring)] = x
		kept++
	}
	for i := kept; i < q.n; i++ {
		q.ring[(q.head+i)%len(q.ring)] = nil
	}
	q.n = kept
}

func (q *queue) reserve() {
	if q.n < len(q.ring) {
		return
	}
	ring := make([]*active, max(16, 2*len(q.ring)))
	for i := range q.n {
		ring[i] = q.at(i)
	}
	q.ring, q.head = ring, 0
}
