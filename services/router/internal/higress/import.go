package higress

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/redis"
)

// maxText is how long a text may be, in bytes.
const maxText = 1 << 20

// Imported is what a configuration of the plug-in comes to.
type Imported struct {
	// Policy is its lb_policy.
	Policy string
	// Text is an EndpointPickerConfig. It holds no secrets.
	Text []byte
	// Redis is where the policy shares counts or prefixes; nil if it uses none.
	Redis *redis.Config
	// PrefixTTL is how long prefixes are remembered; 0 unless the policy is prefix_cache.
	PrefixTTL time.Duration
	// Warnings are what is probably not meant; Infos what has no effect here, or is to be
	// configured elsewhere.
	Warnings, Infos []Notice
}

// wrapper is the kind of the Kubernetes object that the plug-in's configuration stands in.
const wrapper = "WasmPlugin"

// Is tells whether the text is meant as a configuration of the plug-in: a mapping with the
// key lb_policy or lb_config, or the object that it is found in.
func Is(text []byte) bool {
	root, err := parse(text)
	if err != nil || root == nil || root.Kind != yaml.MappingNode {
		return false
	}
	m := merger{fault: func(*yaml.Node, string, string) {}}
	m.take(root, 0)
	return slices.ContainsFunc(m.entries, func(e entry) bool {
		return e.key.Value == "lb_policy" || e.key.Value == "lb_config" || e.key.Value == "kind" && e.value.Value == wrapper
	})
}

// parse returns the only document of the text; nil if it has none.
func parse(text []byte) (*yaml.Node, error) {
	if len(text) > maxText {
		return nil, errors.New("the text is longer than 1 MiB")
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var root *yaml.Node
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return root, nil
		}
		if err != nil {
			return nil, errors.New("the text is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if len(doc.Content) == 0 {
			continue
		}
		if root != nil {
			return nil, errors.New("the text has more than one YAML document")
		}
		root = doc.Content[0]
	}
}

// policy writes the configuration of one lb_policy.
type policy struct {
	name string
	read func(f *fields, out *Imported)
}

func policies() []policy {
	return []policy{
		{"global_least_request", globalLeastRequest},
		{"prefix_cache", prefixCache},
		{"least_busy", leastBusy},
		{"endpoint_metrics", endpointMetrics},
		{"metrics_based", endpointMetrics},
	}
}

// Import reads a configuration of the plug-in. An error is a Faults.
func Import(text []byte) (*Imported, error) {
	r := &report{}
	out := &Imported{}
	root, err := parse(text)
	switch {
	case err != nil:
		r.fault(nil, "", "%v", err)
	case root == nil:
		r.fault(nil, "", "the text is empty")
	default:
		r.document(root, out)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	out.Warnings, out.Infos = inOrder(r.warnings), inOrder(r.infos)
	return out, nil
}

func (r *report) document(root *yaml.Node, out *Imported) {
	top := r.fields(root, "")
	if top == nil {
		return
	}
	if top.text("kind") == wrapper {
		r.fault(top.at["kind"], "kind", "is the whole WasmPlugin; give what stands under its spec.defaultConfig, or under config of a match rule")
		return
	}
	switch kind := top.text("lb_type"); kind {
	case "", "endpoint":
	case "cluster":
		r.fault(top.at["lb_type"], "lb_type", "cluster chooses among services, not among the endpoints of one; that is a gateway's work and not done here")
		return
	default:
		r.fault(top.at["lb_type"], "lb_type", "%s is not supported; it must be endpoint", kind)
	}
	name := top.text("lb_policy")
	config := top.get("lb_config")
	delete(top.seen, "kind")
	top.rest("the plug-in")
	var names []string
	for _, p := range policies() {
		names = append(names, p.name)
	}
	i := slices.Index(names, name)
	switch {
	case name == "" && top.at["lb_policy"] != nil && top.at["lb_policy"].Kind != yaml.ScalarNode:
		return // a fault already
	case name == "":
		r.fault(root, "lb_policy", "is missing; it is one of %s", strings.Join(names, ", "))
		return
	case name == "cluster_metrics" || name == "cluster_hash":
		r.fault(top.at["lb_policy"], "lb_policy", "%s chooses among services, not among the endpoints of one; that is a gateway's work and not done here", name)
		return
	case i < 0:
		r.fault(top.at["lb_policy"], "lb_policy", "%s is not supported; %s", name, conf.Hint(name, names))
		return
	}
	out.Policy = name
	if config == nil {
		config = &yaml.Node{Kind: yaml.MappingNode, Line: root.Line, Column: root.Column}
	}
	f := r.fields(config, "lb_config")
	if f == nil {
		return
	}
	policies()[i].read(f, out)
	f.rest(name)
}
