package kubernetes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// Nobody who may make pods or objects in a namespace can take the pool from the others.
func TestPodsAndObjectsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool(t, "m", 8000, 8001)
	c := w.collector(t, "--poolName=m", "--poolNamespace="+w.ns)
	h := w.follow(t, w.ns+"/m")
	w.pod(t, "good", "m", "127.0.1.1")
	good := []string{"127.0.1.1:8000", "127.0.1.1:8001"}
	h.wait(t, "a good one", good...)

	// One with labels by the hundred, one without an address, one with nonsense for ports.
	w.pod(t, "labels", "m", "127.0.1.2", func(p object) {
		labels := object{"app": "m"}
		for i := range 1000 {
			labels[fmt.Sprintf("example.com/%s%d", strings.Repeat("x", 40), i)] = strings.Repeat("y", 63)
		}
		p["metadata"].(object)["labels"] = labels
	})
	w.pod(t, "nowhere", "m", "")
	w.Patch(t, w.podPath("nowhere")+"/status", object{"status": object{"phase": "Running", "conditions": []object{{"type": "Ready", "status": "True"}}}})
	w.pod(t, "ports", "m", "127.0.1.3", annotated("llm-d.ai/active-ports", strings.Repeat("8001,;x,99999,-1,", 2000)))
	h.wait(t, "what can be used of them", append(good, "127.0.1.2:8000", "127.0.1.2:8001", "127.0.1.3:8001")...)
	for _, e := range h.Snapshot().Table.Endpoints {
		if app, _ := e.Label("app"); app != "m" || len(e.Labels) > 200 {
			t.Errorf("%s has app=%q and %d labels", e.ID, app, len(e.Labels))
		}
	}
	if n := strings.Count(c.Log(), "more labels than are told"); n != 1 {
		t.Errorf("the labels are told %d times:\n%s", n, c.Log())
	}
	// Two pods at one address, as when one has not quite gone: both are told, each for itself.
	w.pod(t, "twin", "m", "127.0.1.1")
	h.wait(t, "twins", append(good, append(good, "127.0.1.2:8000", "127.0.1.2:8001", "127.0.1.3:8001")...)...)
	w.Delete(t, w.podPath("twin"))
	h.wait(t, "one of the twins", append(good, "127.0.1.2:8000", "127.0.1.2:8001", "127.0.1.3:8001")...)

	// An object that was good and is no longer does not stay what it was.
	w.refer(t, "inferencemodelrewrites", "InferenceModelRewrite", "r", "m", object{"rules": []object{{"targets": []object{{"modelRewrite": "a"}}}}})
	h.says(t, "a rewrite", &statev1.PoolPolicy{Rewrites: []*statev1.ModelRewrite{{Name: "r", Rules: []*statev1.RewriteRule{{Targets: []*statev1.ModelTarget{{Model: "a"}}}}}}})
	w.Patch(t, w.objectPath("inferencemodelrewrites", "r"), object{"spec": object{"rules": []object{{"matches": []object{{"model": object{"type": "Prefix", "value": "x"}}}, "targets": []object{{"modelRewrite": "a"}}}}}})
	h.says(t, "none", &statev1.PoolPolicy{})
}

// A pool that is deleted and made again, with another selector and other ports, again and
// again and while the collector looks: in the end it is the last one.
func TestPoolIsDeletedAndMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pod(t, "a", "a", "127.0.1.1")
	w.pod(t, "b", "b", "127.0.1.2")
	selecting := func(app string, port int) object {
		return object{"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": object{"name": "m"},
			"spec": object{"selector": object{"matchLabels": object{"app": app}}, "targetPorts": numbers(port)}}
	}
	pools := fmt.Sprintf(poolsOf, w.ns)
	w.Create(t, pools, selecting("a", 8000))
	c := w.collector(t, "--poolName=m", "--poolNamespace="+w.ns)
	h := w.follow(t, w.ns+"/m")
	h.wait(t, "the first", "127.0.1.1:8000")
	for i := range 10 {
		w.Delete(t, w.poolPath("m"))
		if i%3 == 0 {
			time.Sleep(30 * time.Millisecond)
		}
		w.Create(t, pools, selecting([]string{"a", "b"}[i%2], 8001+i))
	}
	h.wait(t, "the last", "127.0.1.2:8010")
	awaitReady(t, c)
	if n := metric(t, c, "owned_endpoints", ""); n != 1 {
		t.Errorf("%v endpoints are scraped", n)
	}
}

// An API server that takes its time is waited for, and what it says counts.
func TestSlowAPIServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wire := newProxy(t, w.URL)
	wire.delay.Store(int64(300 * time.Millisecond))
	w.pool(t, "m", 8000)
	w.pods(t, "m", 0, 20)
	c := w.collector(t, "--poolName=m", "--poolNamespace="+w.ns, "--kubeconfig="+w.Kubeconfig(t, wire.url(), w.AdminToken()))
	h := w.follow(t, w.ns+"/m")
	w.converge(t, h, "m", 8000)
	w.Delete(t, w.podPath("m-3"))
	w.converge(t, h, "m", 8000)
	awaitReady(t, c)
	if n := metric(t, c, "kubernetes_errors_total", ""); n != 0 {
		t.Errorf("%v errors:\n%s", n, c.Log())
	}
	kittest.Eventually(t, "it is followed", func() bool { return metric(t, c, "kubernetes_following", `resource="pods"`) == 1 })
}
