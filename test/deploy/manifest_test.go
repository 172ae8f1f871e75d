package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

// manifest is any object in the files of deploy/k8s: of Kubernetes' fields it knows
// those that are used there, so that a slip of the pen in a name shows.
type manifest struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       struct {
		// Deployments
		Replicas int       `yaml:"replicas"`
		Selector yaml.Node `yaml:"selector"` // of another form in Services
		Template struct {
			Metadata metadata `yaml:"metadata"`
			Spec     podSpec  `yaml:"spec"`
		} `yaml:"template"`
		// Services
		ClusterIP string `yaml:"clusterIP"`
		Ports     []struct {
			Name       string `yaml:"name"`
			Port       int    `yaml:"port"`
			TargetPort string `yaml:"targetPort"`
		} `yaml:"ports"`
	} `yaml:"spec"`
	Data      map[string]string `yaml:"data"`      // ConfigMaps
	Resources []string          `yaml:"resources"` // Kustomizations
}

type metadata struct {
	Name        string            `yaml:"name"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type podSpec struct {
	AutomountServiceAccountToken  *bool       `yaml:"automountServiceAccountToken"`
	TerminationGracePeriodSeconds int         `yaml:"terminationGracePeriodSeconds"`
	SecurityContext               podSecurity `yaml:"securityContext"`
	Containers                    []container `yaml:"containers"`
	Volumes                       []volume    `yaml:"volumes"`
}

type podSecurity struct {
	RunAsNonRoot   bool `yaml:"runAsNonRoot"`
	RunAsUser      int  `yaml:"runAsUser"`
	SeccompProfile struct {
		Type string `yaml:"type"`
	} `yaml:"seccompProfile"`
}

type volume struct {
	Name      string `yaml:"name"`
	ConfigMap struct {
		Name string `yaml:"name"`
	} `yaml:"configMap"`
}

type container struct {
	Name           string                       `yaml:"name"`
	Image          string                       `yaml:"image"`
	Args           []string                     `yaml:"args"`
	Ports          []containerPort              `yaml:"ports"`
	ReadinessProbe probe                        `yaml:"readinessProbe"`
	LivenessProbe  probe                        `yaml:"livenessProbe"`
	Resources      map[string]map[string]string `yaml:"resources"`
	Security       struct {
		AllowPrivilegeEscalation *bool               `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool                `yaml:"readOnlyRootFilesystem"`
		Capabilities             map[string][]string `yaml:"capabilities"`
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
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
	PeriodSeconds    int `yaml:"periodSeconds"`
	FailureThreshold int `yaml:"failureThreshold"`
}

// readManifests reads all objects of a file.
func readManifests(name string) ([]manifest, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var all []manifest
	for {
		var m manifest
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, m)
	}
}

// base is what deploy/k8s/base applies, by kind and name.
func base(t *testing.T) map[string]manifest {
	t.Helper()
	dir := filepath.Join(root, "deploy", "k8s", "base")
	list, err := readManifests(filepath.Join(dir, "kustomization.yaml"))
	if err != nil || len(list) != 1 || list[0].Kind != "Kustomization" {
		t.Fatalf("kustomization.yaml: %d objects, %v", len(list), err)
	}
	objects := make(map[string]manifest)
	for _, file := range list[0].Resources {
		some, err := readManifests(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range some {
			key := m.Kind + "/" + m.Metadata.Name
			if _, twice := objects[key]; twice || m.APIVersion == "" || m.Metadata.Name == "" {
				t.Errorf("%s: %s is there twice, or lacks its apiVersion or name", file, key)
			}
			objects[key] = m
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) != len(list[0].Resources)+1 {
		t.Errorf("%d files, %v; kustomization.yaml lists %q", len(files), err, list[0].Resources)
	}
	return objects
}
