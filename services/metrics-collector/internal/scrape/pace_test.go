package scrape

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

func testPace() pace {
	return pace{interval: 50 * ms, maxBackoff: 2 * time.Second, maxInterval: 10 * time.Second, maxShare: 0.2, jitter: 0.1}
}

func TestPace(t *testing.T) {
	type step struct {
		took time.Duration
		ok   bool
		want time.Duration
	}
	for name, steps := range map[string][]step{
		"fast pages: the interval, less what the page took": {{2 * ms, true, 48 * ms}, {10 * ms, true, 40 * ms}},
		"slow pages: a fifth of the time":                   {{20 * ms, true, 80 * ms}, {time.Second, true, 4 * time.Second}, {2 * ms, true, 48 * ms}},
		"very slow pages: bounded":                          {{3 * time.Second, true, 10 * time.Second}, {time.Minute, true, 10 * time.Second}},
		"failures double": {
			{0, false, 50 * ms}, {0, false, 100 * ms}, {0, false, 200 * ms}, {0, false, 400 * ms}, {0, false, 800 * ms},
			{0, false, 1600 * ms}, {0, false, 2 * time.Second}, {0, false, 2 * time.Second}, {2 * ms, true, 48 * ms}, {0, false, 50 * ms},
		},
		"timeouts keep the share": {{5 * time.Second, false, 10 * time.Second}, {300 * ms, false, 1200 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPace()
			for i, s := range steps {
				if got := p.next(s.took, s.ok, 0.5); got != s.want {
					t.Errorf("step %d: wait %v, want %v", i, got, s.want)
				}
			}
		})
	}
}

func TestPaceStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := testPace()
		for range rapid.IntRange(1, 60).Draw(t, "scrapes") {
			took := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "took"))
			ok := rapid.Bool().Draw(t, "ok")
			wait := p.next(took, ok, rapid.Float64Range(0, 1).Draw(t, "random"))
			if wait < 0 || wait > 11*time.Second {
				t.Fatalf("wait %v", wait)
			}
			if took < 2*time.Second && float64(took) > 0.23*float64(took+wait) {
				t.Fatalf("took %v and waits %v: more than the share", took, wait)
			}
			if !ok && wait < 45*ms {
				t.Fatalf("wait %v after a failure", wait)
			}
		}
	})
}

func TestListPace(t *testing.T) {
	cfg := DefaultConfig().ModelList
	away, refused := &failure{connect, errors.New("refused")}, errors.New("no list")
	var p listPace
	for i, c := range []struct {
		err  error
		want time.Duration
	}{
		{away, 2 * time.Second}, {away, 2 * time.Second}, {refused, 2 * time.Second}, {refused, 4 * time.Second}, {refused, 8 * time.Second},
		{away, 2 * time.Second}, {refused, 16 * time.Second}, {refused, 30 * time.Second}, {nil, 30 * time.Second}, {away, 30 * time.Second},
	} {
		if got := p.next(&cfg, c.err); got != c.want {
			t.Errorf("question %d: wait %v, want %v", i, got, c.want)
		}
	}
}

func TestNotice(t *testing.T) {
	now := time.Unix(1000, 0)
	var n notice
	if !n.failed(now) || n.failed(now.Add(time.Second)) || n.failed(now.Add(time.Hour)) {
		t.Error("failing is to be told once")
	}
	if !n.well() || n.well() {
		t.Error("recovery is to be told once")
	}
	now = now.Add(time.Second)
	if n.failed(now) || n.well() {
		t.Error("an endpoint that keeps failing and recovering fills the log")
	}
	if !n.failed(now.Add(noticeGap)) {
		t.Error("a failure long after is not told")
	}
	n = notice{last: now}
	if n.failed(now.Add(time.Second)) || !n.failed(now.Add(noticeGap)) || n.failed(now.Add(2*noticeGap)) {
		t.Error("an endpoint that recovers, and then fails for good, is to be told of once")
	}
}
