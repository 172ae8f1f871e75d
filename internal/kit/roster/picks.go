package roster

// Pick counts a request on an endpoint until Finish. router and pickID name it; a
// pick that is already counted is left as it is. at is on the roster's clock; a pick
// so old that the figures held include it already gets no credit.
func (r *Roster) Pick(routerID string, pickID uint64, id ID, uncachedTokens uint32, at int64) {
	r.mu.Lock() // until it is counted, or else the endpoint's state could be forgotten
	defer r.mu.Unlock()
	r.picksMu.Lock()
	defer r.picksMu.Unlock()
	rt := r.router(routerID)
	if _, there := rt.picks[pickID]; there {
		return
	}
	st := r.stateOf(id)
	rt.picks[pickID] = st.account.add(int64(uncachedTokens), at, !r.saw(st.observedAt, at))
}

// saw says whether a scrape that began at observed must have seen a pick made at at.
func (r *Roster) saw(observed, at int64) bool {
	return observed != Never && at < observed-int64(r.cfg.ReachAllowance)
}

// Finish ends a pick. It returns false if the pick is not counted: it has ended
// already or was never heard of.
func (r *Roster) Finish(routerID string, pickID uint64) bool {
	r.picksMu.Lock()
	rt := r.routers[routerID]
	if rt == nil {
		r.picksMu.Unlock()
		return false
	}
	p := rt.picks[pickID]
	delete(rt.picks, pickID)
	r.picksMu.Unlock()
	if p == nil {
		return false
	}
	p.end()
	return true
}

// Keep ends every pick of a router whose id is not in the set, as after a loss of
// messages, and returns how many those were.
func (r *Roster) Keep(routerID string, open map[uint64]bool) int {
	r.picksMu.Lock()
	var ended []*pick
	if rt := r.routers[routerID]; rt != nil {
		for id, p := range rt.picks {
			if !open[id] {
				ended = append(ended, p)
				delete(rt.picks, id)
			}
		}
	}
	r.picksMu.Unlock()
	for _, p := range ended {
		p.end()
	}
	return len(ended)
}

// DropRouter ends all picks of a router that is gone and forgets it.
func (r *Roster) DropRouter(routerID string) {
	r.Keep(routerID, nil)
	r.picksMu.Lock()
	defer r.picksMu.Unlock()
	delete(r.routers, routerID)
}

// Applied notes the last outcome batch of the router whose events are all counted.
func (r *Roster) Applied(routerID string, sequence uint64) {
	r.picksMu.Lock()
	defer r.picksMu.Unlock()
	r.router(routerID).applied = sequence
}

// AppliedSequence returns the last outcome batch applied from the router; 0 if none.
func (r *Roster) AppliedSequence(routerID string) uint64 {
	r.picksMu.Lock()
	defer r.picksMu.Unlock()
	if rt := r.routers[routerID]; rt != nil {
		return rt.applied
	}
	return 0
}

func (r *Roster) router(id string) *router {
	rt := r.routers[id]
	if rt == nil {
		rt = &router{picks: make(map[uint64]*pick)}
		r.routers[id] = rt
	}
	return rt
}
