package outcome

import (
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// kind is what an event tells of.
type kind uint8

const (
	picked kind = iota
	firstToken
	finished
	kinds
)

// event is an outcome that waits to be published. Requests only note it; its message is
// made when it goes out, many at a time.
type event struct {
	kind      kind
	completed bool
	pick      *pick
	elapsed   int64 // ns from the pick; not of picked
	usage     route.Usage
}

// messages returns the messages of events at the time now, on the roster's clock.
func messages(events []event, now int64) []*statev1.OutcomeEvent {
	var n [kinds]int
	for i := range events {
		n[events[i].kind]++
	}
	type begin struct {
		of statev1.OutcomeEvent_Picked
		m  statev1.Picked
	}
	type token struct {
		of statev1.OutcomeEvent_FirstToken
		m  statev1.FirstToken
	}
	type end struct {
		of     statev1.OutcomeEvent_Finished
		m      statev1.Finished
		tokens [3]uint32
	}
	all, out := make([]statev1.OutcomeEvent, len(events)), make([]*statev1.OutcomeEvent, len(events))
	begins, firsts, ends := make([]begin, n[picked]), make([]token, n[firstToken]), make([]end, n[finished])
	for i := range events {
		e, w := &events[i], &all[i]
		w.PickId, out[i] = e.pick.id, w
		switch e.kind {
		case picked:
			b := &begins[0]
			begins = begins[1:]
			b.m.EndpointId, b.m.PromptTokenCount, b.m.UncachedTokenCount = string(e.pick.endpoint), e.pick.prompt, e.pick.uncached
			b.m.AgeMs = milliseconds(now - e.pick.at)
			b.of.Picked = &b.m
			w.Event = &b.of
		case firstToken:
			b := &firsts[0]
			firsts = firsts[1:]
			b.m.ElapsedMs = milliseconds(e.elapsed)
			b.of.FirstToken = &b.m
			w.Event = &b.of
		default:
			b := &ends[0]
			ends = ends[1:]
			b.m.ElapsedMs, b.m.Completed = milliseconds(e.elapsed), e.completed
			b.m.PromptTokenCount = reported(e.usage.PromptTokens, &b.tokens[0])
			b.m.CachedPromptTokenCount = reported(e.usage.CachedPromptTokens, &b.tokens[1])
			b.m.OutputTokenCount = reported(e.usage.OutputTokens, &b.tokens[2])
			b.of.Finished = &b.m
			w.Event = &b.of
		}
	}
	return out
}

// reported returns a count at the place given for it, nil if it is not known.
func reported(tokens int64, at *uint32) *uint32 {
	if tokens < 0 {
		return nil
	}
	*at = uint32(min(tokens, 1<<31)) //nolint:gosec // bounded
	return at
}
