package kube

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Annotations that say on which of the pool's ports a pod serves now.
const (
	activePorts       = "llm-d.ai/active-ports"
	legacyActivePorts = "inference.networking.k8s.io/active-ports"
)

// Address families.
const (
	ipv4 = "ipv4"
	ipv6 = "ipv6"
)

// maxPodName is how much of a pod's name stands in ids: the rest of an id is at most
// 45 bytes, and an id at most 128.
const maxPodName = 80

// maxLabelBytes is how much of a pod's labels is told with each of its endpoints. Honest
// ones are a tenth of that; a single pod may have a megabyte, with which the pool's table
// would no longer fit into a message.
const maxLabelBytes = 4 << 10

// Endpoint is one port of one pod.
type Endpoint struct {
	// ID holds the pod's UID and the rank, and for people the beginning of its name.
	ID string
	// Host is the pod's address, IPv6 without brackets.
	Host string
	Port uint16
	// Labels are the pod's, without the longest if there are more than a few KB.
	Labels map[string]string
}

// pod is what is read of a pod.
type pod struct {
	name, namespace, uid string
	labels               map[string]string
	told                 map[string]string // those of labels that are told
	ready                bool              // and not about to end
	addresses            []netip.Addr
	active               string // list of ports, if listed
	listed               bool
}

// wirePod is the part of a Pod that is read.
type wirePod struct {
	Metadata struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace"`
		UID               string            `json:"uid"`
		Labels            map[string]string `json:"labels"`
		Annotations       map[string]string `json:"annotations"`
		DeletionTimestamp *string           `json:"deletionTimestamp"`
	} `json:"metadata"`
	Status struct {
		Phase      string `json:"phase"`
		PodIP      string `json:"podIP"`
		PodIPs     []struct{ IP string }
		Conditions []struct{ Type, Status string }
	} `json:"status"`
}

func decodePod(raw json.RawMessage) (*pod, error) {
	var w wirePod
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, err
	}
	m := &w.Metadata
	if m.UID == "" || len(m.UID) > 36 {
		return nil, fmt.Errorf("uid %.40q is none", m.UID)
	}
	p := &pod{name: m.Name, namespace: m.Namespace, uid: m.UID, labels: m.Labels, told: shortest(m.Labels)}
	for _, c := range w.Status.Conditions {
		if c.Type == "Ready" {
			p.ready = c.Status == "True"
		}
	}
	if m.DeletionTimestamp != nil || w.Status.Phase == "Failed" || w.Status.Phase == "Succeeded" {
		p.ready = false
	}
	texts := []string{w.Status.PodIP}
	for _, ip := range w.Status.PodIPs {
		texts = append(texts, ip.IP)
	}
	for _, text := range texts {
		a, err := netip.ParseAddr(text)
		if a = a.Unmap().WithZone(""); err == nil && !a.IsUnspecified() && !slices.Contains(p.addresses, a) {
			p.addresses = append(p.addresses, a)
		}
	}
	if p.active, p.listed = m.Annotations[activePorts]; !p.listed {
		p.active, p.listed = m.Annotations[legacyActivePorts]
	}
	return p, nil
}

// shortest returns labels up to maxLabelBytes: all of them, or the shortest.
func shortest(labels map[string]string) map[string]string {
	size := func(name string) int { return len(name) + len(labels[name]) }
	all := 0
	for name := range labels {
		all += size(name)
	}
	if all <= maxLabelBytes {
		return labels
	}
	names := slices.SortedFunc(maps.Keys(labels), func(a, b string) int { return cmp.Or(cmp.Compare(size(a), size(b)), cmp.Compare(a, b)) })
	kept := make(map[string]string)
	for left := maxLabelBytes; left >= size(names[0]); names = names[1:] {
		kept[names[0]] = labels[names[0]]
		left -= size(names[0])
	}
	return kept
}

// address returns the pod's address of a family, or the first if family is empty.
func (p *pod) address(family string) (netip.Addr, bool) {
	for _, a := range p.addresses {
		if family == "" || (family == ipv4) == a.Is4() {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// serves says on which of the ports the pod serves.
func (p *pod) serves(port uint16) bool {
	if !p.listed {
		return true
	}
	for text := range strings.SplitSeq(p.active, ",") {
		if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16); err == nil && uint16(n) == port {
			return true
		}
	}
	return false
}

// endpoints returns the pod's endpoints in a pool; none if it is not in it.
func (p *pod) endpoints(in *pool, family string) []Endpoint {
	if !p.ready || p.namespace != in.key.Namespace || !in.selects(p.labels) {
		return nil
	}
	a, ok := p.address(family)
	if !ok {
		return nil
	}
	var out []Endpoint
	for rank, port := range in.ports {
		if !p.serves(port) {
			continue
		}
		out = append(out, Endpoint{
			ID:   fmt.Sprintf("%.*s-rank-%d/%s", maxPodName, p.name, rank, p.uid),
			Host: a.String(), Port: port, Labels: p.told,
		})
	}
	return out
}
