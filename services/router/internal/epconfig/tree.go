package epconfig

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/services/router/internal/filter"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

const (
	treeCurrent = "current"
	treeSuccess = "nextOnSuccess"
	treeFailure = "nextOnFailure"
	treeEither  = "nextOnSuccessOrFailure"
	treeRef     = "pluginRef"
	treeNested  = "decisionTree"
)

// newTree makes a decision tree of its parameters.
func newTree(name string, p *Params) (any, error) {
	b := &treeBuilder{p: p}
	var n filter.Node
	n.Current = b.next(treeCurrent, p.At(treeCurrent), 0)
	n.NextOnSuccess = b.next(treeSuccess, p.At(treeSuccess), 0)
	n.NextOnFailure = b.next(treeFailure, p.At(treeFailure), 0)
	n.NextOnSuccessOrFailure = b.next(treeEither, p.At(treeEither), 0)
	if p.At(treeCurrent) == nil {
		p.Fault(nil, treeCurrent, "a decision tree must have a current filter")
	}
	if p.Failed() {
		return nil, nil
	}
	for _, key := range []string{treeCurrent, treeSuccess, treeFailure, treeEither} {
		if at := p.At(key); at != nil {
			p.note(key, string(p.report.compactJSON(at, p.path)))
		}
	}
	return filter.NewTree(name, n)
}

type treeBuilder struct {
	p *Params
}

// next reads {pluginRef: …} or {decisionTree: {…}}. It returns nil if there is none
// and after reporting a fault.
func (b *treeBuilder) next(key string, at *yaml.Node, depth int) route.Filter {
	if at == nil {
		return nil
	}
	if !b.p.report.step(at, b.p.path, depth) {
		b.p.failed = true
		return nil
	}
	fields := b.fields(key, at, treeRef, treeNested)
	if fields == nil {
		return nil
	}
	ref, nested := fields[treeRef], fields[treeNested]
	switch {
	case ref != nil && nested != nil:
		b.p.Fault(at, key, "both pluginRef and decisionTree are given; one of them is meant")
	case ref != nil:
		faults := len(b.p.report.faults)
		name := b.p.report.text(ref, b.p.path+"."+key+"."+treeRef)
		if name == "" {
			if len(b.p.report.faults) == faults {
				b.p.report.fault(ref, b.p.path+"."+key+"."+treeRef, "is empty; name a plug-in")
			}
			b.p.failed = true
			return nil
		}
		f := b.p.filters(ref, b.p.path+"."+key+"."+treeRef, name)
		if f == nil {
			b.p.failed = true
			return nil // not an interface that holds nil
		}
		return f
	case nested != nil:
		return b.tree(key+"."+treeNested, nested, depth)
	default:
		b.p.Fault(at, key, "either pluginRef or decisionTree must be given")
	}
	return nil
}

func (b *treeBuilder) tree(key string, at *yaml.Node, depth int) route.Filter {
	fields := b.fields(key, at, treeCurrent, treeSuccess, treeFailure, treeEither)
	if fields == nil {
		return nil
	}
	if fields[treeCurrent] == nil {
		b.p.Fault(at, key, "a decision tree must have a current filter")
	}
	n := filter.Node{
		Current:                b.next(key+"."+treeCurrent, fields[treeCurrent], depth+1),
		NextOnSuccess:          b.next(key+"."+treeSuccess, fields[treeSuccess], depth+1),
		NextOnFailure:          b.next(key+"."+treeFailure, fields[treeFailure], depth+1),
		NextOnSuccessOrFailure: b.next(key+"."+treeEither, fields[treeEither], depth+1),
	}
	if b.p.Failed() {
		return nil
	}
	f, err := filter.NewTree(key, n)
	if err != nil {
		b.p.Fault(at, key, "%v", err)
		return nil
	}
	return f
}

// fields reads a mapping with the known keys, in any case. It returns nil after
// reporting that there is none.
func (b *treeBuilder) fields(key string, at *yaml.Node, known ...string) map[string]*yaml.Node {
	m := b.p.report.mapping(at, b.p.path+"."+key)
	if m == nil {
		b.p.failed = true
		return nil
	}
	fields, spelled := map[string]*yaml.Node{}, map[string]string{}
	for _, k := range m.keys {
		got, found := resolve(k).Value, false
		for _, name := range known {
			if !strings.EqualFold(name, got) {
				continue
			}
			found = true
			if first, twice := spelled[name]; twice {
				b.p.Fault(k, key, "%q is the same field as %q", got, first)
				continue
			}
			spelled[name], fields[name] = got, m.get(got)
		}
		if !found {
			b.p.Fault(k, key, "unknown field %q%s", got, b.p.report.didYouMeanOr(got, known))
		}
	}
	return fields
}
