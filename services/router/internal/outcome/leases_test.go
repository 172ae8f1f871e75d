package outcome

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// held counts places by endpoint, and releases that came twice.
type held struct {
	mu    sync.Mutex
	open  map[roster.ID]int
	twice int
}

type heldPlace struct {
	h    *held
	id   roster.ID
	done bool
}

func (h *held) Adopt(id roster.ID) route.Place {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[id]++
	return &heldPlace{h: h, id: id}
}

func (p *heldPlace) Release() {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	if p.done {
		p.h.twice++
	}
	p.done = true
	if p.h.open[p.id]--; p.h.open[p.id] == 0 {
		delete(p.h.open, p.id)
	}
}

// B180, F8: every pick is in the counts of all routers while it is open, wherever it came
// from and whatever becomes of it, and a retry takes it along.
func TestPlacesFollowTheReservation(t *testing.T) {
	n, l := alone(t)
	h := &held{open: map[roster.ID]int{}}
	l.CountIn(h)
	c := &route.Cycle{Request: &route.Request{}, Snapshot: n.roster.Snapshot()}
	a, b := &c.Snapshot.Table.Endpoints[0], &c.Snapshot.Table.Endpoints[1]
	steps := []struct {
		name string
		do   func()
		want map[roster.ID]int
	}{}
	step := func(name string, want map[roster.ID]int, do func()) {
		steps = append(steps, struct {
			name string
			do   func()
			want map[roster.ID]int
		}{name, do, want})
	}
	var reserved, adopted route.Reservation
	step("a pick that was reserved over all routers is not counted again", map[roster.ID]int{"a": 1}, func() {
		reserved = l.Reserve(c, a, &route.ProfileResult{Profile: &route.Profile{}, Place: h.Adopt("a")})
	})
	step("another is", map[roster.ID]int{"a": 2}, func() { adopted = l.Reserve(c, a, &route.ProfileResult{Profile: &route.Profile{}}) })
	step("a retry moves", map[roster.ID]int{"a": 1, "b": 1}, func() { reserved.Move(b) })
	step("the end", map[roster.ID]int{"a": 1}, func() { reserved.Finish(false, route.NoUsage()) })
	step("ends and moves after the end", map[roster.ID]int{"a": 1}, func() {
		reserved.Finish(true, route.NoUsage())
		reserved.Move(a)
	})
	step("the other's end", map[roster.ID]int{}, func() { adopted.Finish(true, route.NoUsage()) })
	for _, s := range steps {
		s.do()
		if diff := cmp.Diff(s.want, h.open); diff != "" {
			t.Errorf("%s: %s", s.name, diff)
		}
	}
	if h.twice != 0 {
		t.Errorf("%d released twice", h.twice)
	}
}
