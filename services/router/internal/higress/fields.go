package higress

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// fields is a mapping of the text. Values are read as leniently as the plug-in reads
// them: a number may be quoted, and a text may look like a number.
type fields struct {
	*report
	node *yaml.Node
	path string
	keys []*yaml.Node          // in order, those that were merged in last
	at   map[string]*yaml.Node // of the values
	seen map[string]bool
}

// fields reads a mapping; nil after reporting that it is none.
func (r *report) fields(n *yaml.Node, path string) *fields {
	n = resolve(n)
	if n == nil || n.Kind != yaml.MappingNode {
		r.fault(n, path, "must be a mapping of fields")
		return nil
	}
	f := &fields{report: r, node: n, path: path, at: map[string]*yaml.Node{}, seen: map[string]bool{}}
	m := merger{fault: func(at *yaml.Node, key, what string) { r.fault(at, f.name(key), "%s", what) }}
	m.take(n, 0)
	for _, e := range m.entries {
		f.keys = append(f.keys, e.key)
		f.at[e.key.Value] = e.value
	}
	return f
}

func resolve(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (f *fields) name(key string) string {
	if f.path == "" {
		return key
	}
	return f.path + "." + key
}

// get returns a value that is there and not null.
func (f *fields) get(key string) *yaml.Node {
	f.seen[key] = true
	n := f.at[key]
	if n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil
	}
	return n
}

func (f *fields) scalar(key string) (string, *yaml.Node) {
	n := f.get(key)
	if n == nil {
		return "", nil
	}
	if n.Kind != yaml.ScalarNode {
		f.fault(n, f.name(key), "must be one value")
		return "", nil
	}
	return n.Value, n
}

// text returns a text, "" if absent.
func (f *fields) text(key string) string {
	s, _ := f.scalar(key)
	return s
}

// integer returns a whole number of at least least; 0 and absent are def. of says what it
// counts, such as "seconds".
func (f *fields) integer(key, of string, least, def int) int {
	s, n := f.scalar(key)
	if n == nil {
		return def
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > math.MaxInt32 {
		unit := ""
		if of != "" {
			unit = fmt.Sprintf(" of %s, such as %d", of, def)
		}
		f.fault(n, f.name(key), "must be a whole number%s, not %q", unit, s)
		return def
	}
	if int(v) < least {
		f.fault(n, f.name(key), "must be at least %d, not %d", least, int(v))
		return def
	}
	if v == 0 {
		return def
	}
	return int(v)
}

// number returns a finite number; absent is def.
func (f *fields) number(key string, def float64) float64 {
	s, n := f.scalar(key)
	if n == nil {
		return def
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		f.fault(n, f.name(key), "must be a number, not %q", s)
		return def
	}
	return v
}

// texts returns a list of texts.
func (f *fields) texts(key string) []string {
	n := f.get(key)
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		f.fault(n, f.name(key), "must be a list of names")
		return nil
	}
	var out []string
	for _, item := range n.Content {
		item = resolve(item)
		if item.Kind != yaml.ScalarNode || item.Value == "" {
			f.fault(item, f.name(key), "must hold names only")
			continue
		}
		out = append(out, item.Value)
	}
	return out
}

// invented are keys that are found in configurations of the plug-in, but that it does
// not have, and what to do in their place.
func invented(key string) string {
	switch key {
	case "metricsPath", "metricsPort", "metricsRefreshInterval", "metrics_path":
		return "; the metrics-collector scrapes: see its settings scrape"
	case "unhealthyThreshold", "healthyThreshold", "healthCheck":
		return "; endpoints that fail are taken out by the router by itself"
	case "redis":
		return "; serviceFQDN and servicePort say where Redis is"
	}
	return ""
}

// owners are, by field, the policies that have it.
func owners() map[string][]string {
	of := map[string][]string{}
	for _, p := range policies() {
		nothing := &fields{report: &report{}, node: &yaml.Node{}, seen: map[string]bool{}}
		p.read(nothing, &Imported{})
		for key := range nothing.seen {
			of[key] = append(of[key], p.name)
		}
	}
	return of
}

// rest reports the keys that nobody has asked for.
func (f *fields) rest(policy string) {
	var known []string
	for k := range f.seen {
		known = append(known, k)
	}
	others := owners()
	for _, key := range f.keys {
		if f.seen[key.Value] {
			continue
		}
		hint := invented(key.Value)
		if of := others[key.Value]; hint == "" && f.path != "" && len(of) > 0 {
			hint = "; it is one of " + strings.Join(of, ", ") + ": leave it out"
		}
		if hint == "" {
			if near := conf.Nearest(key.Value, known); near != "" {
				hint = "; did you mean " + near + "?"
			}
		}
		f.fault(key, f.name(key.Value), "%s has no such field%s", policy, hint)
	}
}
