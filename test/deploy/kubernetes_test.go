package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestManifests(t *testing.T) {
	for _, variant := range variants(t) {
		t.Run(variant, func(t *testing.T) {
			o := render(t, variant)
			for _, service := range deployed(t) {
				pod, c, ok := o.container(service)
				if !ok {
					t.Errorf("nothing runs %s", service)
					continue
				}
				checkService(t, service, c)
				checkToken(t, service, pod)
			}
			for name, w := range o.workloads() {
				pod := w.Spec.Template.Spec
				for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
					checkContainer(t, o, pod, c)
				}
				checkSelectors(t, o, name, w)
			}
		})
	}
}

// checkService compares a container with its image.
func checkService(t *testing.T, service string, c container) {
	t.Helper()
	if c.Image != "pointsman/"+service+":latest" {
		t.Errorf("%s: image %s: make images gives it another name", service, c.Image)
	}
	_, _, final := dockerfile(t, service)
	var ports []string
	for _, p := range c.Ports {
		ports = append(ports, fmt.Sprint(p.ContainerPort))
	}
	exposed := strings.Fields(strings.Join(final.all("EXPOSE"), " "))
	slices.Sort(ports)
	slices.Sort(exposed)
	if !slices.Equal(ports, exposed) && c.RestartPolicy == "" { // sidecars have other ports
		t.Errorf("%s: ports %v, the image exposes %v", service, ports, exposed)
	}
}

// checkToken allows the API server to the collector alone.
func checkToken(t *testing.T, service string, pod podSpec) {
	t.Helper()
	none := pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken
	if service == "metrics-collector" && pod.ServiceAccountName == service && !none {
		return
	}
	if !none || pod.ServiceAccountName != "" {
		t.Errorf("%s: the pod has a token of the API server", service)
	}
}

func checkContainer(t *testing.T, o objects, pod podSpec, c container) {
	t.Helper()
	if c.Resources["requests"]["cpu"] == "" || c.Resources["requests"]["memory"] == "" || c.Resources["limits"]["memory"] == "" {
		t.Errorf("%s: resources %v", c.Name, c.Resources)
	}
	var ports []string
	for _, p := range c.Ports {
		ports = append(ports, p.Name)
	}
	if !slices.Contains(ports, c.LivenessProbe.port()) || !slices.Contains(ports, c.ReadinessProbe.port()) && c.RestartPolicy == "" {
		t.Errorf("%s: probes %+v and %+v; ports are %v", c.Name, c.LivenessProbe, c.ReadinessProbe, ports)
	}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v volume) bool { return v.Name == m.Name })
		if i < 0 {
			t.Errorf("%s: no volume is called %s", c.Name, m.Name)
			continue
		}
		v := pod.Volumes[i]
		_, settings := o["ConfigMap/"+v.ConfigMap.Name]
		secret := slices.ContainsFunc(slices.Collect(maps.Values(o)), func(m manifest) bool { return m.Kind == "Certificate" && m.Spec.SecretName == v.Secret.SecretName })
		if v.EmptyDir == nil && !settings && !secret {
			t.Errorf("%s: volume %s is of something that is not there", c.Name, m.Name)
		}
	}
	o.expand(t, c)
}

// checkSelectors follows Services, budgets and policies to pods.
func checkSelectors(t *testing.T, o objects, name string, w workload) {
	t.Helper()
	labels := w.Spec.Template.Metadata.Labels
	var matched selector
	if err := w.Spec.Selector.Decode(&matched); err != nil || !covers(labels, matched.MatchLabels) {
		t.Errorf("%s selects %v, its pods have %v (%v)", w.key, matched.MatchLabels, labels, err)
	}
	s, ok := o["Service/"+name]
	var selected map[string]string
	if err := s.Spec.Selector.Decode(&selected); !ok || err != nil || !covers(labels, selected) || len(s.Spec.Ports) == 0 {
		t.Errorf("the Service %s selects %v, its pods have %v (%v)", name, selected, labels, err)
	}
	var ports []string
	for _, c := range w.Spec.Template.Spec.Containers {
		for _, p := range c.Ports {
			ports = append(ports, p.Name)
		}
	}
	for _, p := range s.Spec.Ports {
		if !slices.Contains(ports, p.TargetPort) {
			t.Errorf("port %s of the Service %s goes to %s; there are %v", p.Name, name, p.TargetPort, ports)
		}
	}
}

func covers(labels, selector map[string]string) bool {
	within := maps.Clone(labels)
	maps.Copy(within, selector)
	return len(selector) > 0 && maps.Equal(within, labels)
}

func (s *selector) selects(labels map[string]string) bool {
	if s == nil {
		return false
	}
	for name, value := range s.MatchLabels {
		if labels[name] != value {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		if e.Operator != "In" || !slices.Contains(e.Values, labels[e.Key]) {
			return false
		}
	}
	return true
}

// TestOnlyTheArrowsAreOpen holds the network policies against who talks to whom.
func TestOnlyTheArrowsAreOpen(t *testing.T) {
	o := render(t, base)
	arrows := map[string][]string{ // who → where, port
		"router":            {"nats:4222", "redis:6379", "scorer-queue:9100", "scorer-kv:9100", "prefix-indexer:9100"},
		"metrics-collector": {"nats:4222"},
		"scorer-queue":      {"nats:4222"},
		"scorer-kv":         {"nats:4222"},
		"prefix-indexer":    {"nats:4222", "redis:6379"},
		"nats":              {"nats:6222"},
		"redis":             {},
	}
	all := o.workloads()
	if len(all) != len(arrows) {
		t.Fatalf("%d workloads, the table has %d", len(all), len(arrows))
	}
	for from, open := range arrows {
		for to, w := range all {
			for _, c := range w.Spec.Template.Spec.Containers {
				for _, p := range c.Ports {
					want := slices.Contains(open, fmt.Sprintf("%s:%d", to, p.ContainerPort))
					// RouterService and the HTTP front are for everybody in the namespace.
					got := o.allows("Egress", all[from], w, p.ContainerPort) && o.allows("Ingress", w, all[from], p.ContainerPort)
					if got != want {
						t.Errorf("from %s to port %d of %s: open is %v, want %v", from, p.ContainerPort, to, got, want)
					}
				}
			}
		}
	}
	if _, ok := o["NetworkPolicy/default-deny"]; !ok {
		t.Error("what no policy speaks of is open")
	}
}

// allows says whether the policies of a pod's direction let another pod be talked to.
func (o objects) allows(direction string, of, other workload, port int) bool {
	for _, m := range o {
		if m.Kind != "NetworkPolicy" || !slices.Contains(m.Spec.PolicyTypes, direction) || !m.Spec.PodSelector.selects(of.Spec.Template.Metadata.Labels) {
			continue
		}
		rules := m.Spec.Ingress
		if direction == "Egress" {
			rules = m.Spec.Egress
		}
		for _, r := range rules {
			peers := slices.Concat(r.From, r.To)
			here := len(peers) == 0 || slices.ContainsFunc(peers, func(p peer) bool {
				return p.NamespaceSelector == nil && p.PodSelector.selects(other.Spec.Template.Metadata.Labels)
			})
			there := len(r.Ports) == 0
			for _, p := range r.Ports {
				there = there || p.Protocol == "TCP" && p.Port == port
			}
			if here && there {
				return true
			}
		}
	}
	return false
}

// TestRightsAreTheLeast allows reading what discovery reads, and nothing else.
func TestRightsAreTheLeast(t *testing.T) {
	for _, variant := range variants(t) {
		for key, m := range render(t, variant) {
			if m.Kind != "Role" && m.Kind != "ClusterRole" {
				continue
			}
			for _, r := range m.Rules {
				if !slices.Equal(r.Verbs, []string{"list", "watch"}) || slices.Contains(slices.Concat(r.APIGroups, r.Resources), "*") {
					t.Errorf("%s: %s allows %v on %v of %q", variant, key, r.Verbs, r.Resources, r.APIGroups)
				}
			}
		}
	}
}

func TestEveryServiceScalesByItself(t *testing.T) {
	o := render(t, "overlays/scaled")
	for _, service := range deployed(t) {
		w := o.workloads()[service]
		if h := o["HorizontalPodAutoscaler/"+service]; h.Spec.Scale.Name != service || h.Spec.Scale.Kind != "Deployment" || w.Spec.Replicas != nil {
			t.Errorf("%s: the autoscaler scales %+v; the manifest says %v replicas, which would undo it at every apply", service, h.Spec.Scale, w.Spec.Replicas)
		}
		var matched selector
		b, ok := o["PodDisruptionBudget/"+service]
		if err := b.Spec.Selector.Decode(&matched); !ok || err != nil || !covers(w.Spec.Template.Metadata.Labels, matched.MatchLabels) {
			t.Errorf("%s: the disruption budget selects %v (%v)", service, matched.MatchLabels, err)
		}
		pod := w.Spec.Template.Spec
		if _, ok := o["PriorityClass/"+pod.PriorityClassName]; !ok || len(pod.TopologySpread) != 2 {
			t.Errorf("%s: priority class %q, %d spread constraints", service, pod.PriorityClassName, len(pod.TopologySpread))
		}
	}
}
