package counter

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pointsman/pointsman/internal/kit/run"
)

const (
	// mostChanges bounds one Adjust, so that it holds nobody up.
	mostChanges = 128
	// mostTold is how many of them follow one another before it is looked whether something
	// else is due: while requests end faster than the store answers, there is always one more.
	mostTold = 8
	// mostTaken is how many changes a reservation takes along.
	mostTaken = 16
	// rewriteGap is between two attempts to write all counts.
	rewriteGap = 50 * time.Millisecond
	longestGap = 2 * time.Second
	// doubtGap is how soon they are written if one of them was floored: some round trips
	// later, and so seldom that decisions hardly notice.
	doubtGap       = 500 * time.Millisecond
	goodbyeTimeout = 500 * time.Millisecond
)

// Part returns the part that keeps the store in step: it tells it of requests that ended,
// renews the leases, ends those of dead routers and, when its context ends, its own. It is
// ready at once.
func (l *Leases) Part() run.Part {
	return func(ctx context.Context, ready func()) error {
		ready()
		u := &upkeep{Leases: l, gap: rewriteGap}
		u.renewAt = time.Now().Add(l.cfg.renewEvery())
		u.rewriteAt = time.Now().Add(l.cfg.rewriteEvery())
		timer := time.NewTimer(0)
		defer timer.Stop()
		for ctx.Err() == nil {
			timer.Reset(u.turn(ctx))
			select {
			case <-ctx.Done():
			case <-l.wake:
			case <-timer.C:
			}
		}
		l.leave()
		return nil
	}
}

// upkeep is the state of the part's loop.
type upkeep struct {
	*Leases
	renewAt   time.Time
	rewriteAt time.Time
	retryAt   time.Time // before which no rewrite is tried again
	gap       time.Duration
	shared    bool // there may be something of ours in the store
}

// turn does what is due and returns how long nothing else will be.
func (u *upkeep) turn(ctx context.Context) time.Duration {
	now := time.Now()
	on, inStep, doubted := u.state()
	if !on {
		if u.shared {
			u.leave()
			u.shared = false
		}
		return u.cfg.renewEvery()
	}
	if !u.store.Up() {
		// The probe that finds it again writes everything.
		return u.gap
	}
	u.shared = true
	if soon := now.Add(jitter(doubtGap)); doubted && soon.Before(u.rewriteAt) {
		u.rewriteAt = soon
	}
	if !inStep || now.After(u.rewriteAt) {
		if now.Before(u.retryAt) {
			return u.retryAt.Sub(now)
		}
		if err := u.rewrite(ctx, u.store); err != nil {
			u.gap = min(2*u.gap, longestGap)
			u.retryAt = time.Now().Add(u.gap/2 + rand.N(u.gap/2))
			return u.gap
		}
		u.gap = rewriteGap
		u.retryAt = time.Now().Add(u.gap)
		u.rewriteAt = time.Now().Add(jitter(u.cfg.rewriteEvery()))
		u.renewAt = time.Now().Add(jitter(u.cfg.renewEvery()))
	}
	more := true
	for n := 0; more && n < mostTold; n++ {
		more = u.tell(ctx)
	}
	if now = time.Now(); !now.Before(u.renewAt) {
		u.renewAt = now.Add(jitter(u.cfg.renewEvery()))
		u.renew(ctx)
	}
	if more {
		return 0
	}
	return max(min(time.Until(u.renewAt), time.Until(u.rewriteAt)), time.Millisecond)
}

// jitter keeps routers that started together from calling together.
func jitter(d time.Duration) time.Duration { return d*9/10 + rand.N(d/10+1) }

func (l *Leases) state() (on, inStep, doubted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.on, l.inStep, l.doubted
}

// tell tells the store of changes. It returns false if there are none, or it could not.
func (l *Leases) tell(ctx context.Context) bool {
	l.mu.Lock()
	if !l.on || !l.inStep || len(l.changes) == 0 {
		l.mu.Unlock()
		return false
	}
	deltas := l.take(mostChanges)
	l.calls++
	t := l.token
	l.mu.Unlock()
	floored, err := l.store.Adjust(ctx, t, deltas)
	l.mu.Lock()
	l.end(err, deltas, floored)
	l.mu.Unlock()
	return err == nil
}

// renew keeps the leases and ends those of the dead.
func (l *Leases) renew(ctx context.Context) {
	t, ok := l.begin(nil)
	if !ok {
		return
	}
	expired, err := l.store.Renew(ctx, t)
	l.mu.Lock()
	l.end(err, nil, 0)
	l.mu.Unlock()
	l.bury(ctx, l.store, expired)
}

// bury ends the leases of routers that have not renewed them.
func (l *Leases) bury(ctx context.Context, store Store, expired []string) {
	for _, router := range expired {
		if router == l.router {
			continue
		}
		n, err := store.End(ctx, router)
		if err != nil {
			return // seen again at the next renewal, by everybody
		}
		l.meters.freedOf(n)
		l.log.Warn("a router has not renewed its leases; they are ended", "router", router, "requests", n)
	}
}

// rewrite makes the store hold what this router holds. Meanwhile nothing else is sent, so
// that what is written is exact; requests that are placed or end in that time are told
// afterwards.
func (l *Leases) rewrite(ctx context.Context, store Store) error {
	l.rewriting.Lock()
	defer l.rewriting.Unlock()
	if err := l.quiesce(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	l.doubted = false
	l.generation++
	generation := l.generation
	written := make(map[string]int64, len(l.held))
	var counts []Count
	for e, c := range l.held {
		if c.requests > 0 && !c.gone {
			written[e] = c.requests
			counts = append(counts, Count{e, c.requests})
		}
	}
	l.mu.Unlock()
	t, expired, err := store.Replace(ctx, generation, counts)
	l.meters.rewritten(err)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.token, l.inStep = t, true
	clear(l.changes)
	for e, c := range l.held {
		if now := c.counted(); now != written[e] {
			l.changes[e] = now - written[e]
		}
		delete(written, e)
	}
	for e, n := range written { // released meanwhile
		l.changes[e] = -n
	}
	if len(l.changes) > 0 {
		l.notify()
	}
	l.mu.Unlock()
	l.bury(ctx, store, expired)
	return nil
}

// counted is what the store is to have.
func (c *count) counted() int64 {
	if c.gone {
		return 0
	}
	return c.requests
}

// quiesce stops new calls and waits for those under way.
func (l *Leases) quiesce(ctx context.Context) error {
	l.mu.Lock()
	l.inStep = false
	clear(l.changes)
	if l.calls == 0 {
		l.mu.Unlock()
		return nil
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave removes what is ours from the store, as well as can be.
func (l *Leases) leave() {
	l.rewriting.Lock()
	defer l.rewriting.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer cancel()
	if err := l.quiesce(ctx); err != nil || !l.store.Up() {
		return // they lapse by themselves
	}
	if _, err := l.store.End(ctx, l.router); err != nil {
		l.log.Debug("leases are left to lapse", "error", err)
	}
}
