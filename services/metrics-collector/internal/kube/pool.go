package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strings"
)

// maxPorts is how many ports a pool's pods can serve on.
const maxPorts = 8

// Key names a pool.
type Key struct{ Namespace, Name string }

// String returns "namespace/name", which is the pool's name on the bus.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// pool is an InferencePool of either generation.
type pool struct {
	key      Key
	selector map[string]string
	ports    []uint16 // by rank
	protocol string   // that its pods are said to speak, such as h2c; empty: not said
	fault    error    // why it selects nothing
}

// Protocols that pods may be said to speak.
const (
	protocolHTTP = "http"
	protocolH2C  = "kubernetes.io/h2c" // HTTP/2 without TLS
)

// number is a port as it is written.
type number struct {
	Number int `json:"number"`
}

// wirePool is the part of an InferencePool that is read, of both generations.
type wirePool struct {
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		Selector         map[string]json.RawMessage `json:"selector"`
		TargetPorts      []number                   `json:"targetPorts"`
		TargetPortNumber int                        `json:"targetPortNumber"`
		AppProtocol      string                     `json:"appProtocol"`
	} `json:"spec"`
}

// decodePool reads a pool. One that makes no sense is a pool too, with a fault, so that
// its endpoints leave and somebody is told why.
func decodePool(raw json.RawMessage) (*pool, error) {
	var w wirePool
	if err := json.Unmarshal(raw, &w); err != nil {
		var id identity
		if again := json.Unmarshal(raw, &id); again != nil {
			return nil, again
		}
		return &pool{key: Key{id.Metadata.Namespace, id.Metadata.Name}, fault: err}, nil
	}
	p := &pool{key: Key{w.Metadata.Namespace, w.Metadata.Name}, protocol: w.Spec.AppProtocol}
	var faults []error
	var err error
	if p.selector, err = readSelector(w.Spec.Selector, len(w.Spec.TargetPorts) > 0); err != nil {
		faults = append(faults, err)
	}
	ports := w.Spec.TargetPorts
	if len(ports) == 0 && w.Spec.TargetPortNumber != 0 {
		ports = []number{{w.Spec.TargetPortNumber}}
	}
	if len(ports) == 0 || len(ports) > maxPorts {
		faults = append(faults, fmt.Errorf("spec.targetPorts: there are %d, want 1 to %d", len(ports), maxPorts))
		ports = nil
	}
	for _, n := range ports {
		switch port := uint16(n.Number); { //nolint:gosec // checked next
		case n.Number < 1 || n.Number > 65535:
			faults = append(faults, fmt.Errorf("spec.targetPorts: %d is no port", n.Number))
		case slices.Contains(p.ports, port):
			faults = append(faults, fmt.Errorf("spec.targetPorts: %d is there twice", n.Number))
		default:
			p.ports = append(p.ports, port)
		}
	}
	p.fault = errors.Join(faults...)
	return p, nil
}

// readSelector reads labels, as the second generation has them below matchLabels and
// the first, with another field for its port, at the top.
func readSelector(raw map[string]json.RawMessage, second bool) (map[string]string, error) {
	out := make(map[string]string)
	if below, ok := raw["matchLabels"]; ok && len(below) > 0 && below[0] == '{' {
		if len(raw) > 1 {
			return nil, errors.New("spec.selector: has more than matchLabels, which is all that is understood")
		}
		if err := json.Unmarshal(below, &out); err != nil {
			return nil, fmt.Errorf("spec.selector.matchLabels: %w", err)
		}
	} else {
		if second && len(raw) > 0 {
			return nil, errors.New("spec.selector: has no matchLabels, below which an InferencePool with targetPorts has its labels")
		}
		for name, value := range raw {
			var text string
			if err := json.Unmarshal(value, &text); err != nil {
				return nil, fmt.Errorf("spec.selector.%.64s: %w", name, err)
			}
			out[name] = text
		}
	}
	if len(out) == 0 {
		return nil, errors.New("spec.selector: is empty, which would be every pod of the namespace")
	}
	return out, nil
}

// selects says whether a pod with these labels is in the pool.
func (p *pool) selects(labels map[string]string) bool {
	if p.fault != nil {
		return false
	}
	for name, value := range p.selector {
		if v, ok := labels[name]; !ok || v != value {
			return false
		}
	}
	return true
}

// labelSelector is the selector as the API server takes it.
func (p *pool) labelSelector() string {
	terms := make([]string, 0, len(p.selector))
	for name, value := range p.selector {
		terms = append(terms, name+"="+value)
	}
	sort.Strings(terms)
	return strings.Join(terms, ",")
}

// pods returns where the pool's pods are.
func (p *pool) pods() (path string, query url.Values) {
	return "/api/v1/namespaces/" + p.key.Namespace + "/pods", url.Values{"labelSelector": {p.labelSelector()}}
}
