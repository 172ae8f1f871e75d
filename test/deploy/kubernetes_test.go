package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// deployment returns a service's only container, and its pod.
func deployment(t *testing.T, objects map[string]manifest, service string) (podSpec, container) {
	t.Helper()
	d, ok := objects["Deployment/"+service]
	if !ok || len(d.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%s has no Deployment with one container", service)
	}
	return d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
}

func TestManifests(t *testing.T) {
	objects := base(t)
	for _, service := range append(services(t), "nats") {
		t.Run(service, func(t *testing.T) {
			pod, c := deployment(t, objects, service)
			checkSecurity(t, pod, c)
			checkPorts(t, objects, service, c)
			checkVolumes(t, objects, pod, c)
			if service == "nats" {
				return
			}
			if c.Image != "pointsman/"+service+":latest" {
				t.Errorf("image %s: make images gives it another name", c.Image)
			}
			_, _, final := dockerfile(t, service)
			var ports []string
			for _, p := range c.Ports {
				ports = append(ports, fmt.Sprint(p.ContainerPort))
			}
			exposed := strings.Fields(strings.Join(final.all("EXPOSE"), " "))
			slices.Sort(ports)
			slices.Sort(exposed)
			if !slices.Equal(ports, exposed) {
				t.Errorf("ports %v, the image exposes %v", ports, exposed)
			}
		})
	}
}

func checkSecurity(t *testing.T, pod podSpec, c container) {
	t.Helper()
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("the pod has a token of the API server")
	}
	if s := pod.SecurityContext; !s.RunAsNonRoot || s.RunAsUser == 0 || s.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("security context of the pod %+v", s)
	}
	s := c.Security
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities["drop"], []string{"ALL"}) || len(s.Capabilities) != 1 {
		t.Errorf("security context of the container %+v", s)
	}
	if c.Resources["requests"]["cpu"] == "" || c.Resources["requests"]["memory"] == "" || c.Resources["limits"]["memory"] == "" {
		t.Errorf("resources %v", c.Resources)
	}
}

// checkPorts follows a Service to its pods, and probes and the Service to ports.
func checkPorts(t *testing.T, objects map[string]manifest, service string, c container) {
	t.Helper()
	var ports []string
	for _, p := range c.Ports {
		ports = append(ports, p.Name)
	}
	for name, p := range map[string]probe{"readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		if p.HTTPGet.Path == "" || !slices.Contains(ports, p.HTTPGet.Port) {
			t.Errorf("%s probe %+v; ports are %v", name, p, ports)
		}
	}
	d, s := objects["Deployment/"+service], objects["Service/"+service]
	labels := d.Spec.Template.Metadata.Labels
	var matched struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	var selected map[string]string
	for what, err := range map[string]error{"Deployment": d.Spec.Selector.Decode(&matched), "Service": s.Spec.Selector.Decode(&selected)} {
		if err != nil {
			t.Errorf("selector of the %s: %v", what, err)
		}
	}
	for what, selector := range map[string]map[string]string{"Deployment": matched.MatchLabels, "Service": selected} {
		within := maps.Clone(labels)
		maps.Copy(within, selector)
		if len(selector) == 0 || !maps.Equal(within, labels) {
			t.Errorf("the %s selects %v, its pods have %v", what, selector, labels)
		}
	}
	for _, p := range s.Spec.Ports {
		if !slices.Contains(ports, p.TargetPort) {
			t.Errorf("port %s of the Service goes to %s; there are %v", p.Name, p.TargetPort, ports)
		}
	}
	if len(s.Spec.Ports) == 0 {
		t.Error("no Service, or one without ports")
	}
}

func checkVolumes(t *testing.T, objects map[string]manifest, pod podSpec, c container) {
	t.Helper()
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v volume) bool { return v.Name == m.Name })
		if i < 0 {
			t.Errorf("no volume is called %s", m.Name)
		} else if _, ok := objects["ConfigMap/"+pod.Volumes[i].ConfigMap.Name]; !ok {
			t.Errorf("volume %s is of a ConfigMap that is not there", m.Name)
		}
	}
}
