package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/pointsman/pointsman/internal/kit/run"
)

const (
	healthCheck  = "nats"
	topicAway    = "away"
	shortestWait = 100 * time.Millisecond
	longestWait  = 2 * time.Second
	flushTimeout = time.Second
)

// Part returns the part that keeps the bus connected. It is ready when NATS is
// connected and a message to a subject of its own has come back. It ends only
// when its context does; messages published until then are flushed. It may run
// once.
func (b *Bus) Part() run.Part {
	return func(ctx context.Context, ready func()) error {
		b.mu.Lock()
		if b.started {
			b.mu.Unlock()
			return errors.New("the bus's part ran before")
		}
		b.started = true
		b.mu.Unlock()

		var reset sync.WaitGroup
		defer reset.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		reset.Go(func() { b.reset(ctx) })

		b.stayConnected(ctx, ready)
		return nil
	}
}

func (b *Bus) reset(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.lost:
			for _, f := range b.resets {
				f()
			}
		}
	}
}

func (b *Bus) stayConnected(ctx context.Context, ready func()) {
	wait := shortestWait
	for connections := 0; ctx.Err() == nil; {
		l, err := b.connect(ctx)
		if err != nil {
			if ctx.Err() == nil {
				b.away(err, connections == 0)
				pause(ctx, wait)
				wait = min(2*wait, longestWait)
			}
			continue
		}
		wait = shortestWait
		b.conn.Store(l.nc)
		b.meters.setConnected(true)
		b.health.Set(healthCheck, nil)
		b.notes.forget(topicAway)
		b.log.Info("connected to NATS", "url", b.cfg.location(), "server", l.nc.ConnectedServerName())
		if connections++; connections == 1 {
			ready()
		} else {
			b.resetDue()
		}

		select {
		case <-ctx.Done():
			b.conn.Store(nil)
			// Best effort: what was published just now should still go out.
			_ = l.nc.FlushTimeout(flushTimeout)
		case <-l.closed:
			b.conn.Store(nil)
			b.log.Warn("lost the connection to NATS; serving from what is known until it is back",
				"url", b.cfg.location(), "error", l.reason())
			// Everybody who was connected has lost it at the same moment.
			pause(ctx, shortestWait)
		}
		b.meters.setConnected(false)
		l.close()
	}
}

// away tells people, but not too often, that there is no connection.
func (b *Bus) away(err error, first bool) {
	if first {
		b.health.Set(healthCheck, fmt.Errorf("not connected to NATS at %s yet: %w", b.cfg.location(), err))
	}
	if !b.notes.due(topicAway, unvarying(err), time.Now()) {
		return
	}
	b.log.Warn("cannot use NATS; trying again until it can be: start a NATS server there, or set nats.url",
		"url", b.cfg.location(), "error", err)
}

// pause waits for between half of d and d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// unvarying is the error without what differs between two attempts: ports of ours.
func unvarying(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}
