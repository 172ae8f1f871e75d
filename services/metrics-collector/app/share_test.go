package app

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
)

// onlyOne waits until every engine is scraped by one collector alone, and returns
// which: an engine is scraped some more times, and all of those by the same.
func onlyOne(t *testing.T, es []*engineServer) (owners []string) {
	t.Helper()
	kittest.Eventually(t, "each endpoint is scraped by exactly one collector", func() bool {
		owners = owners[:0]
		before := make([]map[string]int, len(es))
		for i, e := range es {
			before[i] = e.scrapes()
		}
		for i, e := range es {
			owner := ""
			kittest.Eventually(t, "an endpoint is scraped", func() bool {
				for token, n := range e.scrapes() {
					if n >= before[i][token]+5 {
						owner = token
						return true
					}
				}
				return false
			})
			for token, n := range e.scrapes() {
				if token != owner && n > before[i][token] {
					return false
				}
			}
			owners = append(owners, owner)
		}
		return true
	})
	return owners
}

func TestCollectorsShareTheEndpoints(t *testing.T) {
	nats := kittest.NATS(t)
	es := newEngines(t, 30)
	h := startHolder(t, nats)
	a := startCollector(t, testConfig(nats, "a", es...))
	h.waitFresh(t, 30)
	for token, n := range es[0].scrapes() {
		if token != "a" && n > 0 {
			t.Errorf("scraped by %q", token)
		}
	}
	b := startCollector(t, testConfig(nats, "b", es...))
	c := startCollector(t, testConfig(nats, "c", es...))
	sum := func() int {
		return a.value("owned_endpoints") + b.value("owned_endpoints") + c.value("owned_endpoints")
	}
	kittest.Eventually(t, "three collectors know each other", func() bool {
		return a.value("live_collectors") == 3 && b.value("live_collectors") == 3 && c.value("live_collectors") == 3 && sum() == 30
	})
	before := onlyOne(t, es)
	share := make(map[string]int)
	for _, owner := range before {
		share[owner]++
	}
	if share["a"] == 0 || share["b"] == 0 || share["c"] == 0 {
		t.Errorf("shares are %v, want each to have some", share)
	}
	h.waitFresh(t, 30)
	for name, x := range map[string]*collector{"a": a, "b": b, "c": c} {
		if n := x.value("stale_endpoints"); n != 0 {
			t.Errorf("%s takes %d endpoints for stale, although others scrape them", name, n)
		}
		kittest.Eventually(t, name+" is ready", func() bool { ready, _ := x.tel.Health.Ready(); return ready })
	}

	b.stop() // it says that it leaves
	kittest.Eventually(t, "b's endpoints are taken over", func() bool {
		return a.value("owned_endpoints")+c.value("owned_endpoints") == 30 && a.value("take_overs_total")+c.value("take_overs_total") == share["b"]
	})
	after := onlyOne(t, es)
	for i := range es {
		if before[i] != "b" && after[i] != before[i] {
			t.Errorf("endpoint %d moved from %s to %s although %[2]s lives", i, before[i], after[i])
		}
	}
	h.waitFresh(t, 30)
}

func TestKilledCollectorIsTakenOver(t *testing.T) {
	nats := kittest.NATS(t)
	es := newEngines(t, 10)
	file := t.TempDir() + "/endpoints.yaml"
	if err := os.WriteFile(file, []byte(endpointsFile(es...)), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startHolder(t, nats)
	a := startCollector(t, testConfig(nats, "a", es...))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(self)
	other.Env = append(os.Environ(), fmt.Sprintf("%s=--set\nnats.url=%s\n--set\nendpointsFile=%s\n--set\ndefaults.metrics.token=b\n--set\nadmin.address=", asCollector, nats, file))
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = other.Process.Wait() })
	t.Cleanup(func() { _ = other.Process.Kill() })
	kittest.Eventually(t, "the other process takes its share", func() bool {
		n := a.value("owned_endpoints")
		return a.value("live_collectors") == 2 && n > 0 && n < 10
	})
	onlyOne(t, es)
	if err := other.Process.Kill(); err != nil { // it cannot say anything
		t.Fatal(err)
	}
	kittest.Eventually(t, "the killed one's endpoints are taken over", func() bool {
		return a.value("owned_endpoints") == 10 && a.value("take_overs_total") > 0
	})
	for _, owner := range onlyOne(t, es) {
		if owner != "a" {
			t.Errorf("an endpoint is scraped by %q", owner)
		}
	}
	h.waitFresh(t, 10)
}
