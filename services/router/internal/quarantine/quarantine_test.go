package quarantine

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

var _ route.Quarantine = (*Quarantine)(nil)

type clock struct{ now int64 }

func (c *clock) pass(d time.Duration) { c.now += int64(d) }

func newTest(t *testing.T) (*Quarantine, *clock) {
	t.Helper()
	c := &clock{now: int64(time.Hour)}
	q, err := New(DefaultConfig(), func() int64 { return c.now })
	if err != nil {
		t.Fatal(err)
	}
	return q, c
}

// outFor returns how long the endpoint is out from now on, to the ms.
func outFor(q *Quarantine, id roster.ID, now int64) time.Duration {
	d := time.Duration(0)
	for q.Reason(id, now+int64(d)) != "" {
		d += time.Millisecond
		if d > time.Hour {
			break
		}
	}
	return d
}

func TestDoublesUpToTheLongest(t *testing.T) {
	q, c := newTest(t)
	for i, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
		want := time.Duration(seconds) * time.Second
		q.Failed("a", "refused")
		if got := outFor(q, "a", c.now); got != want {
			t.Errorf("failure %d: out for %v, want %v", i+1, got, want)
		}
		c.pass(want)
	}
	if q.Out() != 0 {
		t.Error("still out after its time")
	}
	q.Failed("a", "refused")
	if r := q.Reason("a", c.now); r != "refused (8 failures in a row)" {
		t.Errorf("reason %q", r)
	}
}

func TestSuccessMakesGood(t *testing.T) {
	q, c := newTest(t)
	q.Failed("a", "refused")
	q.Failed("b", "")
	c.pass(time.Second)
	q.Succeeded("a")
	if d := cmp.Diff([]roster.ID{"b"}, q.Suspects()); d != "" {
		t.Error(d)
	}
	q.Succeeded("b")
	if q.Suspects() != nil {
		t.Errorf("suspects %v", q.Suspects())
	}
	q.Failed("a", "refused")
	if got := outFor(q, "a", c.now); got != time.Second {
		t.Errorf("out for %v after a success, want 1s", got)
	}
	q.Succeeded("never failed")
}

// An endpoint that shuts down still ends old answers, and refuses new requests.
func TestSuccessWhileOutChangesNothing(t *testing.T) {
	q, c := newTest(t)
	q.Failed("a", "refused")
	c.pass(500 * time.Millisecond)
	q.Succeeded("a")
	if got := outFor(q, "a", c.now); got != 500*time.Millisecond {
		t.Errorf("out for %v more, want 500ms", got)
	}
}

func TestFailuresTogetherAreOne(t *testing.T) {
	q, c := newTest(t)
	for range 100 {
		q.Failed("a", "refused")
	}
	if got := outFor(q, "a", c.now); got != time.Second {
		t.Errorf("out for %v after 100 failures at once, want 1s", got)
	}
}

// B147: 25 failures, one request per 5 s; no request before the window ends.
func TestB147StaysOutUntilTheWindowEnds(t *testing.T) {
	q, c := newTest(t)
	tried := 0
	for range 25 {
		if q.Reason("bad", c.now) == "" {
			tried++
			q.Failed("bad", "500")
		}
		c.pass(5 * time.Second)
	}
	if tried >= 12 {
		t.Errorf("tried %d times of 25", tried)
	}
}

func TestRetain(t *testing.T) {
	q, c := newTest(t)
	table, err := roster.NewTable([]roster.Endpoint{{ID: "stays", Host: "h", Port: 1}})
	if err != nil {
		t.Fatal(err)
	}
	q.Retain(nil, table)
	q.Failed("stays", "x")
	q.Failed("leaves", "x")
	q.Retain(nil, table)
	if d := cmp.Diff([]roster.ID{"stays"}, q.Suspects()); d != "" || q.Reason("leaves", c.now) != "" {
		t.Error(d)
	}
	if q.Out() != 1 {
		t.Errorf("%d out, want 1", q.Out())
	}
}

func TestOldFailuresAreForgotten(t *testing.T) {
	q, c := newTest(t)
	q.Failed("a", "x")
	c.pass(time.Second + forgetAfter)
	q.Failed("b", "x")
	if d := cmp.Diff([]roster.ID{"b"}, q.Suspects()); d != "" {
		t.Error(d)
	}
	q.Failed("a", "x")
	if got := outFor(q, "a", c.now); got != time.Second {
		t.Errorf("out for %v, want 1s", got)
	}
}

func TestReasonIsNeverEmptyForWhoIsOut(t *testing.T) {
	q, c := newTest(t)
	q.Failed("a", "")
	if q.Reason("a", c.now) == "" {
		t.Error("out without a reason is in")
	}
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	_, err := New(Config{First: 0, Longest: -1}, nil)
	if err == nil || !strings.Contains(err.Error(), "first") || !strings.Contains(err.Error(), "longest") {
		t.Errorf("error %v, want both faults", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	q, err := New(Config{First: time.Nanosecond, Longest: time.Millisecond}, func() int64 { return time.Now().UnixNano() })
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, id := range []roster.ID{"a", "b", "c", "d"} {
		wg.Go(func() {
			for range 2000 {
				q.Failed(id, "x")
				for _, s := range q.Suspects() {
					q.Reason(s, 0)
				}
				q.Succeeded(id)
			}
		})
	}
	wg.Wait()
	time.Sleep(2 * time.Millisecond)
	for _, id := range q.Suspects() {
		q.Succeeded(id)
	}
	if s := q.Suspects(); len(s) != 0 {
		t.Errorf("suspects %v", s)
	}
}
