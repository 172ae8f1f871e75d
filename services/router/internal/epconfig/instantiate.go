package epconfig

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/services/router/internal/profile"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// instantiate makes every plug-in of the text, in order, and profile handlers last: they
// may name others, wherever those stand.
func (l *loader) instantiate() {
	var handlers []func()
	for _, e := range l.doc.plugins {
		in := &instance{entry: e, name: e.name, typ: e.typ}
		if first := l.byName[e.name]; first != nil {
			l.fault(e.nameAt, e.path, "the name %q is used more than once, first in line %d; give this one a name of its own", e.name, first.entry.nameAt.Line)
			continue
		}
		l.byName[e.name] = in
		l.instances = append(l.instances, in)
		t, local := l.deps.Registry.Type(e.typ)
		made := func() {
			before := len(l.faults)
			switch {
			case !local:
				l.remote(in)
			default:
				l.local(in, t)
				if t.Scores && !in.faulty {
					l.remote(in)
				}
			}
			in.faulty = in.faulty || len(l.faults) > before
		}
		if local && t.Role == RoleHandler {
			in.role = RoleHandler
			handlers = append(handlers, made)
			continue
		}
		made()
	}
	for _, made := range handlers {
		made()
	}
}

// unknownType reports a type that neither the router has nor a scorer service, which
// said so with err.
func (l *loader) unknownType(e *pluginEntry, scorerTypes []string, err error) {
	at := join(e.path, "type")
	own := slices.DeleteFunc(l.deps.Registry.Names(), func(name string) bool {
		t, _ := l.deps.Registry.Type(name)
		return t.Role == RoleElsewhere
	})
	near := l.near(e.typ, append(slices.Clone(own), scorerTypes...), 3)
	hint := ""
	if len(near) > 0 {
		hint = "; nearest here: " + strings.Join(near, ", ")
	}
	if what, nearest, ok := l.deps.Registry.Later(e.typ); ok {
		if nearest != "" {
			hint = "; nearest here: " + nearest
		}
		l.fault(e.typeAt, at, "plug-in type %q (%s) of newer endpoint pickers is not here yet%s", e.typ, what, hint)
		return
	}
	if len(near) > 0 && slices.Contains(own, near[0]) {
		l.fault(e.typeAt, at, "unknown plug-in type %q; did you mean %s?", e.typ, strings.Join(near, " or "))
		return
	}
	// It may be the type of a service that has not been reached: err tells.
	if len(near) > 0 {
		l.fault(e.typeAt, at, "unknown plug-in type: %v", err)
		return
	}
	l.fault(e.typeAt, at, "unknown plug-in type: %v; what the router has: %s", err, strings.Join(own, ", "))
}

// local makes an instance of one of the router's own types.
func (l *loader) local(in *instance, t *Type) {
	in.role = t.Role
	e := in.entry
	if e == nil {
		e = &pluginEntry{path: "plugins"} // filled in
	}
	if t.Name == producerType {
		l.producer(e, t)
		return
	}
	if t.Role == RoleElsewhere {
		l.info(e.node, e.path, "%s is not needed here: %s", t.Name, strings.TrimPrefix(t.Summary, "Accepted and not needed: "))
		if e.params != nil && l.mapping(e.params, e.path+".parameters") != nil {
			l.warn(e.params, e.path+".parameters", "have no effect here")
		}
		return
	}
	p := l.params(e, t)
	p.filters, p.deciders, p.declares = l.filterNamed, l.deciderNamed, func(name string) bool { return l.byName[name] != nil }
	for _, e := range l.doc.profiles {
		p.profiles = append(p.profiles, e.name)
	}
	made, err := t.New(in.name, p)
	if err != nil {
		p.Fault(nil, "", "%v", err)
	}
	if p.Failed() {
		in.faulty = true
		return
	}
	in.plugin, in.params = made, p.effective()
}

// filterNamed finds a filter that was declared already, for a decision tree.
func (l *loader) filterNamed(at *yaml.Node, path, name string) route.Filter {
	in := l.byName[name]
	declared := slices.ContainsFunc(l.doc.plugins, func(e *pluginEntry) bool { return e.name == name })
	switch {
	case in == nil && declared:
		l.fault(at, path, "plug-in %q is declared below; a decision tree may only refer to plug-ins declared before it", name)
	case in == nil:
		l.fault(at, path, "there is no plug-in %q%s", name, l.didYouMean(name, l.names()))
	case in.faulty:
		// Its own fault is reported; that of the tree would be noise.
	default:
		f, ok := in.plugin.(route.Filter)
		if _, late := f.(route.ScoredFilter); late {
			l.fault(at, path, "plug-in %q goes by what scorers say, and so cannot stand in a decision tree; name it in the profile", name)
			return nil
		}
		if ok {
			in.used, in.inTree = true, true
			return f
		}
		if in.plugin == nil && in.role == RoleFilter {
			l.fault(at, path, "plug-in %q is this decision tree itself", name)
			return nil
		}
		l.fault(at, path, "plug-in %q is a %s, and only filters may stand in a decision tree", name, in.role)
	}
	return nil
}

// deciderNamed finds the decider about a stage that a profile handler names; nil after
// reporting why there is none.
func (l *loader) deciderNamed(at *yaml.Node, path, name, stage string) profile.Decider {
	in := l.byName[name]
	switch {
	case in == nil:
		l.fault(at, path, "there is no plug-in %q%s", name, l.didYouMean(name, l.names()))
	case in.role != RoleDecider:
		l.fault(at, path, "plug-in %q is a %s and cannot decide about stages", name, in.role)
	case stageOf(in.typ) != stage:
		l.fault(at, path, "%s decides about stage %s, not %s", in.typ, stageOf(in.typ), stage)
	default:
		in.used = true
		if d, ok := in.plugin.(profile.Decider); ok {
			return d
		}
		// Its own fault is reported.
	}
	return nil
}

// remote resolves a scorer.
func (l *loader) remote(in *instance) {
	in.role = RoleScorer
	e := in.entry
	if e == nil {
		e = &pluginEntry{name: in.name, typ: in.typ, path: "plugins"} // filled in
	}
	e = l.withProducer(e)
	at, path := e.params, e.path+".parameters"
	if at == nil {
		at, path = e.node, e.path
	} else if resolve(at).Kind != yaml.MappingNode {
		l.fault(at, path, "must be a mapping of fields, not %s", kindOf(resolve(at)))
		return
	}
	faults := len(l.faults)
	in.params = l.compactJSON(e.params, path)
	if e.completes {
		in.params = completed(in.params)
	}
	if e.typ == noHitType {
		in.params = l.likePrefixScorer(e, in.params)
	}
	if len(l.faults) > faults {
		return
	}
	service, asked, failClosed, warnings, err := l.deps.Scorers.Resolve(e.name, e.typ, in.params)
	if err != nil {
		if types := l.deps.Scorers.Types(); !slices.Contains(types, e.typ) {
			l.unknownType(e, types, err)
			return
		}
	}
	for _, w := range warnings {
		l.warn(at, path, "%s", w)
		if by, ok := asked.(Warner); ok {
			l.warnings[len(l.warnings)-1].Over = func() bool { return by.Over(w) }
		}
	}
	for _, fault := range unwrapped(err) {
		node, where := at, path
		if keyed, ok := fault.(interface{ ParameterKey() string }); ok && keyed.ParameterKey() != "" {
			node, where = l.parameterAt(e, keyed.ParameterKey())
		}
		l.fault(node, where, "%v", fault)
	}
	in.scorer = route.Scorer{Plugin: e.name, Type: e.typ, Service: service, Asked: asked, FailClosed: failClosed}
	if err == nil {
		l.tell(in, at, path)
	}
}

// parameterAt finds a dotted key among a plug-in's parameters, as deep as it is there.
func (l *loader) parameterAt(e *pluginEntry, key string) (*yaml.Node, string) {
	at, path := e.params, e.path+".parameters"
	for part := range strings.SplitSeq(key, ".") {
		found := (*yaml.Node)(nil)
		if n := resolve(at); n != nil && n.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(n.Content); i += 2 {
				if strings.EqualFold(resolve(n.Content[i]).Value, part) {
					found = n.Content[i+1]
				}
			}
		}
		path = join(path, part)
		if found == nil {
			break
		}
		at = found
	}
	if at == nil {
		at = e.node
	}
	return at, path
}

// unwrapped takes errors.Join apart.
func unwrapped(err error) []error {
	if err == nil {
		return nil
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range several.Unwrap() {
			all = append(all, unwrapped(e)...)
		}
		return all
	}
	return []error{err}
}

// names returns the names of the plug-ins of the text.
func (l *loader) names() []string {
	if l.declared == nil {
		for _, e := range l.doc.plugins {
			l.declared = append(l.declared, e.name)
		}
	}
	return l.declared
}
