package outcome

import (
	"context"
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// noContext is for instruments, which take nothing from it.
var noContext = context.Background()

// PrefixAsker is implemented by route.Scorer.Asked of scorers that look at prefix
// blocks.
type PrefixAsker interface {
	// PrefixNeeds returns the bytes in a block over a table's endpoints and the most
	// blocks looked at; zero if the scorer looks at none.
	PrefixNeeds(t *roster.Table) (blockSize, limit int)
}

// place notes which prompt went to which endpoint, once per block size, and returns
// what it noted.
func (l *Ledger) place(c *route.Cycle, to *pick, res *route.ProfileResult) (placed []*statev1.PrefixPlacement) {
	req := c.Request
	if req.Prompt == nil || res == nil {
		return nil
	}
	type chain struct{ size, limit int }
	var asked [4]chain // more block sizes than that in one profile are nobody's wish
	n := 0
	for _, list := range [...][]route.Scorer{res.Profile.Scorers, res.Profile.Learners} {
		for i := range list {
			a, ok := list[i].Asked.(PrefixAsker)
			if !ok {
				continue
			}
			size, limit := a.PrefixNeeds(c.Snapshot.Table)
			if size == 0 {
				continue
			}
			known := false
			for i := range n {
				if asked[i].size == size {
					asked[i].limit, known = max(asked[i].limit, limit), true
				}
			}
			if !known && n < len(asked) {
				asked[n] = chain{size, limit}
				n++
			}
		}
	}
	for _, a := range asked[:n] {
		hashes := req.Prompt.Blocks(a.size, a.limit)
		if len(hashes) == 0 {
			continue
		}
		placed = append(placed, &statev1.PrefixPlacement{
			EndpointId: string(to.endpoint), PickId: to.id, Scheme: route.Scheme, BlockSizeBytes: uint32(a.size), Hashes: hashes, Cold: cold(res), //nolint:gosec // validated by the scorer
		})
	}
	l.tellPlaced(placed)
	return placed
}

// replace notes that a prompt went to another endpoint after all.
func (l *Ledger) replace(placed []*statev1.PrefixPlacement, to *pick) []*statev1.PrefixPlacement {
	moved := make([]*statev1.PrefixPlacement, len(placed))
	for i, p := range placed {
		moved[i] = &statev1.PrefixPlacement{
			EndpointId: string(to.endpoint), PickId: to.id, Scheme: p.GetScheme(), BlockSizeBytes: p.GetBlockSizeBytes(), Hashes: p.GetHashes(), Cold: p.GetCold(),
		}
	}
	l.tellPlaced(moved)
	return moved
}

func (l *Ledger) tellPlaced(placed []*statev1.PrefixPlacement) {
	l.mu.Lock()
	l.placed = append(l.placed, placed...)
	wake := l.asleep && len(placed) > 0
	l.mu.Unlock()
	if wake {
		l.notify()
	}
}

// cold says whether prefix scorers answered and found nothing of the prompt anywhere.
func cold(res *route.ProfileResult) bool {
	told := false
	for i := range res.Scores {
		s := &res.Scores[i]
		matched := s.Believed()
		if s.Blocks == 0 || len(matched) == 0 {
			continue
		}
		told = true
		for _, m := range matched {
			if m > 0 {
				return false
			}
		}
	}
	return told
}

// Part publishes until ctx ends, then says that this router leaves.
func (l *Ledger) Part() run.Part {
	return func(ctx context.Context, ready func()) error {
		ready()
		beat := time.NewTicker(heartbeat)
		defer beat.Stop()
		timer := time.NewTimer(latePause)
		defer timer.Stop()
		for last := time.Now(); ; {
			wait := l.due(last)
			if wait <= 0 {
				l.flush()
				last = time.Now()
				continue
			}
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				l.flush()
				l.publish(l.take(true), true)
				return nil
			case <-beat.C:
				l.trim()
				l.speeds.retain(l.roster.Snapshot().Table)
				l.publish(l.take(true), false)
			case <-l.wake:
			case <-timer.C:
			}
		}
	}
}

// due returns how long what has gathered may still wait, when the batch before went at
// last. If nothing has, the publisher is woken once something does, or sleeps the pause
// out first: under load that saves waking it.
func (l *Ledger) due(last time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := time.Since(last)
	l.asleep = false
	switch {
	case l.waits >= soonPicks || l.waits > 0 && l.watched():
		return soonPause - since
	case since >= latePause && len(l.events) == 0 && len(l.placed) == 0:
		l.asleep = true
		return heartbeat // as good as never
	}
	return latePause - since
}

// flush publishes all that has gathered.
func (l *Ledger) flush() {
	l.publishPlacements()
	for b := l.take(false); b != nil; b = l.take(false) {
		l.publish(b, false)
	}
}

// publish sends a batch. A batch that cannot be sent is lost, which the bus counts
// and its receivers see by the gap in the sequence.
func (l *Ledger) publish(b *statev1.OutcomeBatch, leaving bool) {
	b.Leaving = leaving
	_ = l.batches.Publish(b)
}

// take closes the batch that is being filled. Without events it returns nil, or an
// empty batch if one is wanted all the same.
func (l *Ledger) take(evenEmpty bool) *statev1.OutcomeBatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.events), batchEvents)
	if n == 0 && !evenEmpty {
		return nil
	}
	// Picks are numbered by batch, so at most one batch may be open: what is beyond
	// this one moves to the next.
	b := &statev1.OutcomeBatch{Events: messages(l.events[:n], l.roster.Now())}
	rest := copy(l.events, l.events[n:])
	clear(l.events[rest:]) // let go of their picks
	l.events = l.events[:rest]
	l.next++
	l.waits = 0
	for _, e := range l.events {
		if e.kind == picked {
			l.waits++
			e.pick.sequence = l.next // of ended ones too: recent is in this order
		}
	}
	return b
}

// publishPlacements sends the prompts that have gathered, in batches below the
// bus's payload limit.
func (l *Ledger) publishPlacements() {
	l.mu.Lock()
	placed := l.placed
	l.placed = nil
	l.mu.Unlock()
	for len(placed) > 0 {
		n, bytes := 0, 0
		for n < len(placed) && (n == 0 || bytes+8*len(placed[n].GetHashes()) <= prefixBytes) {
			bytes += 8 * len(placed[n].GetHashes())
			n++
		}
		_ = l.prefixes.Publish(&statev1.PrefixBatch{Placements: placed[:n]})
		placed = placed[n:]
	}
}

// trim forgets ended picks and, if nobody ever acknowledges, the oldest.
func (l *Ledger) trim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent = slices.DeleteFunc(l.recent, func(p *pick) bool { return p.ended })
	if over := len(l.recent) - 4*maxPending; over > 0 {
		l.recent = slices.Delete(l.recent, 0, over)
	}
}
