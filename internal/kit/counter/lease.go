package counter

// Lease is one request's place on an endpoint.
type Lease struct {
	leases *Leases
	count  *count
	ended  bool // guarded by Leases.mu
}

// count is what this router holds on one endpoint.
type count struct {
	endpoint string
	requests int64
	gone     bool // the endpoint has left, so that the store does not count it
}

// Endpoint returns the endpoint that the lease is on.
func (l *Lease) Endpoint() string { return l.count.endpoint }

// Release ends the lease. Only the first call counts.
func (l *Lease) Release() {
	s := l.leases
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	c := l.count
	c.requests--
	if !c.gone {
		s.change(c.endpoint, -1)
	}
	if c.requests == 0 && !c.gone {
		delete(s.held, c.endpoint)
	}
}
