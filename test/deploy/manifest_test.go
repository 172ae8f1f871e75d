package deploy

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/test/kubernetes/apiserver"
)

// manifest is an object of deploy/k8s, as far as tests look at it. That it has no
// fields that Kubernetes does not know is the API server's to say: see TestDryRun.
type manifest struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       struct {
		// Deployments and StatefulSets
		Replicas *int `yaml:"replicas"`
		Template struct {
			Metadata metadata `yaml:"metadata"`
			Spec     podSpec  `yaml:"spec"`
		} `yaml:"template"`
		// Services
		Selector yaml.Node `yaml:"selector"` // of another form elsewhere
		Ports    []struct {
			Name       string `yaml:"name"`
			Port       int    `yaml:"port"`
			TargetPort string `yaml:"targetPort"`
		} `yaml:"ports"`
		// NetworkPolicies
		PodSelector selector   `yaml:"podSelector"`
		PolicyTypes []string   `yaml:"policyTypes"`
		Ingress     []traffic  `yaml:"ingress"`
		Egress      []traffic  `yaml:"egress"`
		Scale       objectName `yaml:"scaleTargetRef"` // HorizontalPodAutoscalers
		// Certificates
		SecretName string   `yaml:"secretName"`
		DNSNames   []string `yaml:"dnsNames"`
		URIs       []string `yaml:"uris"`
		IsCA       bool     `yaml:"isCA"`
		// PrometheusRules
		Groups []struct {
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	} `yaml:"spec"`
	Data  map[string]string `yaml:"data"` // ConfigMaps
	Rules []struct {        // Roles
		APIGroups []string `yaml:"apiGroups"`
		Resources []string `yaml:"resources"`
		Verbs     []string `yaml:"verbs"`
	} `yaml:"rules"`
}

type objectName struct {
	Kind string `yaml:"kind"`
	Name string `yaml:"name"`
}

type selector struct {
	MatchLabels      map[string]string `yaml:"matchLabels"`
	MatchExpressions []struct {
		Key      string   `yaml:"key"`
		Operator string   `yaml:"operator"`
		Values   []string `yaml:"values"`
	} `yaml:"matchExpressions"`
}

type traffic struct {
	From  []peer `yaml:"from"`
	To    []peer `yaml:"to"`
	Ports []struct {
		Protocol string `yaml:"protocol"`
		Port     int    `yaml:"port"`
	} `yaml:"ports"`
}

type peer struct {
	PodSelector       *selector `yaml:"podSelector"`
	NamespaceSelector *selector `yaml:"namespaceSelector"`
}

type metadata struct {
	Name        string            `yaml:"name"`
	Namespace   string            `yaml:"namespace"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type podSpec struct {
	AutomountServiceAccountToken  *bool       `yaml:"automountServiceAccountToken"`
	ServiceAccountName            string      `yaml:"serviceAccountName"`
	PriorityClassName             string      `yaml:"priorityClassName"`
	TerminationGracePeriodSeconds int         `yaml:"terminationGracePeriodSeconds"`
	Containers                    []container `yaml:"containers"`
	InitContainers                []container `yaml:"initContainers"`
	Volumes                       []volume    `yaml:"volumes"`
	TopologySpread                []struct {
		TopologyKey string `yaml:"topologyKey"`
	} `yaml:"topologySpreadConstraints"`
}

type volume struct {
	Name      string                `yaml:"name"`
	ConfigMap struct{ Name string } `yaml:"configMap"`
	Secret    struct {
		SecretName string `yaml:"secretName"`
	} `yaml:"secret"`
	EmptyDir *struct{ Medium string } `yaml:"emptyDir"`
}

type container struct {
	Name          string   `yaml:"name"`
	Image         string   `yaml:"image"`
	RestartPolicy string   `yaml:"restartPolicy"`
	Args          []string `yaml:"args"`
	Env           []struct {
		Name      string `yaml:"name"`
		Value     string `yaml:"value"`
		ValueFrom struct {
			ConfigMapKeyRef struct{ Name, Key string } `yaml:"configMapKeyRef"`
		} `yaml:"valueFrom"`
	} `yaml:"env"`
	Ports          []containerPort              `yaml:"ports"`
	ReadinessProbe probe                        `yaml:"readinessProbe"`
	LivenessProbe  probe                        `yaml:"livenessProbe"`
	Resources      map[string]map[string]string `yaml:"resources"`
	VolumeMounts   []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type containerPort struct {
	Name          string `yaml:"name"`
	ContainerPort int    `yaml:"containerPort"`
}

type probe struct {
	HTTPGet struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
	TCPSocket struct {
		Port string `yaml:"port"`
	} `yaml:"tcpSocket"`
}

func (p probe) port() string { return p.HTTPGet.Port + p.TCPSocket.Port }

// objects are what one directory applies, by kind and name.
type objects map[string]manifest

// name of a directory below deploy/k8s that is applied as a whole.
const base = "base"

// variants lists the base and every overlay.
func variants(t testing.TB) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "deploy", "k8s", "overlays", "*", "kustomization.yaml"))
	if err != nil || len(found) < 8 {
		t.Fatalf("%d overlays, %v", len(found), err)
	}
	all := []string{base}
	for _, f := range found {
		all = append(all, "overlays/"+filepath.Base(filepath.Dir(f)))
	}
	return all
}

var texts sync.Map // variant → what kubectl made of it

// text is what kubectl makes of a variant.
func text(t testing.TB, variant string) []byte {
	t.Helper()
	if made, ok := texts.Load(variant); ok {
		return made.([]byte)
	}
	made := apiserver.Kustomize(t, filepath.Join(root, "deploy", "k8s", variant))
	texts.Store(variant, made)
	return made
}

// render returns the objects of a variant.
func render(t testing.TB, variant string) objects {
	t.Helper()
	all := make(objects)
	for d := yaml.NewDecoder(bytes.NewReader(text(t, variant))); ; {
		var m manifest
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatalf("%s: %v", variant, err)
		}
		key := m.Kind + "/" + m.Metadata.Name
		if _, twice := all[key]; twice || m.APIVersion == "" || m.Metadata.Name == "" {
			t.Errorf("%s: %s is there twice, or lacks its apiVersion or name", variant, key)
		}
		all[key] = m
	}
}

// workload is something that makes pods.
type workload struct {
	manifest
	key string
}

// workloads are the Deployments and StatefulSets, by name.
func (o objects) workloads() map[string]workload {
	out := make(map[string]workload)
	for key, m := range o {
		if m.Kind == "Deployment" || m.Kind == "StatefulSet" {
			out[m.Metadata.Name] = workload{m, key}
		}
	}
	return out
}

// container finds the container of a service, wherever it is.
func (o objects) container(service string) (podSpec, container, bool) {
	for _, w := range o.workloads() {
		pod := w.Spec.Template.Spec
		for _, c := range append(append([]container{}, pod.Containers...), pod.InitContainers...) {
			if c.Name == service {
				return pod, c, true
			}
		}
	}
	return podSpec{}, container{}, false
}

// expand replaces $(NAME) in a container's arguments as the kubelet does.
func (o objects) expand(t testing.TB, c container) []string {
	t.Helper()
	var pairs []string
	for _, e := range c.Env {
		value := e.Value
		if ref := e.ValueFrom.ConfigMapKeyRef; ref.Name != "" {
			v, ok := o["ConfigMap/"+ref.Name].Data[ref.Key]
			if !ok {
				t.Errorf("%s: the variable %s is key %s of the ConfigMap %s, which is not there", c.Name, e.Name, ref.Key, ref.Name)
			}
			value = v
		}
		if value != "" {
			pairs = append(pairs, "$("+e.Name+")", value)
		}
	}
	r := strings.NewReplacer(pairs...)
	out := make([]string, 0, len(c.Args))
	for _, a := range c.Args {
		out = append(out, r.Replace(a))
	}
	return out
}
