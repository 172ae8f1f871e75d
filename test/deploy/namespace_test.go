package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/test/kubernetes/apiserver"
)

// In another namespace, by the recipe of deploy/k8s/README.md, nothing speaks of the one
// that the manifests are written for. The binding of the collector's role once did, so it
// had no rights anywhere else.
func TestAnotherNamespace(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs(filepath.Join(root, "deploy", "k8s"))
	if err != nil {
		t.Fatal(err)
	}
	at, err := filepath.Rel(dir, top)
	if err != nil {
		t.Fatal(err)
	}
	for name, more := range map[string]string{
		"base":      "",
		"all pools": "components: [" + at + "/components/all-pools]\npatches: [{target: {kind: ConfigMap, name: pointsman}, patch: '- {op: replace, path: /data/pool, value: inference/vllm}'}]\n",
		"the rest":  "components: [" + at + "/components/scaled, " + at + "/components/mtls, " + at + "/components/gateway, " + at + "/components/monitoring]\n",
		"sidecars":  "components: [" + at + "/components/sidecar]\n",
		"apart":     "components: [" + at + "/components/disaggregation, " + at + "/components/mtls, " + at + "/components/disaggregation/mtls]\n",
		"static":    "components: [" + at + "/components/static]\n",
	} {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: inference\nresources: [" + at + "/base]\n" + more
			if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			made := string(apiserver.Kustomize(t, dir))
			if !strings.Contains(made, "kind: Namespace\n") || !strings.Contains(made, "\n  name: inference\n") {
				t.Error("the namespace is not made")
			}
			for _, old := range []string{"namespace: pointsman\n", `namespace="pointsman"`, "pointsman/vllm", "namespace: \"pointsman\""} {
				if i := strings.Index(made, old); i >= 0 {
					t.Errorf("%q is left:\n%s", old, made[max(0, i-300):i+len(old)])
				}
			}
			if strings.Contains(made, "\nsubjects:\n") && !strings.Contains(made, "  name: metrics-collector\n  namespace: inference\n") {
				t.Error("the collector's role is bound to nobody of this namespace")
			}
		})
	}
}
