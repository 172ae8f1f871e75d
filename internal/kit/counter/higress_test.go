package counter

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/redis"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// Rows of the cases of Higress's ai-load-balancer that are about its counts. Others are
// named in the tests of what they are about.

// Higress A3: a field of an endpoint that nobody names as a candidate is kept between the
// reference's cleanings. Here a pick never drops anybody's counts: TestEndpointsThatLeave.
func TestHigressA3APickDropsNoCounts(t *testing.T) {
	each(t, func(t *testing.T, router func(string) Store, _ func(time.Duration)) {
		s := router("r")
		token := replaced(t, s, 1, Count{"h1", 10}, Count{"old_ip_1", 1})
		if p, err := s.Pick(t.Context(), token, Request{Candidates: []string{"h1"}}); err != nil || p.Requests != 11 {
			t.Fatalf("%+v, %v", p, err)
		}
		checkCounts(t, s, map[string]int64{"h1": 11, "old_ip_1": 1})
	})
}

// Higress A7: four at 5. The reference's first version drew by the second, so that within
// one the same host won every tie. Here each pick draws, and no clock has a part in it.
func TestHigressA7TiesAreNotDrawnByTheClock(t *testing.T) {
	stopped := time.Unix(1000, 0)
	m := NewMemory(time.Hour, func() time.Time { return stopped })
	hosts := []string{"h0", "h1", "h2", "h3"}
	replaced(t, m.Router("other"), 1, Count{"h0", 5}, Count{"h1", 5}, Count{"h2", 5}, Count{"h3", 5})
	r := newRouter(t, DefaultConfig(), m.Router("r"), "r")
	kittest.Eventually(t, "in step", r.InStep)
	const picks = 400
	got := map[string]int{}
	for range picks {
		i, n, l, err := r.Reserve(t.Context(), Request{Candidates: hosts})
		if err != nil || n != 6 {
			t.Fatalf("%d requests, %v", n, err)
		}
		got[hosts[i]]++
		l.Release()
	}
	for _, h := range hosts {
		if got[h] < picks/8 { // 100 are expected; 50 are 5.8 standard deviations fewer
			t.Errorf("%s won %d of %d ties: %v", h, got[h], picks, got)
		}
	}
}

// Higress A12: counts 0, 1, −3, 0. In the reference the host at −3 always wins. Here what
// would bring it there is floored, so three stand at 0 and each is picked before the one
// with a request.
func TestHigressA12NobodyIsBelowZero(t *testing.T) {
	each(t, func(t *testing.T, router func(string) Store, _ func(time.Duration)) {
		s := router("r")
		token := replaced(t, s, 1, Count{"b", 1})
		for i, d := range []Delta{{"c", -3}, {"c", -1}} {
			if floored, err := s.Adjust(t.Context(), token, []Delta{d}); err != nil || floored != 1 {
				t.Fatalf("change %d: %d floored, %v", i, floored, err)
			}
		}
		for range 3 {
			p, err := s.Pick(t.Context(), token, Request{Candidates: []string{"a", "b", "c", "d"}, Lot: rand.Uint32()})
			if err != nil || p.Requests != 1 {
				t.Fatalf("%+v, %v", p, err)
			}
		}
		checkCounts(t, s, map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1})
	})
}

// Higress F11: the reference's script gets a seed, one key without a hash tag, the number
// of services, a TTL, and services and scores by turns. Here keys are keys, of one pool and
// slot, everything else is an argument, and chance is drawn by the caller; the TTL is that
// of a router's lease, however many picks there are.
func TestHigressF11KeysAndArguments(t *testing.T) {
	m := miniredis.RunT(t)
	c, _ := client(t, func(cfg *redis.Config) { cfg.Address = m.Addr() })
	s := NewRedis(c, "test-prefix", "router-a", lease)
	token := replaced(t, s, 7)
	if _, err := s.Pick(t.Context(), token, Request{Candidates: []string{"a", "b"}, Lot: 3}); err != nil {
		t.Fatal(err)
	}
	const sums = "pointsman:{test-prefix}:inflight"
	for _, c := range []struct{ key, field, want string }{
		{sums, "", token.Epoch}, {sums, "b", "1"}, {sums + ":router-a", "", token.Epoch + ".7"}, {sums + ":router-a", "b", "1"},
	} {
		if got := m.HGet(c.key, c.field); got != c.want {
			t.Errorf("%s, field %q: %q, want %q", c.key, c.field, got, c.want)
		}
	}
	if keys := m.Keys(); len(keys) != 3 || keys[2] != "pointsman:{test-prefix}:routers" {
		t.Errorf("keys %v", keys)
	}
	if left := m.TTL(sums); left != memory*lease {
		t.Errorf("the counts live for %v", left)
	}
}

// Higress F13: of four the reference's script is sent a sample of two. Here it is sent all,
// and finds the least of them wherever it stands and whatever the lot.
func TestHigressF13AllCandidatesAreCompared(t *testing.T) {
	each(t, func(t *testing.T, router func(string) Store, _ func(time.Duration)) {
		s, hosts := router("r"), []string{"a", "b", "c", "d"}
		for i, least := range hosts {
			var counts []Count
			for _, h := range hosts {
				if h != least {
					counts = append(counts, Count{h, 9})
				}
			}
			token := replaced(t, s, uint64(i+1), counts...)
			for range 8 {
				if p, err := s.Pick(t.Context(), token, Request{Candidates: hosts, Lot: rand.Uint32()}); err != nil || hosts[p.Index] != least {
					t.Fatalf("picked %+v, %v; want %s", p, err, least)
				}
			}
		}
	})
}

// Higress F14: Redis answers with somebody who was no candidate. The reference takes one
// off there; here nothing is held by such an answer, and what it may have left is gone with
// the rewrite that follows whatever is in doubt.
func TestHigressF14AnAnswerThatIsNoCandidate(t *testing.T) {
	m := miniredis.RunT(t)
	c, tel := idleClient(t, func(cfg *redis.Config) { cfg.Address = m.Addr() })
	l, err := InRedis(DefaultConfig(), c, "pool", "r", tel)
	if err != nil {
		t.Fatal(err)
	}
	l.store.(*Redis).scripts.pick = redis.NewScript(`
redis.call('HINCRBY', KEYS[1], 'stranger', 1)
redis.call('HINCRBY', KEYS[2], 'stranger', 1)
return {99, 1, 0}`)
	l.Enable(true)
	begin(t, c.Part())
	begin(t, l.Part())
	kittest.Eventually(t, "in step", l.InStep)
	_, _, lease, err := l.Reserve(t.Context(), Request{Candidates: []string{"a", "b"}})
	if err == nil || lease != nil || !strings.Contains(err.Error(), "out of range") || l.Held() != 0 {
		t.Errorf("%v, %v, %d held", lease, err, l.Held())
	}
	kittest.Eventually(t, "the stranger is not counted", func() bool {
		got, err := l.Counts(context.Background())
		return err == nil && len(got) == 0 && l.InStep()
	})
}

// counted counts the calls of a store that are about requests; a router that stops says
// goodbye with another.
type counted struct {
	Store
	calls atomic.Int64
}

func (s *counted) Pick(ctx context.Context, t Token, q Request) (Picked, error) {
	s.calls.Add(1)
	return s.Store.Pick(ctx, t, q)
}

func (s *counted) Adjust(ctx context.Context, t Token, d []Delta) (int, error) {
	s.calls.Add(1)
	return s.Store.Adjust(ctx, t, d)
}

func (s *counted) Replace(ctx context.Context, g uint64, c []Count) (Token, []string, error) {
	s.calls.Add(1)
	return s.Store.Replace(ctx, g, c)
}

// Higress F16: a request ends that was not counted in Redis: no call, and its end is noted
// all the same. (That of its time to the first byte has nothing to do with counts here.)
func TestHigressF16TheEndOfWhatWasNotShared(t *testing.T) {
	s := &counted{Store: NewMemory(time.Hour, time.Now).Router("r")}
	l, err := New(DefaultConfig(), s, "r", telemetry.Discard())
	if err != nil {
		t.Fatal(err)
	}
	stop := begin(t, l.Part())
	place := l.Adopt("a")
	if _, _, _, err := l.Reserve(t.Context(), Request{Candidates: []string{"a"}}); !errors.Is(err, ErrApart) {
		t.Errorf("Reserve: %v", err)
	}
	if l.Held() != 1 {
		t.Errorf("%d held", l.Held())
	}
	place.Release()
	place.Release()
	stop()
	if l.Held() != 0 || s.calls.Load() != 0 {
		t.Errorf("%d held, %d calls of the store", l.Held(), s.calls.Load())
	}
}

// Higress F19, F20: whom the script picks and what it leaves alone. Scores are not weighed
// in Redis here: who is not near the best is not sent, see the picker's own rows.
func TestHigressF19F20WhatAPickTouches(t *testing.T) {
	each(t, func(t *testing.T, router func(string) Store, _ func(time.Duration)) {
		s := router("r")
		token := replaced(t, s, 1, Count{"a", 10}, Count{"b", 1}, Count{"old", 99})
		if p, err := s.Pick(t.Context(), token, Request{Candidates: []string{"a", "b"}}); err != nil || p.Index != 1 || p.Requests != 2 {
			t.Errorf("F19: %+v, %v", p, err)
		}
		checkCounts(t, s, map[string]int64{"a": 10, "b": 2, "old": 99})
		token = replaced(t, s, 2)
		if p, err := s.Pick(t.Context(), token, Request{Candidates: []string{"a", "b"}, First: true}); err != nil || p.Index != 0 || p.Requests != 1 {
			t.Errorf("F20: %+v, %v", p, err)
		}
		checkCounts(t, s, map[string]int64{"a": 1})
	})
}

// B179: counts that are flushed now and then are seconds old when they decide. Here what
// this router has done is known to its next pick, even if it has not been told yet.
func TestB179OwnChangesGoAlongWithAPick(t *testing.T) {
	slow := &late{Store: NewMemory(time.Hour, time.Now).Router("r"), sent: make(chan struct{}), arrive: make(chan struct{})}
	r := newRouter(t, DefaultConfig(), slow, "r")
	kittest.Eventually(t, "in step", r.InStep)
	first := r.Adopt("x")
	<-slow.sent // nothing is told by itself from here on
	defer close(slow.arrive)
	var held []*Lease
	for range 2 {
		held = append(held, r.Adopt("a"))
	}
	if i, n, _, err := r.Reserve(t.Context(), Request{Candidates: []string{"a", "b"}}); err != nil || i != 1 || n != 1 {
		t.Errorf("picked %d with %d requests, %v", i, n, err)
	}
	for _, l := range held {
		l.Release()
	}
	if i, n, _, err := r.Reserve(t.Context(), Request{Candidates: []string{"a", "b"}}); err != nil || i != 0 || n != 1 {
		t.Errorf("after two ended: picked %d with %d requests, %v", i, n, err)
	}
	first.Release()
}
