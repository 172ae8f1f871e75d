package epconfig

import (
	"github.com/pointsman/pointsman/services/router/internal/profile"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func pdParameters() []Parameter {
	return append([]Parameter{
		{Name: "decodeProfile", Default: keyDecode, Summary: "Name of the profile that picks the endpoint that decodes."},
		{Name: "prefillProfile", Default: route.StagePrefill, Summary: "Name of the profile that picks the endpoint that prefills."},
		{Name: "threshold", Schema: `{"type": "integer", "minimum": 0}`, Summary: "Fewest bytes of the prompt that are not cached where it is decoded, for it to be prefilled elsewhere. 0: all are. Not together with deciderPluginName."},
		{Name: "hashBlockSize", Schema: `{"type": "integer", "minimum": 1}`, Summary: "Accepted, of no effect: the prefix scorer tells how long its blocks are."},
		{Name: "deciderPluginName", Schema: textSchema, Summary: "Name of the decider. Default: the plug-in named " + profile.PrefixBasedType + ", if there is one and no threshold is given; else threshold 0."},
		{Name: primaryPort, Default: 0, Summary: "Port at which all data-parallel ranks of a server are reached; 0: each is reached at its own.", Schema: portSchema},
		{Name: "prefixPluginName", Schema: textSchema, Summary: "Accepted, of no effect: the prefix scorer of the decode profile tells."},
		{Name: "prefixPluginType", Schema: textSchema, Summary: "Accepted, of no effect, as prefixPluginName."},
		{Name: producerName, Schema: textSchema, Summary: "Accepted, of no effect, as prefixPluginName."},
	}, policyParameters()...)
}

func newPD(name string, p *Params) (any, error) {
	profiles := map[string]named{
		keyDecode:          {p.String("decodeProfile"), "decodeProfile", p.At("decodeProfile")},
		route.StagePrefill: {p.String("prefillProfile"), "prefillProfile", p.At("prefillProfile")},
	}
	var cfg profile.DisaggConfig
	p.takeProfiles(&cfg, profiles)
	cfg.Encode = "" // it knows no such stage
	cfg.PrefillDecider = p.pdDecider()
	cfg.PrimaryPort = p.port(primaryPort, 0)
	if at := p.At("hashBlockSize"); at != nil {
		if size := p.Int("hashBlockSize"); size <= 0 {
			p.Fault(at, "hashBlockSize", "must be above 0, not %d", size)
		}
		p.report.info(at, join(p.path, "hashBlockSize"), "is not needed here: the prefix scorer tells how long its blocks are")
	}
	for _, key := range []string{"prefixPluginName", "prefixPluginType", producerName} {
		if at := p.At(key); at != nil {
			p.String(key)
			p.report.info(at, join(p.path, key), "is not needed here: the prefix scorer of the decode profile tells")
		}
	}
	p.policy(&cfg)
	if p.Failed() {
		return nil, nil
	}
	p.neverRun(&cfg)
	return profile.NewDisagg(name, cfg)
}

// pdDecider is the decider that is named, or the rule of before there were any.
func (p *Params) pdDecider() profile.Decider {
	threshold, name := p.At("threshold"), p.At("deciderPluginName")
	switch {
	case threshold != nil && name != nil:
		p.Fault(threshold, "threshold", "cannot stand beside deciderPluginName; write one or the other")
		return nil
	case threshold != nil:
		bytes := p.Int("threshold")
		if bytes < 0 {
			p.Fault(threshold, "threshold", "must be at least 0, not %d", bytes)
		}
		return profile.NewThreshold(bytes)
	case name != nil:
		if _, ok := p.name(name, "deciderPluginName"); !ok {
			return nil
		}
		return p.decider(named{p.String("deciderPluginName"), "deciderPluginName", name}, route.StagePrefill)
	case p.declares(profile.PrefixBasedType):
		p.report.info(p.node, p.path, "the decider is %q", profile.PrefixBasedType)
		p.note("deciderPluginName", jsonText(profile.PrefixBasedType))
		return p.decider(named{profile.PrefixBasedType, "deciderPluginName", p.node}, route.StagePrefill)
	}
	p.report.info(p.node, p.path, "threshold is 0: every prompt is prefilled elsewhere")
	p.note("threshold", "0")
	return profile.NewThreshold(0)
}
