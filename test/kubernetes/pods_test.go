package kubernetes

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
)

// What a pod has to be to be in the pool, and how it leaves.
func TestPodsComeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool(t, "m", 8000)
	c := w.collector(t, "--poolName=m", "--poolNamespace="+w.ns)
	h := w.follow(t, w.ns+"/m")
	awaitReady(t, c)

	w.pod(t, "bound", "m", "127.0.1.1", func(p object) { p["spec"].(object)["nodeName"] = "n" })
	w.pod(t, "plain", "m", "127.0.1.2")
	w.pod(t, "unready", "m", "")
	w.pod(t, "other", "x", "127.0.1.4")
	h.wait(t, "ready pods of the pool", "127.0.1.1:8000", "127.0.1.2:8000")
	e := h.Snapshot().Table.Endpoints[0]
	if l, _ := e.Label("app"); l != "m" || !strings.HasPrefix(string(e.ID), "bound-rank-0/") {
		t.Errorf("endpoint %+v", e)
	}

	w.status(t, "unready", "127.0.1.3", false)
	w.status(t, "unready", "127.0.1.3", true)
	h.wait(t, "it becomes ready", "127.0.1.1:8000", "127.0.1.2:8000", "127.0.1.3:8000")
	w.status(t, "unready", "127.0.1.3", false)
	h.wait(t, "it becomes unready", "127.0.1.1:8000", "127.0.1.2:8000")

	w.Patch(t, w.podPath("other"), object{"metadata": object{"labels": object{"app": "m"}}})
	h.wait(t, "one is relabelled into the pool", "127.0.1.1:8000", "127.0.1.2:8000", "127.0.1.4:8000")
	w.Patch(t, w.podPath("other"), object{"metadata": object{"labels": object{"app": "x"}}})
	h.wait(t, "and out of it", "127.0.1.1:8000", "127.0.1.2:8000")

	// Its containers end when the node says so: it stays, with a deletion timestamp.
	w.Delete(t, w.podPath("plain"))
	h.wait(t, "one is deleted at once", "127.0.1.1:8000")
	if _, err := w.Do(t.Context(), http.MethodDelete, w.podPath("bound"), "application/json", []byte(`{"gracePeriodSeconds":600}`)); err != nil {
		t.Fatal(err)
	}
	h.wait(t, "one is terminating")
	if _, err := w.Do(t.Context(), http.MethodGet, w.podPath("bound"), "", nil); err != nil {
		t.Errorf("the terminating pod is gone, so this test has shown nothing: %v", err)
	}

	w.pod(t, "evicted", "m", "127.0.1.5")
	h.wait(t, "another one", "127.0.1.5:8000")
	// The kubelet leaves the old conditions as they were.
	w.Patch(t, w.podPath("evicted")+"/status", object{"status": object{"phase": "Failed", "reason": "Evicted"}})
	h.wait(t, "it is evicted")
	if ok, why := ready(t, c); !ok {
		t.Errorf("a pool without pods makes the collector unready: %s", why)
	}
}

// B086: scale 1 → 0 → 1 under one name. B091: the one that returns is another.
func TestB086_B091_a_pod_that_returns_is_another(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool(t, "m", 8000)
	w.collector(t, "--poolName=m", "--poolNamespace="+w.ns)
	h := w.follow(t, w.ns+"/m")
	w.pod(t, "a", "m", "127.0.1.1")
	h.wait(t, "the first", "127.0.1.1:8000")
	first := h.Snapshot().Table.Endpoints[0].ID
	h.Pick("router", 1, first, 10, h.Now())

	w.status(t, "a", "127.0.1.1", false)
	h.wait(t, "it flaps")
	w.status(t, "a", "127.0.1.1", true)
	h.wait(t, "it is back", "127.0.1.1:8000")
	if id := h.Snapshot().Table.Endpoints[0].ID; id != first {
		t.Errorf("after a flap the same pod is %s, before it was %s", id, first)
	}
	for range 3 {
		w.Delete(t, w.podPath("a"))
		h.wait(t, "it is gone")
		w.pod(t, "a", "m", "127.0.1.1")
		h.wait(t, "one returns under its name and address", "127.0.1.1:8000")
	}
	if id := h.Snapshot().Table.Endpoints[0].ID; id == first {
		t.Errorf("a new pod has the old id %s", id)
	}
	h.Finish("router", 1) // the request of the old one ends now
	if n := h.Snapshot().InFlight(0); n != 0 {
		t.Errorf("the new pod has %d requests in flight", n)
	}
}

func TestB088_fewer_ports_are_fewer_endpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool(t, "m", 8000, 8001, 8002, 8003, 8004, 8005, 8006, 8007)
	c := w.collector(t, "--poolName=m", "--poolNamespace="+w.ns)
	h := w.follow(t, w.ns+"/m")
	w.pod(t, "a", "m", "127.0.1.1")
	at := func(ports ...int) (out []string) {
		for _, p := range ports {
			out = append(out, fmt.Sprintf("127.0.1.1:%d", p))
		}
		return out
	}
	h.wait(t, "eight ranks", at(8000, 8001, 8002, 8003, 8004, 8005, 8006, 8007)...)
	kittest.Eventually(t, "all are scraped here", func() bool { return metric(t, c, "owned_endpoints", "") == 8 })
	w.Patch(t, w.poolPath("m"), object{"spec": object{"targetPorts": numbers(8000)}})
	h.wait(t, "one rank", at(8000)...)
	kittest.Eventually(t, "only that is scraped", func() bool { return metric(t, c, "owned_endpoints", "") == 1 })
}

func TestActivePorts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool(t, "m", 8000, 8001)
	w.collector(t, "--poolName=m", "--poolNamespace="+w.ns)
	h := w.follow(t, w.ns+"/m")
	w.pod(t, "all", "m", "127.0.1.1")
	w.pod(t, "one", "m", "127.0.1.2", annotated("llm-d.ai/active-ports", "8001, 9999, x, 8001"))
	w.pod(t, "none", "m", "127.0.1.3", annotated("llm-d.ai/active-ports", ""))
	w.pod(t, "legacy", "m", "127.0.1.4", annotated("inference.networking.k8s.io/active-ports", "8000"))
	w.pod(t, "both", "m", "127.0.1.5", func(p object) {
		p["metadata"].(object)["annotations"] = object{"inference.networking.k8s.io/active-ports": "8000", "llm-d.ai/active-ports": "8001"}
	})
	h.wait(t, "ports that serve", "127.0.1.1:8000", "127.0.1.1:8001", "127.0.1.2:8001", "127.0.1.4:8000", "127.0.1.5:8001")
	w.Patch(t, w.podPath("one"), object{"metadata": object{"annotations": object{"llm-d.ai/active-ports": "8000,8001"}}})
	h.wait(t, "another port serves", "127.0.1.1:8000", "127.0.1.1:8001", "127.0.1.2:8000", "127.0.1.2:8001", "127.0.1.4:8000", "127.0.1.5:8001")
}

// B093: pods of another namespace with equal labels are another pool's.
func TestB093_namespaces_stay_apart(t *testing.T) {
	a := newWorld(t)
	b := *a
	b.ns = a.Namespace(t, nil)
	for _, w := range []*world{a, &b} {
		w.pool(t, "m", 8000)
	}
	a.pod(t, "p", "m", "127.0.1.1")
	b.pod(t, "p", "m", "127.0.1.2")
	a.collector(t, "--poolName=m", "--poolNamespace="+a.ns)
	ha := a.follow(t, a.ns+"/m")
	ha.wait(t, "one of two", "127.0.1.1:8000")

	c := a.collector(t, "--watchAllPools")
	hb := a.follow(t, b.ns+"/m")
	hb.wait(t, "the other one", "127.0.1.2:8000")
	awaitReady(t, c)
	b.pod(t, "q", "m", "127.0.1.3")
	hb.wait(t, "a new one", "127.0.1.2:8000", "127.0.1.3:8000")
	ha.wait(t, "nothing new", "127.0.1.1:8000")
	if n := metric(t, c, "endpoints", `pool="`+b.ns+`/m"`); n != 2 {
		t.Errorf("the gauge of the pool is %v, want 2", n)
	}
}

// B101: one endpoint per pod, of the family that is asked for.
func TestB101_address_families(t *testing.T) {
	t.Parallel()
	for family, want := range map[string][]string{
		"":     {"127.0.1.1:8000", "127.0.1.2:8000"},
		"ipv4": {"127.0.1.1:8000", "127.0.1.2:8000"},
		"ipv6": {"[::1]:8000"},
	} {
		t.Run("family "+family, func(t *testing.T) {
			w := newWorld(t)
			w.pool(t, "m", 8000)
			w.pod(t, "dual", "m", "127.0.1.1,::1")
			w.pod(t, "four", "m", "127.0.1.2")
			w.collector(t, "--poolName=m", "--poolNamespace="+w.ns, "--set=kubernetes.addressFamily="+family)
			w.follow(t, w.ns+"/m").wait(t, "addresses", want...)
		})
	}
}
