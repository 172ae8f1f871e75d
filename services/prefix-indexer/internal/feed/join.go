package feed

import (
	"context"
	"fmt"
	"time"

	"github.com/pointsman/pointsman/internal/kit/bus"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

const (
	joinTries = 3
	// tablePoll is how often the endpoint table is looked for.
	tablePoll = 20 * time.Millisecond
)

// copied is how far a copy came.
type copied struct {
	pages   int
	entries int
	full    bool // there is no memory for more
}

// join copies the index of whoever answers first, and returns when that is done or
// cannot be done.
func (f *Feed) join(ctx context.Context) {
	if !f.awaitEndpoints(ctx) {
		return
	}
	f.health.Set(healthCheck, errCopying)
	began := time.Now()
	for range joinTries {
		from, err := f.greet(ctx)
		if err != nil {
			f.log.Info("no other prefix-indexer answers; starting with what is placed from now on", "error", err)
			return
		}
		c, err := f.copyFrom(ctx, from)
		f.joined.Add(ctx, int64(c.entries))
		if err == nil {
			f.log.Info("copied the index of another prefix-indexer", "from", from, "entries", c.entries, "pages", c.pages, "memory_full", c.full, "took", time.Since(began))
			return
		}
		if ctx.Err() != nil {
			return
		}
		f.log.Warn("the copy of another prefix-indexer's index broke off", "from", from, "entries", c.entries, "pages", c.pages, "error", err)
	}
}

// awaitEndpoints waits until the index knows endpoints: nothing can be learned of
// others. It returns false if ctx ended first.
func (f *Feed) awaitEndpoints(ctx context.Context) bool {
	poll := time.NewTicker(tablePoll)
	defer poll.Stop()
	for f.index.Endpoints().Len() == 0 {
		select {
		case <-ctx.Done():
			return false
		case <-poll.C:
		}
	}
	return true
}

// greet returns the id of an indexer that will lend its index.
func (f *Feed) greet(ctx context.Context) (string, error) {
	a, err := f.ask(ctx, &statev1.GetPrefixesRequest{AskerId: f.bus.PublisherID()}, f.cfg.Greeting.D())
	if err != nil {
		return "", err
	}
	return a.GetIndexerId(), nil
}

// copyFrom asks for page after page.
func (f *Feed) copyFrom(ctx context.Context, from string) (c copied, err error) {
	q := &statev1.GetPrefixesRequest{IndexerId: from, AskerId: f.bus.PublisherID()}
	for more := true; more && !c.full; {
		q.Page++
		a, err := f.ask(ctx, q, f.cfg.PageTimeout.D())
		if err != nil {
			return c, fmt.Errorf("page %d: %w", q.GetPage(), err)
		}
		c.pages++
		more = a.GetMore()
		f.adoptOrder(a.GetColdEndpointIds())
		for _, p := range a.GetPlacements() {
			s, ok := fromWire(p)
			if !ok {
				continue
			}
			added, full := f.index.Adopt(s)
			c.entries += added
			if full {
				c.full = true
				break
			}
		}
	}
	return c, nil
}

// adoptOrder learns who was sent cold prompts before this indexer heard of any.
func (f *Feed) adoptOrder(endpoints []string) {
	known := f.index.Endpoints()
	for _, id := range endpoints {
		if known.Ordinal(id) != index.Unknown {
			f.order.Adopt(id)
		}
	}
}

func (f *Feed) ask(ctx context.Context, q *statev1.GetPrefixesRequest, patience time.Duration) (*statev1.GetPrefixesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return bus.Request(ctx, f.bus, bus.GetPrefixes, q, func() *statev1.GetPrefixesResponse { return &statev1.GetPrefixesResponse{} })
}
