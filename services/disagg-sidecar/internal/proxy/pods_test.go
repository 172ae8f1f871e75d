package proxy

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// zone answers look-ups.
type zone struct {
	mu    sync.Mutex
	hosts map[string][]netip.Addr
}

func (z *zone) set(host string, all ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.hosts[host] = nil
	for _, a := range all {
		z.hosts[host] = append(z.hosts[host], netip.MustParseAddr(a))
	}
}

func (z *zone) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	all, ok := z.hosts[host]
	if !ok {
		return nil, errors.New("no such host")
	}
	return all, nil
}

// Names of pods are looked up again and again: a pod that was started anew has another
// address. Before all are known nobody is told anything.
func TestPodNames(t *testing.T) {
	m := disagg.DefaultMoRIIO()
	m.Ranks, m.Local, m.DecodeHost = 2, 1, "decode.ns.svc"
	m.PrefillHosts = []string{"10.0.0.1", "prefill-1.ns.svc"}
	tel := telemetry.Discard()
	var mu sync.Mutex
	looked := make(map[string]int)
	p := newPods(&m, tel, func(why string) { mu.Lock(); looked[why]++; mu.Unlock() })
	z := &zone{hosts: make(map[string][]netip.Addr)}
	p.lookup, p.every, p.again = z.lookup, time.Millisecond, time.Millisecond
	z.set("decode.ns.svc", "fd00::1", "10.0.1.1")
	if p.known() {
		t.Error("names are known before they were looked up")
	}
	defer p.follow(t.Context())()
	if ok, why := tel.Health.Ready(); ok || p.known() || !strings.Contains(strings.Join(why, ""), "prefill-1.ns.svc") {
		t.Errorf("one has no address: ready %v, %v", ok, why)
	}
	z.set("prefill-1.ns.svc", "fd00::2")
	kittest.Eventually(t, "all are known", p.known)
	kittest.Eventually(t, "it is ready", func() bool { ok, _ := tel.Health.Ready(); return ok })
	got := p.now.Load()
	if diff := cmp.Diff([]string{"10.0.1.1", "10.0.0.1", "fd00::2"}, append([]string{got.DecodeHost}, got.PrefillHosts...)); diff != "" || got.Ranks != 2 {
		t.Error(diff)
	}
	z.set("prefill-1.ns.svc") // the pod is down
	kittest.Eventually(t, "that is told", func() bool { return len(tel.Health.Notes()) == 1 })
	if ok, why := tel.Health.Ready(); !ok || p.now.Load().PrefillHosts[1] != "fd00::2" {
		t.Errorf("the old address is not in use: %v", why)
	}
	z.set("prefill-1.ns.svc", "10.0.0.3")
	kittest.Eventually(t, "the new address is in use", func() bool { return p.now.Load().PrefillHosts[1] == "10.0.0.3" })
	kittest.Eventually(t, "that is taken back", func() bool { return len(tel.Health.Notes()) == 0 })
	mu.Lock()
	defer mu.Unlock()
	if looked["ok"] < 2 || looked["failed"] < 2 {
		t.Errorf("counted %v", looked)
	}
}

// Until the names are known prompts are not prefilled elsewhere, and the client hears why.
func TestPodsUnknown(t *testing.T) {
	p, d := newEngine(t, prefills()), newEngine(t, decodes())
	r := newRig(t, d, []*engine{p}, func(c *Config) {
		c.Prefill.MoRIIO.Write, c.Prefill.MoRIIO.LocalIP = true, "nobody.invalid"
	})
	if a := r.chat(p.address); a.status != 503 || a.header.Get("X-Pointsman-Reason") != "prefill-failed" || len(p.requests())+len(d.requests()) != 0 {
		t.Errorf("%+v", a)
	}
	if a := r.chat(""); a.status != 200 {
		t.Errorf("nobody else prefills: %+v", a)
	}
	if ok, _ := r.tel.Health.Ready(); ok || r.value("lookups_total", "reason", "failed") == 0 {
		t.Error("it is ready, or the look-up is not counted")
	}
}
