package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// play drives a small engine with random traffic and calls check after every call.
func play(t *testing.T, seed uint64, check func(*Engine, []Event)) []Event {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := small()
	cfg.NumBlocks = 8 + rng.IntN(40)
	cfg.MaxAdapters = rng.IntN(3)
	cfg.MaxWaiting = rng.IntN(12)
	cfg.DisablePrefixCache = rng.IntN(8) == 0
	e := mustNew(t, cfg)
	var all []Event
	var ids []ID
	now := time.Duration(0)
	collect := func() {
		events := slices.Clone(e.Advance(now))
		all = append(all, events...)
		check(e, events)
	}
	for range 120 {
		switch rng.IntN(8) {
		case 0, 1, 2, 3:
			// Few different beginnings, so that prefixes are shared.
			r := Request{Prompt: tokens(1000*rng.IntN(3), rng.IntN(50)), Output: tokens(rng.IntN(3), rng.IntN(20)), MaxTokens: rng.IntN(15)}
			if rng.IntN(3) == 0 {
				r.Adapter = fmt.Sprint("lora-", rng.IntN(4))
			}
			ids = append(ids, e.Submit(now, r))
			check(e, nil)
		case 4:
			if len(ids) > 0 {
				e.Abort(now, ids[rng.IntN(len(ids))])
				check(e, nil)
			}
		case 5:
			if rng.IntN(10) == 0 {
				e.ResetPrefixCache()
			}
		default:
			now += time.Duration(rng.IntN(60)) * ms
			collect()
		}
	}
	for range 10_000 {
		at, ok := e.Next()
		if !ok {
			return all
		}
		now = max(now, at)
		collect()
	}
	t.Fatalf("seed %d: does not come to rest", seed)
	return nil
}

// conserved checks that every block is either free or held, exactly as often as its references say.
func conserved(t *testing.T, e *Engine) {
	t.Helper()
	refs := make([]int32, len(e.pool.blocks))
	for _, blocks := range e.held {
		for _, b := range blocks {
			refs[b]++
		}
	}
	for _, r := range e.requests {
		if !r.running && !r.fetching && len(r.blocks) > 0 {
			t.Fatalf("waiting request %d holds %d blocks", r.id, len(r.blocks))
		}
		for _, b := range r.blocks {
			refs[b]++
		}
	}
	free := 0
	for i := e.pool.head; i != none; i = e.pool.blocks[i].next {
		if free++; free > len(refs) {
			t.Fatal("the free list is a ring")
		}
		if refs[i] != 0 {
			t.Fatalf("block %d is free and held", i)
		}
	}
	if free != e.pool.free {
		t.Fatalf("the free list has %d blocks, the count says %d", free, e.pool.free)
	}
	held := 0
	for i, b := range e.pool.blocks {
		if b.refs != refs[i] {
			t.Fatalf("block %d has %d references, %d holders", i, b.refs, refs[i])
		}
		if b.refs > 0 {
			held++
		}
		if j, ok := e.pool.byHash[b.hash]; b.hashed && (!ok || int(j) != i) {
			t.Fatalf("block %d is not found by its hash", i)
		}
	}
	if held+free != len(refs) {
		t.Fatalf("%d held and %d free of %d blocks", held, free, len(refs))
	}
	s := e.Stats()
	if s.Running < 0 || s.Waiting < 0 || s.Running+s.Waiting != len(e.requests) || s.BlocksUsed != held {
		t.Fatalf("stats %+v with %d requests and %d blocks held", s, len(e.requests), held)
	}
	if s.Running > e.cfg.MaxRunning || len(s.RunningAdapters) > e.cfg.MaxAdapters || s.PrefixHits > s.PrefixQueries {
		t.Fatalf("stats beyond their limits: %+v", s)
	}
}

func TestProperties(t *testing.T) {
	for seed := range uint64(200) {
		var at time.Duration
		ended := map[ID]Reason{}
		answers := map[ID]int{}
		var stats Stats
		events := play(t, seed, func(e *Engine, events []Event) {
			conserved(t, e)
			stats = e.Stats()
			for _, ev := range events {
				if ev.At < at {
					t.Fatalf("seed %d: event at %v after one at %v", seed, ev.At, at)
				}
				at = ev.At
			}
		})
		var hits, generated uint64
		for _, ev := range events {
			if reason, ok := ended[ev.ID]; ok {
				t.Fatalf("seed %d: request %d goes on after its end (%v): %+v", seed, ev.ID, reason, ev)
			}
			switch ev.Kind {
			case Admitted:
				hits += uint64(ev.Tokens)
			case FirstToken, NextToken:
				generated++
				if answers[ev.ID]++; ev.Tokens != answers[ev.ID] {
					t.Fatalf("seed %d: request %d: token %d is told as number %d", seed, ev.ID, answers[ev.ID], ev.Tokens)
				}
			case Rejected:
				ended[ev.ID] = ev.Reason
			case Finished:
				ended[ev.ID] = ev.Reason
				if ev.Tokens != answers[ev.ID] {
					t.Fatalf("seed %d: request %d ended with %d tokens, %d were told", seed, ev.ID, ev.Tokens, answers[ev.ID])
				}
				if ev.Timing.Cached >= ev.Timing.Prompt {
					t.Fatalf("seed %d: %d of %d prompt tokens cached: the last one must be computed", seed, ev.Timing.Cached, ev.Timing.Prompt)
				}
			}
		}
		if uint64(len(ended)) != stats.Submitted {
			t.Fatalf("seed %d: %d of %d requests ended", seed, len(ended), stats.Submitted)
		}
		if hits != stats.PrefixHits || generated != stats.GenerationTokens {
			t.Fatalf("seed %d: events tell of %d hits and %d tokens, stats of %d and %d", seed, hits, generated, stats.PrefixHits, stats.GenerationTokens)
		}
		if stats.BlocksUsed != 0 || stats.Running != 0 || stats.Waiting != 0 {
			t.Fatalf("seed %d: not empty at the end: %+v", seed, stats)
		}
	}
}

func TestDeterministic(t *testing.T) {
	for seed := range uint64(20) {
		nothing := func(*Engine, []Event) {}
		if diff := cmp.Diff(play(t, seed, nothing), play(t, seed, nothing)); diff != "" {
			t.Fatalf("seed %d: two runs differ:\n%s", seed, diff)
		}
	}
}

// However finely time is cut, the same happens.
func TestAdvanceInAnySteps(t *testing.T) {
	run := func(step time.Duration) []Event {
		e := mustNew(t, small())
		var all []Event
		for at := time.Duration(0); at < 2*time.Second; at += step {
			if at%(20*ms) == 0 {
				i := int(at / (20 * ms))
				e.Submit(at, Request{Prompt: tokens(100*(i%3), 8+i%20), Output: tokens(i, 1+i%9)})
			}
			all = append(all, e.Advance(at)...)
		}
		return append(all, drain(t, e)...)
	}
	want := run(20 * ms)
	for _, step := range []time.Duration{ms, 2 * ms, 5 * ms} {
		if diff := cmp.Diff(want, run(step)); diff != "" {
			t.Errorf("in steps of %v (-20ms +this):\n%s", step, diff)
		}
	}
}
