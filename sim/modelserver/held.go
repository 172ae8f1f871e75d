package modelserver

import (
	"context"
	"slices"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
)

// heldPrompt is a computed prompt that another server will fetch.
type heldPrompt struct {
	id      engine.ID
	blocks  []int32
	tokens  int
	seed    uint64 // of the prompt, which tells prompts apart
	reading bool
	expires *time.Timer
}

// keep registers what the engine has kept of c, whose end was ev. d.mu is held.
func (d *driver) keep(c *call, ev engine.Event) {
	blocks := d.engine.Held(ev.ID)
	if len(blocks) == 0 {
		return
	}
	c.kept = blocks
	if old := d.held[c.keepAs]; old != nil { // its id is used again
		old.expires.Stop()
		d.engine.Release(d.clock.at(time.Now()), old.id)
	}
	h := &heldPrompt{id: ev.ID, blocks: blocks, tokens: ev.Timing.Prompt, seed: c.seed}
	h.expires = time.AfterFunc(d.wall(d.transfer.HoldFor), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.drop(c.keepAs) {
			d.tally.Expired++
			d.distributions.TransferExpired++
		}
	})
	d.held[c.keepAs] = h
	d.tell(c.keepAs)
}

// drop gives up a prompt. It returns false if there is none. d.mu is held.
func (d *driver) drop(name string) bool {
	h := d.held[name]
	if h == nil {
		return false
	}
	h.expires.Stop()
	delete(d.held, name)
	now := time.Now()
	d.engine.Release(d.clock.at(now), h.id)
	d.advance(now)
	return true
}

// claim lets somebody read a prompt if it is the one that is meant.
func (d *driver) claim(q *readRequest) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.held[q.RequestID]
	if h == nil || h.reading || h.tokens != q.Tokens || h.seed != q.Seed || !slices.Equal(h.blocks, q.Blocks) {
		return false
	}
	h.reading = true
	return true
}

// unclaim ends the reading. A prompt that was read whole is given up; one that was not stays until it expires.
func (d *driver) unclaim(name string, whole bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if whole {
		d.tally.Served++
		d.drop(name)
		return
	}
	d.tally.Broken++
	if h := d.held[name]; h != nil {
		h.reading = false
	}
}

// fetch brings the rest of c's prompt, in the background. d.mu is held.
func (d *driver) fetch(c *call, tokens int, begin time.Time) {
	ctx, cancel := context.WithCancel(d.ctx)
	c.stopFetch = cancel
	d.fetches.Go(func() {
		defer cancel()
		err := c.fetch(ctx, tokens)
		d.mu.Lock()
		defer d.mu.Unlock()
		now := time.Now()
		at := d.clock.at(now)
		if err != nil {
			d.tally.Failed++
			d.distributions.TransferFailed++
			d.engine.Miss(at, c.id, d.transfer.OnLoadFailure == Recompute)
		} else {
			d.tally.Fetched++
			d.tally.FetchedTokens += uint64(tokens)
			d.distributions.Transferred(at-d.clock.at(begin), tokens*d.transfer.BytesPerToken, (tokens+d.engine.Config().BlockSize-1)/d.engine.Config().BlockSize)
			d.engine.Arrive(at, c.id)
		}
		d.advance(now)
	})
}

// wall is how long a modelled time lasts.
func (d *driver) wall(modelled time.Duration) time.Duration {
	return time.Duration(float64(modelled) / d.scale)
}

func (d *driver) transfers() Transfers {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tally
}

// forget gives up a prompt that nobody will come for.
func (d *driver) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(name)
}

func (d *driver) refused() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tally.Refused++
}

// sleep waits for a time of the wall. It returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
