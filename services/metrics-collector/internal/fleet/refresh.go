package fleet

import (
	"cmp"
	"slices"
	"time"
)

// Refresh brings the view up to date. It returns nil until the collector has joined
// and endpoints were discovered. table says whether the table differs from that of
// the view before, owned whether this collector's part or one of its targets does.
func (f *Fleet) Refresh(now time.Time) (v *View, table, owned bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.joined || !f.discovered {
		return nil, false, false
	}
	if !f.dirty {
		return f.view, false, false
	}
	old := f.view
	v = f.build()
	table = old == nil || !old.sameTable(v)
	owned = old == nil || !sameOwned(old, v)
	v.Changed = f.changeTime(now, old, v, table)
	if old != nil {
		f.takeOvers += f.countTakeOvers(old, v)
	}
	f.view, f.fresh, f.dirty = v, false, false
	f.prune(v)
	return v, table, owned
}

// build makes the view from what is known, without its change time.
func (f *Fleet) build() *View {
	v := &View{Collectors: 1, Members: make([]Member, 0, len(f.targets))}
	for key, t := range f.targets {
		id := ID(key)
		if t.GivenID == "" {
			id = lifeID(key, f.lives[key].number)
		}
		v.Members = append(v.Members, Member{ID: id, Target: t})
	}
	slices.SortFunc(v.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	for _, p := range f.peers {
		if p.alive {
			v.Collectors++
		}
	}
	v.owners = make([]string, len(v.Members))
	candidates := make([]string, 0, v.Collectors)
	for i := range v.Members {
		m := &v.Members[i]
		candidates = append(candidates[:0], f.cfg.Self)
		for collector, p := range f.peers {
			if _, has := p.table[m.ID]; has && p.alive {
				candidates = append(candidates, collector)
			}
		}
		v.owners[i] = owner(m.ID, candidates)
		if v.owners[i] == f.cfg.Self {
			v.Owned = append(v.Owned, i)
		}
		f.copyDetails(m.ID, v.owners[i], candidates)
		m.Details = f.details[m.ID].under(m.Target)
	}
	return v
}

// copyDetails takes an endpoint's details from the table of the collector that
// scrapes it. This collector's own endpoints are read from their pages; until that
// has happened, what the others have is better than nothing.
func (f *Fleet) copyDetails(id ID, from string, candidates []string) {
	if from == f.cfg.Self {
		if !f.details[id].Empty() {
			return
		}
		informed := slices.DeleteFunc(candidates, func(c string) bool { return c == f.cfg.Self || f.peers[c].table[id].Empty() })
		if from = owner(id, informed); from == "" {
			return
		}
	}
	if d := f.peers[from].table[id]; !d.Empty() {
		f.details[id] = d
	}
}

// under returns the details with what the operator has said in their place.
func (d Details) under(t *Target) Details {
	if t.Engine != "" {
		d.Engine = t.Engine
	}
	if len(t.Models) > 0 {
		d.Models = t.Models
	}
	return d
}

// changeTime is when the view's table came to be.
func (f *Fleet) changeTime(now time.Time, old, v *View, table bool) time.Time {
	switch {
	case old == nil:
		for _, p := range f.peers {
			if p.alive && v.sameIDs(p) && p.changed.Equal(f.newest) {
				// Nothing is new to the others, and if labels differ, who knows
				// better: holders go on following whom they followed.
				return p.changed.Add(-time.Microsecond)
			}
		}
	case !table:
		return old.Changed
	case !f.fresh:
		return old.Changed.Add(time.Nanosecond)
	}
	// A monotonic reading would not survive the wire.
	changed := now.Round(0)
	if !changed.After(f.newest) {
		changed = f.newest.Add(time.Nanosecond)
	}
	if old != nil && !changed.After(old.Changed) {
		changed = old.Changed.Add(time.Nanosecond)
	}
	return changed
}

func sameOwned(a, b *View) bool {
	return slices.EqualFunc(a.Owned, b.Owned, func(i, j int) bool {
		return a.Members[i].ID == b.Members[j].ID && a.Members[i].Target == b.Members[j].Target
	})
}

// countTakeOvers counts the endpoints that were a collector's that is gone.
func (f *Fleet) countTakeOvers(old, v *View) (n uint64) {
	former := make(map[ID]string, len(old.Members))
	for i := range old.Members {
		former[old.Members[i].ID] = old.owners[i]
	}
	for _, i := range v.Owned {
		was := former[v.Members[i].ID]
		if p := f.peers[was]; was != "" && was != f.cfg.Self && (p == nil || !p.alive) {
			n++
		}
	}
	return n
}

// prune forgets what concerns endpoints that are not members.
func (f *Fleet) prune(v *View) {
	if len(f.details) <= len(v.Members) && len(f.readings) <= len(v.Members) {
		return
	}
	member := make(map[ID]bool, len(v.Members))
	for i := range v.Members {
		member[v.Members[i].ID] = true
	}
	for id := range f.details {
		if !member[id] {
			delete(f.details, id)
		}
	}
	for id := range f.readings {
		if !member[id] {
			delete(f.readings, id)
		}
	}
}
