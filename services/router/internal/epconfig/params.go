package epconfig

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/services/router/internal/profile"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Params is the parameters of one plug-in as its type reads them. Keys match in any
// case, as the reference's do; everything else is strict.
type Params struct {
	report  *report
	typ     *Type
	node    *yaml.Node // where faults of the whole belong
	path    string
	values  map[string]*yaml.Node // by the type's spelling
	filters func(at *yaml.Node, path, name string) route.Filter
	// For profile handlers: how they find deciders, whether a plug-in has the name, and
	// which profiles there are.
	deciders func(at *yaml.Node, path, name, stage string) profile.Decider
	declares func(name string) bool
	profiles []string
	used     [][2]string // effective name and JSON value, in the type's order
	failed   bool
}

// params reads a plug-in's parameters against its type.
func (r *report) params(e *pluginEntry, t *Type) *Params {
	p := &Params{report: r, typ: t, node: e.node, path: e.path + ".parameters", values: map[string]*yaml.Node{}}
	if e.params != nil {
		p.node = e.params
	}
	m := r.mapping(e.params, p.path)
	if m == nil {
		p.failed = true
		return p
	}
	var names []string
	for _, param := range t.Parameters {
		names = append(names, param.Name)
	}
	spelled := map[string]string{}
	for _, key := range m.keys {
		k := resolve(key).Value
		name := ""
		for _, n := range names {
			if strings.EqualFold(n, k) {
				name = n
			}
		}
		switch {
		case name == "" && len(names) == 0:
			p.Fault(key, quoted(k), "unknown parameter: %s takes none", t.Name)
		case name == "":
			p.Fault(key, quoted(k), "unknown parameter of %s%s", t.Name, r.didYouMeanOr(k, names))
		case spelled[name] != "":
			p.Fault(key, quoted(k), "is the same parameter as %q", spelled[name])
		default:
			spelled[name] = k
			p.values[name] = m.get(k)
		}
	}
	return p
}

// Fault reports a fault of the parameter called key, which may be a path, at the node
// or, if that is nil, at the parameters as a whole.
func (p *Params) Fault(at *yaml.Node, key, format string, args ...any) {
	p.failed = true
	path := p.path
	if key != "" {
		path += "." + key
	}
	if at == nil {
		at = p.node
	}
	p.report.fault(at, path, format, args...)
}

// Warn reports what to know about the parameter called key.
func (p *Params) Warn(key, format string, args ...any) {
	at := p.node
	if v := p.values[key]; v != nil {
		at = v
	}
	p.report.warn(at, join(p.path, key), format, args...)
}

// Int returns a whole number, or its default.
func (p *Params) Int(name string) int {
	out, _ := p.defaultOf(name).(int)
	if n := p.values[name]; n != nil {
		i, ok := integer(n.Value)
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || !ok || !i.IsInt64() || i.Int64() > math.MaxInt32 || i.Int64() < math.MinInt32 {
			p.Fault(n, name, "must be a whole number, not %s", kindOf(n))
			return out
		}
		out = int(i.Int64())
	}
	p.note(name, strconv.Itoa(out))
	return out
}

// Float returns a finite number, or its default.
func (p *Params) Float(name string) float64 {
	out, _ := p.defaultOf(name).(float64)
	if n := p.values[name]; n != nil {
		f, ok := finite(n)
		if !ok {
			p.Fault(n, name, "must be a finite number, not %s", kindOf(n))
			return out
		}
		out = f
	}
	p.note(name, strconv.FormatFloat(out, 'g', -1, 64))
	return out
}

// At returns the parameter's node, nil if it is absent.
func (p *Params) At(name string) *yaml.Node { return p.values[name] }

// Failed returns whether a fault has been reported.
func (p *Params) Failed() bool { return p.failed }

// note keeps the effective value, as JSON; the last one counts.
func (p *Params) note(name, value string) {
	for i := range p.used {
		if p.used[i][0] == name {
			p.used[i][1] = value
			return
		}
	}
	p.used = append(p.used, [2]string{name, value})
}

func (p *Params) defaultOf(name string) any {
	for _, param := range p.typ.Parameters {
		if param.Name == name {
			return param.Default
		}
	}
	return nil
}

// effective returns the parameters as they are, defaults filled in, as JSON; nil if
// there are none.
func (p *Params) effective() []byte {
	if len(p.used) == 0 {
		return nil
	}
	var b strings.Builder
	for i, u := range p.used {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		key, err := json.Marshal(u[0])
		if err != nil { // cannot happen with a string
			continue
		}
		fmt.Fprintf(&b, "%s%s:%s", sep, key, u[1])
	}
	b.WriteByte('}')
	return []byte(b.String())
}

// finite reads a number; false if the node is none or it is NaN or infinite.
func finite(n *yaml.Node) (float64, bool) {
	n = resolve(n)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" && n.ShortTag() != "!!float" {
		return 0, false
	}
	var f float64
	if err := n.Decode(&f); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}
