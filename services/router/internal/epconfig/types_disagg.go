package epconfig

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/services/router/internal/profile"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Keys of the parameters of disaggregation.
const (
	keyProfiles  = "profiles"
	keyDeciders  = "deciders"
	keyOrder     = "stageOrder"
	keyDecode    = "decode"
	keyFallback  = "fallback"
	prefillFirst = "prefill-first"
	decodeFirst  = "decode-first"
)

// older are the flat parameters of disaggregation: what each is in the two mappings.
type older struct{ name, section, key string }

func olderParameters() []older {
	return []older{
		{"decodeProfile", keyProfiles, keyDecode},
		{"prefillProfile", keyProfiles, route.StagePrefill},
		{"encodeProfile", keyProfiles, route.StageEncode},
		{"prefillDeciderPluginName", keyDeciders, route.StagePrefill},
		{"deciderPluginName", keyDeciders, route.StagePrefill},
		{"encodeDeciderPluginName", keyDeciders, route.StageEncode},
	}
}

const (
	namesSchema    = `{"type": "object", "additionalProperties": false, "properties": {"decode": {"type": "string"}, "prefill": {"type": "string"}, "encode": {"type": "string"}, "fallback": {"type": "string"}}}`
	decidersSchema = `{"type": "object", "additionalProperties": false, "properties": {"prefill": {"type": "string"}, "encode": {"type": "string"}}}`
	textSchema     = `{"type": "string"}`
)

func disaggParameters() []Parameter {
	all := []Parameter{
		{
			Name: keyProfiles, Schema: namesSchema,
			Summary: "Names of the scheduling profiles: decode (default decode), prefill (default prefill, if there is one), encode (default encode, if there is one), and " +
				"fallback (default none), whose pick serves a request all by itself when the decode profile finds nobody.",
		},
		{Name: keyDeciders, Schema: decidersSchema, Summary: "Names of the plug-ins that say which requests are prefilled, and encoded, elsewhere. A stage without one is switched off."},
		{
			Name: keyOrder, Default: decodeFirst,
			Summary: "Whose endpoint is picked first: decode-first or prefill-first. With prefill-first every prompt is prefilled elsewhere, and there can be no decider for it.",
		},
	}
	for _, o := range olderParameters() {
		all = append(all, Parameter{Name: o.name, Schema: textSchema, Summary: "Older form of " + o.section + "." + o.key + "; not together with the newer ones."})
	}
	return append(all, policyParameters()...)
}

func newDisagg(name string, p *Params) (any, error) {
	names, deciders := p.stageNames()
	cfg := profile.DisaggConfig{PrefillFirst: p.order() == prefillFirst}
	p.takeProfiles(&cfg, names)
	for stage, n := range deciders {
		d := p.decider(n, stage)
		switch {
		case d == nil:
		case stage == route.StageEncode:
			cfg.EncodeDecider = d
		default:
			cfg.PrefillDecider = d
		}
		if p.profileOf(&cfg, stage) == "" {
			p.Fault(n.at, n.key, "there is no profile %q for %q to decide about", stage, n.name)
		}
	}
	if n, both := deciders[route.StagePrefill]; both && cfg.PrefillFirst {
		p.Fault(n.at, n.key, "has nothing to decide with stageOrder %s, where every prompt is prefilled elsewhere; take one of them away", prefillFirst)
	}
	p.policy(&cfg)
	if p.Failed() {
		return nil, nil
	}
	p.note(keyProfiles, jsonObject(keyDecode, cfg.Decode, route.StagePrefill, cfg.Prefill, route.StageEncode, cfg.Encode, keyFallback, cfg.Fallback))
	p.note(keyDeciders, jsonObject(route.StagePrefill, deciders[route.StagePrefill].name, route.StageEncode, deciders[route.StageEncode].name))
	p.neverRun(&cfg)
	return profile.NewDisagg(name, cfg)
}

// named is a parameter that names something.
type named struct {
	name, key string
	at        *yaml.Node
}

// stageNames reads the names of profiles and deciders, in the newer form or the older.
func (p *Params) stageNames() (profiles, deciders map[string]named) {
	profiles = p.namesIn(keyProfiles, keyDecode, route.StagePrefill, route.StageEncode, keyFallback)
	deciders = p.namesIn(keyDeciders, route.StagePrefill, route.StageEncode)
	newer := p.At(keyProfiles) != nil || p.At(keyDeciders) != nil
	for _, o := range olderParameters() {
		at := p.At(o.name)
		if at == nil {
			continue
		}
		name, ok := p.name(at, o.name)
		n := named{name, o.name, at}
		into := profiles
		if o.section == keyDeciders {
			into = deciders
		}
		_, there := into[o.key]
		switch {
		case newer:
			p.Fault(at, o.name, "is the older form of %s.%s, and cannot stand beside %s and %s", o.section, o.key, keyProfiles, keyDeciders)
		case !ok:
		case !there: // prefillDeciderPluginName wins over deciderPluginName
			into[o.key] = n
		}
	}
	return profiles, deciders
}

// namesIn reads a mapping of names.
func (p *Params) namesIn(key string, known ...string) map[string]named {
	out := map[string]named{}
	at := p.At(key)
	if at == nil {
		return out
	}
	faults := len(p.report.faults)
	m := p.report.mapping(at, join(p.path, key))
	if m != nil {
		p.report.only(m, known...)
		for _, k := range known {
			if n := m.get(k); n != nil {
				name, _ := p.name(n, key+"."+k)
				out[k] = named{name, join(key, k), n}
			}
		}
	}
	p.failed = p.failed || len(p.report.faults) > faults
	return out
}

// name reads a text that is not empty, at a path of keys; false if it is none, which is
// reported.
func (p *Params) name(n *yaml.Node, key string) (string, bool) {
	faults := len(p.report.faults)
	name := p.report.text(n, p.path+"."+key)
	if name == "" && len(p.report.faults) == faults {
		p.Fault(n, key, "is empty; it must be a name")
	}
	p.failed = p.failed || name == ""
	return name, name != ""
}

// order reads stageOrder, in any case, with dashes, underscores or neither.
func (p *Params) order() string {
	given := p.String(keyOrder)
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(given)) {
	case "prefillfirst", "prefill":
		p.note(keyOrder, jsonText(prefillFirst))
		return prefillFirst
	case "decodefirst", "decode":
		p.note(keyOrder, jsonText(decodeFirst))
	default:
		p.Fault(p.At(keyOrder), keyOrder, "must be %s or %s, not %q", decodeFirst, prefillFirst, given)
	}
	return decodeFirst
}

// takeProfiles looks the profiles up. What is not named is there if the text has it.
func (p *Params) takeProfiles(cfg *profile.DisaggConfig, names map[string]named) {
	for _, s := range []struct {
		key  string
		into *string
		must bool
	}{{keyDecode, &cfg.Decode, true}, {route.StagePrefill, &cfg.Prefill, false}, {route.StageEncode, &cfg.Encode, false}, {keyFallback, &cfg.Fallback, false}} {
		n, given := names[s.key]
		if !given {
			n = named{name: s.key, key: join(keyProfiles, s.key)}
		}
		switch {
		case n.name == "":
		case p.hasProfile(n.name) && (given || s.key != keyFallback):
			*s.into = n.name
		case (given || s.must) && len(p.profiles) == 0:
			p.Fault(n.at, n.key, "there is no profile %q, since there are no schedulingProfiles", n.name)
		case given || s.must:
			p.Fault(n.at, n.key, "there is no profile %q%s", n.name, p.report.didYouMeanOr(n.name, p.profiles))
		}
	}
	if p.Failed() {
		return
	}
	seen := map[string]string{}
	for _, s := range [][2]string{{keyDecode, cfg.Decode}, {route.StagePrefill, cfg.Prefill}, {route.StageEncode, cfg.Encode}, {keyFallback, cfg.Fallback}} {
		if first := seen[s[1]]; first != "" && s[1] != "" {
			p.Fault(names[s[0]].at, join(keyProfiles, s[0]), "profile %q is that of %s already", s[1], first)
		}
		seen[s[1]] = s[0]
	}
}

func (p *Params) hasProfile(name string) bool {
	for _, have := range p.profiles {
		if have == name {
			return true
		}
	}
	return false
}

func (p *Params) profileOf(cfg *profile.DisaggConfig, stage string) string {
	if stage == route.StageEncode {
		return cfg.Encode
	}
	return cfg.Prefill
}

// decider finds the decider that a parameter names.
func (p *Params) decider(n named, stage string) profile.Decider {
	if n.name == "" {
		return nil // its fault is reported
	}
	d := p.deciders(n.at, p.path+"."+n.key, n.name, stage)
	p.failed = p.failed || d == nil
	return d
}

// neverRun warns of profiles that are there for nothing.
func (p *Params) neverRun(cfg *profile.DisaggConfig) {
	for _, name := range p.profiles {
		switch {
		case name == cfg.Decode, name == cfg.Fallback:
		case name == cfg.Prefill && (cfg.PrefillFirst || cfg.PrefillDecider != nil):
		case name == cfg.Encode && cfg.EncodeDecider != nil:
		case name == cfg.Prefill, name == cfg.Encode:
			p.report.warn(p.node, p.path, "profile %q never runs, since no decider is named for it in %s", name, keyDeciders)
		default:
			p.report.warn(p.node, p.path, "profile %q never runs: it is none of %s", name, keyProfiles)
		}
	}
}

// jsonObject is a JSON object of keys and texts; those that are empty are left out.
func jsonObject(pairs ...string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(jsonText(pairs[i]) + ":" + jsonText(pairs[i+1]))
	}
	b.WriteByte('}')
	return b.String()
}
