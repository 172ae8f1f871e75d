package grpcapi

import (
	"sync"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

const (
	defaultLease = 300 * time.Second
	maxLease     = time.Hour
)

// leases holds the reservations that callers of Pick have not released.
type leases struct {
	expired func()

	mu   sync.Mutex
	open map[string]lease
}

type lease struct {
	reservation route.Reservation
	endpoint    roster.ID // as picked
	timer       *time.Timer
	stages      []string // ids of the leases of the pick's stages; they have no timer of their own
}

// hold keeps the reservation of a decision, and those of its stages, for d.
func (l *leases) hold(made *route.Decision, d time.Duration) {
	id := made.Reservation.PickID()
	pick := lease{reservation: made.Reservation, endpoint: made.Endpoint.ID}
	l.mu.Lock()
	defer l.mu.Unlock()
	if made.Plan != nil {
		for i := range made.Plan.Stages {
			g := &made.Plan.Stages[i]
			stage := g.Reservation.PickID()
			l.open[stage] = lease{reservation: g.Reservation, endpoint: g.Endpoints[0].ID}
			pick.stages = append(pick.stages, stage)
		}
	}
	pick.timer = time.AfterFunc(d, func() {
		if late, _, held := l.take(id); held {
			late.Finish(false, route.NoUsage())
			l.expired()
		}
	})
	l.open[id] = pick
}

// take hands a reservation over, once, with the endpoint that was picked. The end of a
// pick's reservation is that of its stages'.
func (l *leases) take(id string) (r route.Reservation, picked roster.ID, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, held := l.open[id]
	if !held {
		return nil, "", false
	}
	delete(l.open, id)
	for _, stage := range h.stages {
		delete(l.open, stage)
	}
	if h.timer != nil {
		h.timer.Stop()
	}
	return h.reservation, h.endpoint, true
}

// close ends all reservations.
func (l *leases) close() {
	l.mu.Lock()
	open := l.open
	l.open = make(map[string]lease)
	l.mu.Unlock()
	for _, h := range open {
		if h.timer != nil {
			h.timer.Stop()
		}
		h.reservation.Finish(false, route.NoUsage())
	}
}
