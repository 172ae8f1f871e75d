package remote

import (
	"testing"
	"time"
)

// at plays calls against a breaker on a clock of its own.
type play struct {
	*testing.T
	b   *breaker
	now time.Time
	id  uint64
}

func newPlay(t *testing.T) *play {
	return &play{T: t, b: newBreaker(defaultBreaker()), now: time.Unix(1000, 0)}
}

func (p *play) call(good bool) (admitted bool) {
	p.id++
	if !p.b.admit(p.id, p.now) {
		return false
	}
	if good {
		p.b.success(p.id, p.now)
	} else {
		p.b.failure(p.id, p.now)
	}
	return true
}

func (p *play) expect(want breakerState) {
	p.Helper()
	if got := p.b.current(); got != want {
		p.Fatalf("at %v: %v, want %v", p.now.Sub(time.Unix(1000, 0)), got, want)
	}
}

func (p *play) wait(d time.Duration) { p.now = p.now.Add(d) }

func TestBreakerOpensOnFailuresInARow(t *testing.T) {
	p := newPlay(t)
	for range 4 {
		p.call(false)
		p.wait(60 * time.Millisecond)
	}
	p.expect(closed)
	p.call(false)
	p.expect(open)
}

func TestBreakerSurvivesOneStall(t *testing.T) {
	p := newPlay(t)
	for range 64 {
		p.call(false) // all late at the same moment
	}
	p.expect(closed)
	p.call(true)
	p.wait(time.Second)
	p.call(false)
	p.expect(closed)
}

func TestBreakerOpensOnRatio(t *testing.T) {
	p := newPlay(t)
	for range 11 {
		p.call(true)
		p.call(false)
		p.wait(90 * time.Millisecond)
	}
	p.expect(closed) // one bad second is not enough
	for range 12 {
		p.call(true)
		p.call(false)
		p.wait(90 * time.Millisecond)
	}
	p.expect(open)
}

func TestBreakerStaysClosedOnFewFailures(t *testing.T) {
	p := newPlay(t)
	for i := range 500 {
		p.call(i%3 != 0)
		p.wait(20 * time.Millisecond)
	}
	p.expect(closed)
}

func (p *play) trip() {
	for range 5 {
		p.call(false)
		p.wait(50 * time.Millisecond)
	}
	p.expect(open)
}

func TestBreakerProbes(t *testing.T) {
	p := newPlay(t)
	p.trip()
	pause := time.Second
	for range 8 {
		p.wait(pause - 51*time.Millisecond)
		if p.call(true) {
			t.Fatalf("a call went out %v after opening", pause-51*time.Millisecond)
		}
		p.wait(51 * time.Millisecond)
		p.id++
		if !p.b.admit(p.id, p.now) {
			t.Fatal("no probe")
		}
		p.expect(halfOpen)
		if p.b.admit(p.id+1, p.now) {
			t.Fatal("two probes")
		}
		p.b.success(p.id-1, p.now) // a late word about a call of before
		p.b.failure(p.id-1, p.now)
		p.expect(halfOpen)
		p.b.failure(p.id, p.now)
		p.expect(open)
		pause = min(2*pause, 30*time.Second)
	}
	p.wait(30 * time.Second)
	p.call(true)
	p.expect(closed)
	p.trip()
	p.wait(time.Second)
	if !p.call(true) {
		t.Error("the pause did not start over")
	}
}

func TestBreakerForgetsAProbe(t *testing.T) {
	p := newPlay(t)
	p.trip()
	p.wait(time.Second)
	p.id++
	p.b.admit(p.id, p.now)
	p.b.forget(p.id + 1) // not the probe
	p.expect(halfOpen)
	p.b.forget(p.id)
	p.expect(open)
	if !p.call(true) {
		t.Fatal("no second probe at once")
	}
	p.expect(closed)
}

func TestBreakerReset(t *testing.T) {
	p := newPlay(t)
	p.trip()
	p.b.reset()
	p.expect(closed)
}
