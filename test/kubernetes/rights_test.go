package kubernetes

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/test/kubernetes/apiserver"
)

// rights applies the account, roles and bindings of a variant of the manifests in place
// of the world's namespace, but for those of the kinds left out. Cluster-wide names get
// the namespace's.
func (w *world) rights(t testing.TB, variant string, without ...string) {
	t.Helper()
	all := string(apiserver.Kustomize(t, filepath.Join("..", "..", "deploy", "k8s", variant)))
	var parts []string
	for part := range strings.SplitSeq(all, "\n---\n") {
		for _, kind := range []string{"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
			if strings.Contains("\n"+part, "\nkind: "+kind+"\n") && !strings.Contains(strings.Join(without, " "), kind) {
				parts = append(parts, part)
			}
		}
	}
	text := strings.NewReplacer("namespace: pointsman", "namespace: "+w.ns, "name: pointsman-metrics-collector", "name: "+w.ns+"-metrics-collector").Replace(strings.Join(parts, "\n---\n"))
	if out, err := w.Kubectl(t, []byte(text), "apply", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func (w *world) account(t testing.TB) string {
	t.Helper()
	return "--kubeconfig=" + w.Kubeconfig(t, w.URL, w.Token(t, w.ns, "metrics-collector"))
}

// B094: neither rights nor a pool: it stays up, says once what is missing, and goes on
// by itself when that has come. The rights are those of the manifests.
func TestB094_rights_and_pool_come_later(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rights(t, "base", "Role")
	c := w.collector(t, "--poolName=m", "--poolNamespace="+w.ns, w.account(t))
	kittest.Eventually(t, "it is not ready and says why", func() bool {
		ok, why := ready(t, c)
		return !ok && strings.Contains(why, "forbidden")
	})
	kittest.Eventually(t, "it has tried again", func() bool { return metric(t, c, "kubernetes_errors_total", `reason="forbidden"`) > 15 })
	if n := metric(t, c, "kubernetes_following", ""); n != 0 {
		t.Errorf("%v resources are followed without rights", n)
	}
	kittest.Eventually(t, "missing rights are told of each resource", func() bool { return strings.Count(c.Log(), "cannot be followed") >= 5 })
	if n := strings.Count(c.Log(), "cannot be followed"); n != 5 {
		t.Errorf("missing rights are told %d times, want once for each of 5 resources:\n%s", n, c.Log())
	}

	w.rights(t, "base")
	kittest.Eventually(t, "it waits for the pool", func() bool {
		ok, why := ready(t, c)
		return !ok && strings.Contains(why, "InferencePool "+w.ns+"/m does not exist")
	})
	h := w.follow(t, w.ns+"/m")
	w.pool(t, "m", 8000)
	w.pod(t, "a", "m", "127.0.1.1")
	h.wait(t, "its pod", "127.0.1.1:8000")
	awaitReady(t, c)
	w.refer(t, "inferencemodels", "InferenceModel", "x", "m", object{"modelName": "x"})
	kittest.Eventually(t, "what refers to it", func() bool { return len(h.policy.Load().GetModels()) == 1 })

	// Taken away again, what is known stays.
	w.Delete(t, fmt.Sprintf("/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings/metrics-collector", w.ns))
	c2 := w.collector(t, "--poolName=m", "--poolNamespace="+w.ns, w.account(t))
	kittest.Eventually(t, "one that starts now is not ready", func() bool {
		ok, why := ready(t, c2)
		return !ok && strings.Contains(why, "forbidden")
	})
	h.wait(t, "the roster stays", "127.0.1.1:8000")
}

// The cluster-wide role is enough for pools of all namespaces.
func TestRightsOfAllPools(t *testing.T) {
	w := newWorld(t)
	other := *w
	other.ns = w.Namespace(t, nil)
	w.rights(t, "overlays/all-pools")
	c := w.collector(t, "--watchAllPools", w.account(t))
	other.pool(t, "m", 8000)
	other.pod(t, "a", "m", "127.0.1.1")
	w.follow(t, other.ns+"/m").wait(t, "a pod of another namespace", "127.0.1.1:8000")
	awaitReady(t, c)
	// The API server may take a moment to hear of the rights; then nothing is missing.
	for _, resource := range []string{"inferencepools.inference.networking.k8s.io", "inferencepools.inference.networking.x-k8s.io", "inferenceobjectives", "inferencemodelrewrites", "inferencemodels"} {
		kittest.Eventually(t, resource+" is followed", func() bool { return metric(t, c, "kubernetes_following", `resource="`+resource) == 1 })
	}
	kittest.Eventually(t, "pods are followed", func() bool {
		return metric(t, c, "kubernetes_following", `pool="`+other.ns+`/m",resource="pods"`) == 1
	})
}
