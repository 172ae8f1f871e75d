package epconfig

import (
	"fmt"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/pick"
	"github.com/pointsman/pointsman/services/router/internal/profile"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// maxWeight bounds |weight|, so that sums of weighted scores stay exact enough.
const maxWeight = 1e12

// buildProfiles makes the profiles, or the one that is meant if there are none.
func (l *loader) buildProfiles() {
	entries := l.doc.profiles
	if len(entries) == 0 {
		if e := l.everything(); e != nil {
			entries = []*profileEntry{e}
		}
	}
	seen := map[string]*profileEntry{}
	for _, e := range entries {
		if first := seen[e.name]; first != nil && e.name != "" {
			l.fault(e.node, join(e.path, "name"), "the name %q is used by more than one profile, first in line %d", e.name, first.node.Line)
			continue
		}
		seen[e.name] = e
		l.buildProfile(e)
	}
}

// everything is the profile of a text that has none: every filter, scorer and picker
// that is declared, less the filters that a decision tree refers to and the
// saturation detector.
func (l *loader) everything() *profileEntry {
	e := &profileEntry{node: l.doc.fields.nodeOrNil(), path: "schedulingProfiles[0]", name: "default"}
	detector := l.detectorName()
	for _, in := range l.instances {
		if in.inTree || in.role == RoleHandler || in.role == RoleDecider || in.role == RoleElsewhere || in.name == detector {
			continue
		}
		e.plugins = append(e.plugins, &refEntry{node: in.entry.node, path: in.entry.path, ref: in.name, refAt: in.entry.nameAt})
	}
	if len(e.plugins) == 0 {
		if len(l.faults) == 0 {
			l.fault(e.node, "plugins", "there is no filter, scorer or picker, so there is nothing to route by")
		}
		return nil
	}
	l.info(e.node, "schedulingProfiles", "there is none; profile \"default\" of every plug-in is used")
	return e
}

func (l *loader) buildProfile(e *profileEntry) {
	p := &route.Profile{Name: e.name}
	var members []member
	var picker *refEntry
	scorerAt := map[string]int{} // index into p.Scorers
	for _, ref := range e.plugins {
		in := l.byName[ref.ref]
		if in == nil {
			l.unknownRef(ref)
			continue
		}
		in.used = true
		if in.faulty {
			continue
		}
		weight := l.weight(ref, in)
		switch in.role {
		case RoleFilter:
			f, _ := in.plugin.(route.Filter) // its role says so
			p.Filters = append(p.Filters, f)
		case RoleScorer:
			if i, twice := scorerAt[in.name]; twice {
				l.warn(ref.node, ref.path, "%q is there twice; the weights are added up to %v", in.name, p.Scorers[i].Weight+weight)
				p.Scorers[i].Weight += weight
				members[memberOf(members, in)].weight += weight
				continue
			}
			scorerAt[in.name] = len(p.Scorers)
			s := in.scorer
			s.Weight = weight
			p.Scorers = append(p.Scorers, s)
			if f, both := in.plugin.(route.Filter); both {
				p.Filters = append(p.Filters, f)
			}
		case RolePicker:
			if picker != nil {
				l.fault(ref.node, ref.path, "profile %q has a second picker, %q besides %q; one profile has one", e.name, ref.ref, picker.ref)
				continue
			}
			picker = ref
			p.Picker, _ = in.plugin.(route.Picker) // its role says so
		case RoleHandler:
			l.warn(ref.node, ref.path, "%q is a profile handler, which works for all profiles; naming it in one has no effect", ref.ref)
			continue
		default:
			l.warn(ref.node, ref.path, "%q has no effect in a profile", ref.ref)
			continue
		}
		members = append(members, member{in, weight})
	}
	if in := l.neededPrefixScorer(e, p); in != nil {
		p.Scorers = append(p.Scorers, in.scorer)
		members = append(members, member{instance: in})
	}
	if p.Picker == nil {
		in := l.defaultPicker(e)
		p.Picker, _ = in.plugin.(route.Picker)
		members = append(members, member{instance: in})
	}
	l.profiles, l.contents = append(l.profiles, p), append(l.contents, members)
}

// teach has every profile's picks told to the prefix scorers of the others.
func (l *loader) teach() {
	for _, p := range l.profiles {
		for _, other := range l.profiles {
			for _, s := range other.Scorers {
				same := func(have route.Scorer) bool { return have.Plugin == s.Plugin }
				if _, learns := s.Asked.(learner); learns && !slices.ContainsFunc(p.Scorers, same) && !slices.ContainsFunc(p.Learners, same) {
					p.Learners = append(p.Learners, s)
				}
			}
		}
	}
}

// learner is implemented by route.Scorer.Asked of scorers that look at prefix blocks.
type learner interface {
	PrefixNeeds(t *roster.Table) (blockSize, limit int)
}

func memberOf(members []member, in *instance) int {
	for i, m := range members {
		if m.instance == in {
			return i
		}
	}
	return -1
}

func (l *loader) unknownRef(ref *refEntry) {
	hint := l.didYouMean(ref.ref, l.names())
	for _, in := range l.instances {
		if in.typ == ref.ref && in.entry != nil {
			hint = fmt.Sprintf("; the plug-in of that type is named %q", in.name)
		}
	}
	if hint == "" && l.namesSomething(ref.ref) {
		hint = "; it is a plug-in type, which must be declared in plugins first"
	}
	l.fault(ref.refAt, join(ref.path, "pluginRef"), "there is no plug-in %q%s", ref.ref, hint)
}

func (l *loader) namesSomething(typ string) bool {
	if _, ok := l.deps.Registry.Type(typ); ok {
		return true
	}
	for _, t := range l.deps.Scorers.Types() {
		if t == typ {
			return true
		}
	}
	return false
}

// weight reads a weight, which only scorers have. Absent is 1.
func (l *loader) weight(ref *refEntry, in *instance) float64 {
	path := join(ref.path, "weight")
	if ref.weight == nil {
		if in.role == RoleScorer && ref.node != in.entry.node {
			l.info(ref.node, path, "is missing; scorer %q weighs 1", ref.ref)
		}
		return 1
	}
	w, ok := finite(ref.weight)
	switch {
	case !ok:
		l.fault(ref.weight, path, "must be a finite number, not %s", kindOf(ref.weight))
	case in.role != RoleScorer:
		l.warn(ref.weight, path, "has no effect: %q is a %s, and only scorers have weights", ref.ref, in.role)
	case math.Abs(w) > maxWeight:
		l.fault(ref.weight, path, "%v is out of range; it must be between −1e12 and 1e12", w)
	case w < 0:
		l.warn(ref.weight, path, "%v is negative: endpoints that %q rates low are preferred", w, ref.ref)
	case w == 0:
		l.warn(ref.weight, path, "is 0: scorer %q is asked and counts for nothing", ref.ref)
	}
	return w
}

// defaultPicker is the picker of a profile that names none.
func (l *loader) defaultPicker(e *profileEntry) *instance {
	l.info(e.node, join(e.path, "plugins"), "profile %q names no picker; %s is used", e.name, pick.MaxScoreType)
	for _, in := range l.instances {
		if in.typ == pick.MaxScoreType && in.plugin != nil {
			in.used = true
			return in
		}
	}
	return l.fillIn(pick.MaxScoreType)
}

// chooseHandler finds the profile handler, or fills it in.
func (l *loader) chooseHandler() {
	var found *instance
	for _, in := range l.instances {
		if in.role != RoleHandler {
			continue
		}
		if found != nil {
			l.fault(in.entry.typeAt, in.entry.path, "%q is a second profile handler besides %q; there can be one", in.name, found.name)
			continue
		}
		found = in
	}
	if found == nil {
		if n := len(l.doc.profiles); n > 1 {
			l.fault(l.doc.fields.lookup("schedulingProfiles"), "plugins", "there are %d profiles and no profile handler to choose among them", n)
			return
		}
		l.info(l.doc.fields.nodeOrNil(), "plugins", "there is no profile handler; %s is used", profile.SingleType)
		found = l.fillIn(profile.SingleType)
	}
	h, ok := found.plugin.(route.Handler)
	if !ok {
		return // its fault is reported
	}
	found.used = true
	l.handler = h
	checker, ok := found.plugin.(interface{ CheckProfiles(names []string) error })
	if !ok {
		return
	}
	var names []string
	for _, e := range l.doc.profiles {
		names = append(names, e.name)
	}
	if err := checker.CheckProfiles(names); err != nil {
		at, path := l.doc.fields.lookup("schedulingProfiles"), "schedulingProfiles"
		l.fault(at, path, "%v", err)
	}
}

// fillIn makes a plug-in that the text does not name, with its default parameters. It is
// not in byName: what the text does not declare, nothing in it can refer to.
func (l *loader) fillIn(typ string) *instance {
	in := &instance{name: l.freeName(typ), typ: typ, used: true}
	if t, ok := l.deps.Registry.Type(typ); ok {
		l.local(in, t)
	} else if typ == PrefixScorerType {
		l.remote(in)
	} else {
		l.fault(nil, "", "plug-in type %q is needed, and the registry lacks it", typ)
		in.faulty = true
	}
	l.instances = append(l.instances, in)
	return in
}

// freeName returns the name, or one like it that no plug-in of the text has.
func (l *loader) freeName(name string) string {
	for l.byName[name] != nil {
		name += "-default"
	}
	return name
}

// findUnused warns of plug-ins that nothing refers to.
func (l *loader) findUnused() {
	for _, in := range l.instances {
		if !in.used && !in.faulty && in.role != RoleElsewhere {
			l.warn(in.entry.node, in.entry.path, "no profile refers to %q; it has no effect", in.name)
		}
	}
}

// lookup returns the field's value, nil if it is absent; m may be nil.
func (m *mapping) lookup(key string) *yaml.Node {
	if m == nil {
		return nil
	}
	return m.values[key]
}

func (m *mapping) nodeOrNil() *yaml.Node {
	if m == nil {
		return nil
	}
	return m.node
}
