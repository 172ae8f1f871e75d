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

// place notes which prompt went to which endpoint, once per block size.
func (l *Ledger) place(c *route.Cycle, id roster.ID, res *route.ProfileResult) {
	req := c.Request
	if req.Prompt == nil || res == nil {
		return
	}
	type chain struct{ size, limit int }
	var asked [4]chain // more block sizes than that in one profile are nobody's wish
	n := 0
	for _, s := range res.Profile.Scorers {
		a, ok := s.Asked.(PrefixAsker)
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
	for _, a := range asked[:n] {
		hashes := req.Prompt.Blocks(a.size, a.limit)
		if len(hashes) == 0 {
			continue
		}
		p := &statev1.PrefixPlacement{EndpointId: string(id), Scheme: route.Scheme, BlockSizeBytes: uint32(a.size), Hashes: hashes, Cold: cold(res)} //nolint:gosec // validated by the scorer
		l.mu.Lock()
		l.placed = append(l.placed, p)
		l.mu.Unlock()
	}
	l.notify()
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
		pause := time.NewTimer(batchPause)
		defer pause.Stop()
		for {
			select {
			case <-ctx.Done():
				l.flush()
				l.publish(l.take(true), true)
				return nil
			case <-beat.C:
				l.trim()
				l.publish(l.take(true), false)
			case <-l.wake:
				l.flush()
				// What gathers in the pause goes out together.
				pause.Reset(batchPause)
				select {
				case <-pause.C:
				case <-ctx.Done():
				}
			}
		}
	}
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
	b := &statev1.OutcomeBatch{Events: make([]*statev1.OutcomeEvent, n)}
	now := l.roster.Now()
	for i, e := range l.events[:n] {
		if e.begun != nil {
			e.wire.GetPicked().AgeMs = milliseconds(now - e.begun.at)
		}
		b.Events[i] = e.wire
	}
	l.events = append(l.events[:0], l.events[n:]...)
	l.next++
	for _, e := range l.events {
		if e.begun != nil {
			e.begun.sequence = l.next // of ended ones too: recent is in this order
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
