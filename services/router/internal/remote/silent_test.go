package remote

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// mutable is a scorer that may be told to hang when it is asked about parameters of the
// plug-in type "hangs".
func mutable(t *testing.T) (s *handmade, hang func(bool)) {
	t.Helper()
	s = newHandmade("hangs", "works")
	var hanging atomic.Bool
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	good := s.validate
	s.validate = func(m *scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error) {
		if m.GetScorerType() == "hangs" && hanging.Load() {
			<-release
		}
		return good(m)
	}
	return s, hanging.Store
}

// A scorer that is connected and healthy, and does not answer about parameters: a
// configuration loads without waiting for each of its plug-ins, what is waited for is
// shown, and all is well once it answers.
func TestSilentAboutParameters(t *testing.T) {
	s, hang := mutable(t)
	hang(true)
	r := newRig(t, one("acme", s.serve(t, "")))
	first, second := r.resolve("hangs"), r.resolve("hangs")
	for range 20 {
		_, _, _, warnings, err := r.set.Resolve("p-hangs", "hangs", nil)
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "it does not answer: the parameters of") {
			t.Fatalf("it was waited for again: %q, %v", warnings, err)
		}
	}
	const waits = `it has not answered about the parameters of "p-hangs"`
	kittest.Eventually(t, "what is waited for to be shown", func() bool {
		rep := r.set.Status()[0].GetReplicas()[0]
		return !rep.GetReady() && rep.GetReason() == waits
	})
	if got := r.value("pointsman_router_scorer_replicas", "state", "not_ready"); got != 1 {
		t.Errorf("%v replicas are not ready", got)
	}
	out := r.ask(first)[0]
	r.wantVerdict(out, route.Skipped)
	if out.Reason != "it has not answered about the parameters yet" {
		t.Errorf("reason %q", out.Reason)
	}

	// Another plug-in is served meanwhile.
	r.wantVerdict(r.ask(r.resolved("works"))[0], route.Scored)
	if rep := r.set.Status()[0].GetReplicas()[0]; !rep.GetReady() || rep.GetReason() != waits {
		t.Errorf("status %v", rep)
	}
	hang(false)
	kittest.Eventually(t, "both to be asked", func() bool {
		return r.ask(first)[0].Verdict == route.Scored && r.ask(second)[0].Verdict == route.Scored
	})
	kittest.Eventually(t, "nothing to be waited for", func() bool {
		rep := r.set.Status()[0].GetReplicas()[0]
		return rep.GetReady() && rep.GetReason() == ""
	})
	_, _, _, warnings, err := r.set.Resolve("p", "hangs", nil)
	if err != nil || len(warnings) != 0 {
		t.Errorf("it answers again: %q, %v", warnings, err)
	}
}

// A scorer in this process that hangs holds nobody up either.
func TestSilentWithinTheProcess(t *testing.T) {
	s, hang := mutable(t)
	hang(true)
	r := newRig(t, []ScorerConfig{{Name: "acme", Target: embeddedTarget}}, func(c *rigConfig) { c.embedded = map[string]Embedded{"acme": {Server: s}} })
	_, asked, _, warnings, err := r.set.Resolve("p", "hangs", nil)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "validate parameters: ") {
		t.Fatalf("%q, %v", warnings, err)
	}
	hang(false)
	kittest.Eventually(t, "a score", func() bool { return r.ask(route.Scorer{Asked: asked})[0].Verdict == route.Scored })
	if in := asked.(*Instance); !in.Over(warnings[0]) {
		t.Error("the warning still holds")
	}
}

// Whoever hangs from the start is connected to all the same, and holds up no other plug-in.
func TestSilentFromTheStart(t *testing.T) {
	s, hang := mutable(t)
	hang(true)
	address := s.serve(t, "127.0.0.1:0")
	z := &zone{}
	r := newRig(t, []ScorerConfig{{Name: "acme", Target: "dns:///acme.test" + address[strings.LastIndex(address, ":"):], Types: []string{"hangs", "works"}}},
		withLookup(z.lookup), func(c *rigConfig) { c.cfg.ScorerLookup = conf.Duration(100 * time.Millisecond) })
	z.set(context.DeadlineExceeded)
	silent, works := r.resolve("hangs"), r.resolve("works")
	z.set(nil, "127.0.0.1")
	r.ready(works, 1)
	r.wantVerdict(r.ask(works)[0], route.Scored)
	r.wantVerdict(r.ask(silent)[0], route.Skipped)
}

// A warning about a scorer that could not be reached ends when it is.
func TestWarningsEnd(t *testing.T) {
	s := newHandmade("acme", "queue-scorer")
	address := s.serve(t, "127.0.0.1:0")
	z := &zone{err: context.DeadlineExceeded}
	r := newRig(t, []ScorerConfig{{Name: "acme", Target: "dns:///acme.test" + address[strings.LastIndex(address, ":"):], Types: []string{"acme"}}},
		withLookup(z.lookup), func(c *rigConfig) { c.cfg.ScorerLookup = conf.Duration(100 * time.Millisecond) })
	_, asked, _, warnings, err := r.set.Resolve("p", "acme", nil)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "not reachable") {
		t.Fatalf("%q, %v", warnings, err)
	}
	in := asked.(*Instance)
	if in.Over(warnings[0]) || in.Over("something else") {
		t.Error("it does not hold although nobody was reached")
	}
	z.set(nil, "127.0.0.1")
	kittest.Eventually(t, "the warning to end", func() bool { return in.Over(warnings[0]) })
	r.wantVerdict(r.ask(r.ready(route.Scorer{Asked: asked}, 1))[0], route.Scored)
}

// A rival that turns out not to serve the type is no rival.
func TestWarningsAboutRivalsEnd(t *testing.T) {
	queue, other := newHandmade("queue-scorer"), newHandmade("acme")
	address := other.serve(t, "127.0.0.1:0")
	z := &zone{err: context.DeadlineExceeded}
	r := newRig(t, []ScorerConfig{{Name: "scorer-queue", Target: queue.serve(t, "")}, {Name: "other", Target: "dns:///other.test" + address[strings.LastIndex(address, ":"):]}},
		withLookup(z.lookup), func(c *rigConfig) {
			c.cfg.ScorerLookup, c.cfg.ScorerWait = conf.Duration(100*time.Millisecond), conf.Duration(100*time.Millisecond)
		})
	var asked any
	var warnings []string
	kittest.Eventually(t, "the built-in one to be reached", func() bool {
		service, a, _, w, err := r.set.Resolve("p", "queue-scorer", nil)
		if err != nil || service != "scorer-queue" {
			t.Fatal(service, err)
		}
		asked, warnings = a, w
		return len(w) == 1
	})
	in := asked.(*Instance)
	if !strings.Contains(warnings[0], "which may serve it too") || in.Over(warnings[0]) {
		t.Errorf("warning %q, over %v", warnings[0], in.Over(warnings[0]))
	}
	z.set(nil, "127.0.0.1")
	kittest.Eventually(t, "the warning to end", func() bool { return in.Over(warnings[0]) })
}
