package remote

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestParseTarget(t *testing.T) {
	for in, want := range map[string]target{
		"dns:///scorer-kv:9100": {hosts: []hostPort{{"scorer-kv", "9100"}}},
		"scorer-kv:9100":        {hosts: []hostPort{{"scorer-kv", "9100"}}},
		"10.0.0.1:1, [::1]:2":   {hosts: []hostPort{{"10.0.0.1", "1"}, {"::1", "2"}}},
		"unix:///run/s.sock":    {socket: "unix:///run/s.sock"},
	} {
		got, err := parseTarget(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(target{}, hostPort{})); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
	for _, in := range []string{"", "x", "x:", ":1", "x:0", "x:65536", "x:http", "unix://s", "unix:///", "dns://8.8.8.8/x:1", "http://x:1", "x:1,"} {
		if got, err := parseTarget(in); err == nil {
			t.Errorf("%q was taken as %v", in, got)
		}
	}
}

func TestAddresses(t *testing.T) {
	lookup := func(_ context.Context, host string) ([]string, error) {
		switch host {
		case "two":
			return []string{"10.0.0.2", "fd00::1"}, nil
		case "self":
			return []string{"::1", "127.0.0.1"}, nil
		case "six":
			return []string{"::1"}, nil
		}
		return nil, errors.New("no such host")
	}
	for in, want := range map[string][]string{
		"two:1":                 {"10.0.0.2:1", "[fd00::1]:1"},
		"self:1":                {"127.0.0.1:1"},
		"six:1":                 {"[::1]:1"},
		"10.0.0.9:1,two:1":      {"10.0.0.2:1", "10.0.0.9:1", "[fd00::1]:1"},
		"10.0.0.9:1,nobody:1":   {"10.0.0.9:1"},
		"10.0.0.9:1,10.0.0.9:1": {"10.0.0.9:1"},
	} {
		tg, err := parseTarget(in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tg.addresses(t.Context(), lookup)
		if (err != nil) != strings.Contains(in, "nobody") {
			t.Errorf("%s: %v", in, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
}

// names is a resolver that a test changes.
type zone struct {
	mu    sync.Mutex
	addrs []string
	err   error
	asked int
}

func (z *zone) set(err error, addrs ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.addrs, z.err = addrs, err
}

func (z *zone) lookup(context.Context, string) ([]string, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked++
	return z.addrs, z.err
}

// Replicas come and go with the name's addresses; those that go are not asked again,
// and their open calls are answered.
func TestReplicasFollowTheName(t *testing.T) {
	a, b := newHandmade("acme"), newHandmade("acme")
	_, port, err := net.SplitHostPort(a.serve(t, "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	b.serve(t, "127.0.0.2:"+port)
	z := &zone{}
	z.set(nil, "127.0.0.1")
	r := newRig(t, one("acme", "dns:///acme.test:"+port), withLookup(z.lookup), func(c *rigConfig) {
		c.cfg.ScorerLookup = conf.Duration(100 * time.Millisecond)
	})
	sc := r.resolved("acme")
	r.wantVerdict(r.ask(sc)[0], route.Scored)

	z.set(nil, "127.0.0.1", "127.0.0.2")
	r.ready(sc, 2)
	for range 10 {
		r.wantVerdict(r.ask(sc)[0], route.Scored)
	}
	if a.calls.Load() < 5 || b.calls.Load() < 5 {
		t.Errorf("%d and %d calls: ties are not spread", a.calls.Load(), b.calls.Load())
	}

	z.set(nil, "127.0.0.2")
	r.ready(sc, 1)
	before := a.calls.Load()
	for range 10 {
		r.wantVerdict(r.ask(sc)[0], route.Scored)
	}
	if got := a.calls.Load(); got != before {
		t.Errorf("a replica that left was asked %d times", got-before)
	}
	kittest.Eventually(t, "one replica to be left", func() bool { return len(r.set.Status()[0].Replicas) == 1 })

	// The name cannot be looked up, or is said not to exist: who works stays.
	for _, fault := range []error{errors.New("timeout"), &net.DNSError{Err: "no such host", IsNotFound: true}} {
		z.set(fault)
		asked := z.asked
		kittest.Eventually(t, "two look-ups", func() bool { z.mu.Lock(); defer z.mu.Unlock(); return z.asked > asked+2 })
		r.wantVerdict(r.ask(sc)[0], route.Scored)
		if st := r.set.Status()[0]; !strings.Contains(st.LastError, fault.Error()) {
			t.Errorf("status %v", st)
		}
	}
	// But who is gone as well is forgotten.
	b.stop()
	kittest.Eventually(t, "the replica to be forgotten", func() bool { return len(r.set.Status()[0].Replicas) == 0 })
	out := r.ask(sc)[0]
	r.wantVerdict(out, route.Skipped)
	if !strings.Contains(out.Reason, "no such host") {
		t.Errorf("reason %q", out.Reason)
	}
}

// The replica with the fewest open calls is asked.
func TestFewestOpenCalls(t *testing.T) {
	a, b := newHandmade("acme"), newHandmade("acme")
	r := newRig(t, one("acme", a.serve(t, "127.0.0.1:0")+","+b.serve(t, "127.0.0.1:0")))
	sc := r.ready(r.resolve("acme"), 2)
	var busy *replica
	for _, rep := range r.set.services[3].replicas {
		busy = rep
	}
	busy.open.Add(1)
	for range 10 {
		r.wantVerdict(r.ask(sc)[0], route.Scored)
	}
	busy.open.Add(-1)
	if got := a.calls.Load() * b.calls.Load(); got != 0 {
		t.Errorf("%d and %d calls, want all at one", a.calls.Load(), b.calls.Load())
	}
}
