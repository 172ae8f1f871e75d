package quarantine

import (
	"math"
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

// succeed has n requests go well.
func succeed(q *Quarantine, id roster.ID, n int) {
	for range n {
		q.Succeeded(id)
	}
}

func TestSuccessesMakeGood(t *testing.T) {
	q, c := newTest(t)
	q.Failed("a", "refused")
	q.Failed("b", "")
	c.pass(time.Second)
	succeed(q, "a", 6)
	if d := cmp.Diff([]roster.ID{"a", "b"}, q.Suspects()); d != "" {
		t.Error(d)
	}
	succeed(q, "a", 1)
	if d := cmp.Diff([]roster.ID{"b"}, q.Suspects()); d != "" {
		t.Error(d)
	}
	succeed(q, "b", 7)
	if q.Suspects() != nil {
		t.Errorf("suspects %v", q.Suspects())
	}
	q.Failed("a", "refused")
	if got := outFor(q, "a", c.now); got != time.Second {
		t.Errorf("out for %v after all was forgiven, want 1s", got)
	}
	q.Succeeded("never failed")
}

// An endpoint that fails every third request succeeds in between, and still stays out
// longer and longer.
func TestFailingNowAndThenAddsUp(t *testing.T) {
	q, c := newTest(t)
	for i, seconds := range []int{1, 2, 4, 8, 16, 30} {
		q.Failed("a", "500")
		want := time.Duration(seconds) * time.Second
		if got := outFor(q, "a", c.now); got != want {
			t.Errorf("failure %d: out for %v, want %v", i+1, got, want)
		}
		if i == 2 {
			if r := q.Reason("a", c.now); r != "500 (3 failures lately)" {
				t.Errorf("reason %q", r)
			}
		}
		c.pass(want)
		succeed(q, "a", 2)
	}
}

// B145: who is back from quarantine is empty, and gets few requests until they go well.
func TestB145WhoIsBackGetsFewRequestsAtATime(t *testing.T) {
	q, c := newTest(t)
	load := map[roster.ID]int64{}
	q.Limit(func(id roster.ID) int64 { return load[id] })
	q.Failed("a", "500")
	c.pass(time.Second)
	for good := range int64(6) {
		admitted := int64(0)
		for load["a"] = 0; load["a"] < 1000 && q.Reason("a", c.now) == ""; load["a"]++ {
			admitted++
		}
		if admitted != 1+2*good {
			t.Errorf("after %d that went well: %d at a time", good, admitted)
		}
		if !strings.Contains(q.Reason("a", c.now), "at a time") || q.Out() != 1 {
			t.Errorf("reason %q, %d out", q.Reason("a", c.now), q.Out())
		}
		q.Succeeded("a")
	}
	succeed(q, "a", 1)
	if load["a"] = 1000; q.Reason("a", c.now) != "" {
		t.Errorf("limited after all was forgiven: %s", q.Reason("a", c.now))
	}
	if q.Reason("healthy", c.now) != "" {
		t.Error("who never failed is limited")
	}
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

// Higress F5, H13: the moving averages of the reference are of times to the first token
// (100 then 300 is 200, of a policy that is not here) and of failures. Here only failures
// have one: a failure is .2, as in H13, and what goes well takes a fifth off.
func TestHigressF5H13TheAverageOfFailures(t *testing.T) {
	q, c := newTest(t)
	for i, step := range []struct {
		failed bool
		want   float64
	}{{true, .2}, {false, .16}, {true, .328}, {false, .2624}} {
		if step.failed {
			q.Failed("a", "500")
			c.pass(q.cfg.Longest)
		} else {
			q.Succeeded("a")
		}
		if got := q.current.Load().entries["a"].rate; math.Abs(got-step.want) > 1e-12 {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

// Higress F8: a is better than b and cools off after one error: b alone while it does, a
// again after.
func TestHigressF8WhoCoolsOffIsBack(t *testing.T) {
	q, c := newTest(t)
	q.Failed("a", "500")
	for _, step := range []struct {
		pass time.Duration
		out  bool
	}{{0, true}, {time.Second - 1, true}, {1, false}, {time.Second, false}} {
		c.pass(step.pass)
		if out := q.Reason("a", c.now) != ""; out != step.out || q.Reason("b", c.now) != "" {
			t.Errorf("%v later: out %t, want %t", step.pass, out, step.out)
		}
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
		succeed(q, id, 100)
	}
	if s := q.Suspects(); len(s) != 0 {
		t.Errorf("suspects %v", s)
	}
}
