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
}

func (l *leases) hold(r route.Reservation, picked roster.ID, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := r.PickID()
	l.open[id] = lease{r, picked, time.AfterFunc(d, func() {
		if late, _, held := l.take(id); held {
			late.Finish(false, route.NoUsage())
			l.expired()
		}
	})}
}

// take hands a reservation over, once, with the endpoint that was picked.
func (l *leases) take(id string) (r route.Reservation, picked roster.ID, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, held := l.open[id]
	if !held {
		return nil, "", false
	}
	delete(l.open, id)
	h.timer.Stop()
	return h.reservation, h.endpoint, true
}

// close ends all reservations.
func (l *leases) close() {
	l.mu.Lock()
	open := l.open
	l.open = make(map[string]lease)
	l.mu.Unlock()
	for _, h := range open {
		h.timer.Stop()
		h.reservation.Finish(false, route.NoUsage())
	}
}
