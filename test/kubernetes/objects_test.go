package kubernetes

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// refer makes an object of the first generation's group that refers to a pool.
func (w *world) refer(t testing.TB, resource, kind, name, pool string, spec object) {
	t.Helper()
	spec["poolRef"] = object{"name": pool}
	w.Create(t, fmt.Sprintf(olderOf, w.ns)+resource, object{
		"apiVersion": "inference.networking.x-k8s.io/v1alpha2", "kind": kind, "metadata": object{"name": name}, "spec": spec,
	})
}

func (w *world) objectPath(resource, name string) string {
	return fmt.Sprintf(olderOf, w.ns) + resource + "/" + name
}

// says waits until the holder has been told exactly this of requests.
func (h *holder) says(t testing.TB, why string, want *statev1.PoolPolicy) {
	t.Helper()
	diff := ""
	defer func() {
		if t.Failed() {
			t.Logf("%s (-want +got):\n%s", why, diff)
		}
	}()
	kittest.Eventually(t, why, func() bool {
		diff = cmp.Diff(want, h.policy.Load(), protocmp.Transform(), protocmp.IgnoreFields(&statev1.PoolPolicy{}, "stamp", "digest", "change_time"))
		return diff == ""
	})
}

func weight(n uint32) *uint32 { return &n }

func TestWhatIsSaidOfRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool(t, "m", 1)
	w.refer(t, "inferenceobjectives", "InferenceObjective", "urgent", "m", object{"priority": 10})
	w.refer(t, "inferenceobjectives", "InferenceObjective", "other", "x", object{"priority": 5})
	w.collector(t, "--poolName=m", "--poolNamespace="+w.ns)
	h := w.follow(t, w.ns+"/m")
	want := &statev1.PoolPolicy{Objectives: []*statev1.Objective{{Name: "urgent", Priority: 10}}}
	h.says(t, "what there was", want)

	w.refer(t, "inferenceobjectives", "InferenceObjective", "plain", "m", object{})
	w.Patch(t, w.objectPath("inferenceobjectives", "urgent"), object{"spec": object{"priority": -1}})
	kittest.Eventually(t, "objectives are told", func() bool { return len(h.policy.Load().GetObjectives()) == 2 })
	w.Delete(t, w.objectPath("inferenceobjectives", "plain"))
	want.Objectives = []*statev1.Objective{{Name: "urgent", Priority: -1}}
	h.says(t, "one is gone", want)

	// Of two for one model the older counts, and the next when it goes. Creation is
	// told in whole seconds.
	w.refer(t, "inferencemodels", "InferenceModel", "z-older", "m", object{"modelName": "base", "criticality": "Critical", "targetModels": []object{{"name": "base-v1", "weight": 90}, {"name": "base-v2", "weight": 10}}})
	time.Sleep(1100 * time.Millisecond)
	w.refer(t, "inferencemodels", "InferenceModel", "a-younger", "m", object{"modelName": "base", "criticality": "Sheddable"})
	w.refer(t, "inferencemodelrewrites", "InferenceModelRewrite", "canary", "m", object{"rules": []object{
		{"matches": []object{{"model": object{"type": "Exact", "value": "old"}}}, "targets": []object{{"modelRewrite": "new", "weight": 1}, {"modelRewrite": "newer", "weight": 0}}},
		{"targets": []object{{"modelRewrite": "any"}}},
	}})
	w.refer(t, "inferencemodelrewrites", "InferenceModelRewrite", "regular", "m", object{"rules": []object{
		{"matches": []object{{"model": object{"type": "RegularExpression", "value": ".*"}}}, "targets": []object{{"modelRewrite": "all"}}},
	}})
	want.Rewrites = []*statev1.ModelRewrite{{Name: "canary", Rules: []*statev1.RewriteRule{
		{Models: []string{"old"}, Targets: []*statev1.ModelTarget{{Model: "new", Weight: weight(1)}, {Model: "newer", Weight: weight(0)}}},
		{Targets: []*statev1.ModelTarget{{Model: "any"}}},
	}}}
	want.Models = []*statev1.ServedModel{{
		Model: "base", Criticality: statev1.Criticality_CRITICALITY_CRITICAL,
		Targets: []*statev1.ModelTarget{{Model: "base-v1", Weight: weight(90)}, {Model: "base-v2", Weight: weight(10)}},
	}}
	h.says(t, "models and rewrites, without what cannot be matched", want)
	w.Delete(t, w.objectPath("inferencemodels", "z-older"))
	want.Models = []*statev1.ServedModel{{Model: "base", Criticality: statev1.Criticality_CRITICALITY_SHEDDABLE}}
	h.says(t, "the younger takes its place", want)
}

func TestPoolsOfTheFirstGeneration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	older := fmt.Sprintf(olderOf, w.ns) + "inferencepools"
	w.Create(t, older, object{
		"apiVersion": "inference.networking.x-k8s.io/v1alpha2", "kind": "InferencePool", "metadata": object{"name": "m"},
		"spec": object{"selector": object{"app": "m"}, "targetPortNumber": 8000, "extensionRef": object{"name": "router"}},
	})
	c := w.collector(t, "--pool-name=m", "--pool-namespace="+w.ns)
	h := w.follow(t, w.ns+"/m")
	w.pod(t, "a", "m", "127.0.1.1")
	w.pod(t, "b", "n", "127.0.1.2")
	h.wait(t, "its pod", "127.0.1.1:8000")

	// The port of a pool was once memorised at its first use (B108).
	w.Patch(t, older+"/m", object{"spec": object{"targetPortNumber": 8080}})
	h.wait(t, "another port", "127.0.1.1:8080")
	w.Patch(t, older+"/m", object{"spec": object{"selector": object{"app": "n"}}})
	h.wait(t, "another selector", "127.0.1.2:8080")

	// The second generation goes before, while it is there.
	w.pool(t, "m", 9000)
	h.wait(t, "the newer", "127.0.1.1:9000")
	w.Delete(t, w.poolPath("m"))
	h.wait(t, "the older again", "127.0.1.2:8080")
	w.Delete(t, older+"/m")
	h.wait(t, "none")
	kittest.Eventually(t, "it is not ready without a pool", func() bool { ok, _ := ready(t, c); return !ok })
}

func TestAllPools(t *testing.T) {
	w := newWorld(t)
	c := w.collector(t, "--watchAllPools")
	awaitReady(t, c)
	if n := metric(t, c, "endpoints", `pool="`+w.ns); n != 0 {
		t.Errorf("%v endpoints in a namespace without pools", n)
	}
	w.pool(t, "a", 1)
	w.pool(t, "b", 2)
	w.pod(t, "a", "a", "127.0.1.1")
	w.pod(t, "b", "b", "127.0.1.2")
	a, b := w.follow(t, w.ns+"/a"), w.follow(t, w.ns+"/b")
	a.wait(t, "a's", "127.0.1.1:1")
	b.wait(t, "b's", "127.0.1.2:2")
	w.refer(t, "inferenceobjectives", "InferenceObjective", "o", "b", object{"priority": 1})
	b.says(t, "b's objective", &statev1.PoolPolicy{Objectives: []*statev1.Objective{{Name: "o", Priority: 1}}})
	a.says(t, "none of a", &statev1.PoolPolicy{})

	// B099: an empty pool is that pool's business.
	w.Delete(t, w.podPath("b"))
	b.wait(t, "b is empty")
	a.wait(t, "a is not", "127.0.1.1:1")

	// One that is deleted is told to be empty, and can return.
	w.Delete(t, w.poolPath("a"))
	a.wait(t, "a is gone")
	w.pool(t, "a", 3)
	a.wait(t, "a is back", "127.0.1.1:3")
	if ok, why := ready(t, c); !ok {
		t.Errorf("not ready: %s", why)
	}
}
