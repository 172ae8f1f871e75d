package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/test/cluster"
	"github.com/pointsman/pointsman/test/kubernetes/apiserver"
)

func TestMain(m *testing.M) {
	code := m.Run()
	apiserver.Stop()
	cluster.Clean()
	os.Exit(code)
}

// namespace is where the manifests put everything.
const namespace = "pointsman"

// control is the API server, with the namespace as the manifests make it.
func control(t *testing.T) *apiserver.Server {
	t.Helper()
	s := apiserver.Get(t)
	s.CRDs(t, filepath.Join("..", "testdata", "crds"))
	for _, file := range []string{"base/namespace.yaml", "components/scaled/priority.yaml"} {
		if out, err := s.Kubectl(t, nil, "apply", "-f", filepath.Join(root, "deploy", "k8s", file)); err != nil {
			t.Fatalf("%s: %v\n%s", file, err, out)
		}
	}
	return s
}

// TestDryRun has every variant checked by an API server: schemas, with no field that it
// does not know, and Pod Security.
func TestDryRun(t *testing.T) {
	t.Parallel()
	s := control(t)
	for _, variant := range variants(t) {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			out, err := s.Kubectl(t, text(t, variant), "apply", "--dry-run=server", "--validate=strict", "-f", "-")
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if strings.Contains(out, "Warning") {
				t.Errorf("the server warns:\n%s", out)
			}
			if n, want := strings.Count(out, "(server dry run)"), len(render(t, variant)); n != want {
				t.Errorf("%d objects were accepted, want %d:\n%s", n, want, out)
			}
			for name, pod := range pods(t, variant) {
				if err := admit(t, s, pod); err != nil {
					t.Errorf("a pod of %s is refused: %v", name, err)
				}
			}
		})
	}
}

// What no overlay lists must pass too.
func TestDryRunOfEnvoyGatewayPolicy(t *testing.T) {
	t.Parallel()
	s := control(t)
	out, err := s.Kubectl(t, nil, "apply", "--dry-run=server", "--validate=strict", "-f", filepath.Join(root, "deploy", "k8s", "components", "gateway", "envoy-gateway.yaml"))
	if err != nil || !strings.Contains(out, "(server dry run)") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPodSecurityIsEnforced shows that the check above can fail.
func TestPodSecurityIsEnforced(t *testing.T) {
	t.Parallel()
	s := control(t)
	err := admit(t, s, map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "x", "image": "x", "securityContext": map[string]any{"privileged": true}}}}})
	if err == nil || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("a privileged pod: %v", err)
	}
}

// pods are the pod templates of a variant as they stand there, by workload.
func pods(t *testing.T, variant string) map[string]map[string]any {
	t.Helper()
	out := make(map[string]map[string]any)
	for _, part := range strings.Split(string(text(t, variant)), "\n---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct{ Template map[string]any }
		}
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(part), &kind); err != nil {
			t.Fatal(err)
		}
		if kind.Kind != "Deployment" && kind.Kind != "StatefulSet" {
			continue
		}
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatal(err)
		}
		out[o.Metadata.Name] = o.Spec.Template
	}
	return out
}

// admit asks whether a pod would be let in.
func admit(t *testing.T, s *apiserver.Server, pod map[string]any) error {
	t.Helper()
	meta, _ := pod["metadata"].(map[string]any)
	if meta == nil {
		meta = make(map[string]any)
	}
	meta["name"] = "dry-run"
	pod["metadata"], pod["apiVersion"], pod["kind"] = meta, "v1", "Pod"
	body, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = s.Do(ctx, http.MethodPost, fmt.Sprintf("/api/v1/namespaces/%s/pods?dryRun=All&fieldValidation=Strict", namespace), "application/json", body)
	return err
}
