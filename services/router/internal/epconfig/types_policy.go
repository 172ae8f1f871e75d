package epconfig

import (
	"encoding/json"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/services/router/internal/profile"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// What to do when a stage has failed, as configurations spell it.
const (
	actionFail  = "Fail"
	actionRetry = "RetryOther"
)

const actionsSchema = `{"type": ["string", "array"], "items": {"type": "string"}}`

// policyParameters are how stages are carried out, and what to do when one fails.
func policyParameters() []Parameter {
	return []Parameter{
		{
			Name: "onPrefillFailure", Schema: actionsSchema,
			Summary: "What to do when nobody prefills, tried in order: RetryOther (the next prefill endpoint), LocalPrefill (the endpoint that decodes prefills too), Fail (the client gets an error). " +
				"Default: RetryOther, then LocalPrefill; with connector sglang, whose decode servers cannot prefill, RetryOther, then Fail. " +
				"Without LocalPrefill a request that is to be prefilled elsewhere fails if no endpoint can.",
		},
		{Name: "prefillAttempts", Default: 2, Summary: "Most prefill endpoints tried for one request.", Schema: `{"minimum": 1}`},
		{Name: "prefillTimeout", Default: "60s", Summary: "Longest time of one attempt to prefill."},
		{Name: "prefillBudget", Default: "90s", Summary: "Longest time of all attempts to prefill one request."},
		{
			Name: "onEncodeFailure", Schema: actionsSchema,
			Summary: "The same for encoding: RetryOther, LocalEncode, Fail. Default: RetryOther, then Fail.",
		},
		{Name: "encodeAttempts", Default: 2, Summary: "Most attempts to encode for one request.", Schema: `{"minimum": 1}`},
		{Name: "encodeTimeout", Default: "30s", Summary: "Longest time of one attempt to encode."},
		{Name: "encodeBudget", Default: "45s", Summary: "Longest time of all attempts to encode for one request."},
		{
			Name: "connector", Schema: `{"enum": ["nixlv2", "sglang", "shared-storage", "mooncake", "offloading", "sidecar"]}`,
			Summary: "How the HTTP front carries stages out: nixlv2, sglang, shared-storage, mooncake, offloading, or sidecar, which leaves it to a proxy beside the endpoint that decodes. " +
				"Default: sglang for endpoints that run it, else nixlv2. Behind ext_proc it is always a sidecar.",
		},
		{Name: "bootstrapPort", Default: 8998, Summary: "Port at which prefill servers wait for decoders, with the connectors sglang and mooncake.", Schema: `{"minimum": 1, "maximum": 65535}`},
		{Name: "p2pPort", Default: 7777, Summary: "Port at which servers hand out what they have offloaded, with the connector offloading.", Schema: `{"minimum": 1, "maximum": 65535}`},
	}
}

// policy reads policyParameters.
func (p *Params) policy(cfg *profile.DisaggConfig) {
	p.connector(cfg)
	last := "LocalPrefill"
	if cfg.Connector == route.ConnectorSGLang {
		last = actionFail
	}
	cfg.Policy.Prefill = p.stagePolicy("onPrefillFailure", "LocalPrefill", []string{actionRetry, last}, route.StagePrefill)
	cfg.Policy.Encode = p.stagePolicy("onEncodeFailure", "LocalEncode", []string{actionRetry, actionFail}, route.StageEncode)
	cfg.Policy.BootstrapPort, cfg.Policy.P2PPort = p.port("bootstrapPort", 1), p.port("p2pPort", 1)
	if cfg.Connector == route.ConnectorSGLang && cfg.PrefillsHere() {
		p.Warn("connector", "servers that SGLang runs for decoding alone cannot prefill, so that a request which nobody else prefills fails there; "+
			"take "+profile.AlwaysType+" and onPrefillFailure: [RetryOther, Fail]")
	}
}

func (p *Params) connector(cfg *profile.DisaggConfig) {
	known := []string{
		string(route.ConnectorNIXL), string(route.ConnectorSGLang), string(route.ConnectorSharedStorage), string(route.ConnectorMooncake),
		string(route.ConnectorOffloading), string(route.ConnectorSidecar),
	}
	if c := p.String("connector"); c != "" && !slices.Contains(known, c) {
		p.Fault(p.At("connector"), "connector", "unknown connector %q%s", c, p.report.didYouMeanOr(c, known))
	} else {
		cfg.Connector = route.Connector(c)
	}
}

func (p *Params) stagePolicy(key, local string, otherwise []string, stage string) route.StagePolicy {
	out := route.StagePolicy{
		OnFailure: p.actions(key, local, otherwise), Attempts: p.Int(stage + "Attempts"),
		Timeout: p.time(stage + "Timeout"), Budget: p.time(stage + "Budget"),
	}
	if out.Attempts < 1 {
		p.Fault(p.At(stage+"Attempts"), stage+"Attempts", "must be at least 1, not %d", out.Attempts)
	}
	if out.Timeout > out.Budget && out.Budget > 0 {
		p.Warn(stage+"Timeout", "%v is longer than %sBudget, %v, which is what counts", out.Timeout, stage, out.Budget)
	}
	return out
}

// actions reads what to do on failure: one action or a list, the last of which ends it.
func (p *Params) actions(key, local string, otherwise []string) []route.Action {
	names := otherwise
	at := p.At(key)
	switch n := resolve(at); {
	case at == nil:
	case n.Kind == yaml.SequenceNode:
		names = p.texts(n, key)
	default:
		name, ok := p.name(at, key)
		if !ok {
			return nil
		}
		names = []string{name}
	}
	is := map[string]route.Action{actionRetry: route.RetryOther, local: route.Local, actionFail: route.Fail}
	var all []route.Action
	for i, name := range names {
		a, known := is[name]
		switch {
		case !known:
			p.Fault(at, key, "unknown action %q%s", name, p.report.didYouMeanOr(name, []string{actionRetry, local, actionFail}))
		case i > 0 && all[len(all)-1] != route.RetryOther:
			p.Fault(at, key, "%s comes after %s, and so never", name, names[i-1])
		case i > 0 && a == route.RetryOther:
			p.Fault(at, key, "%s is there twice; %s is how often it is tried", name, "Attempts")
		}
		all = append(all, a)
	}
	if len(all) == 0 || all[len(all)-1] == route.RetryOther {
		all, names = append(all, route.Fail), append(slices.Clone(names), actionFail)
	}
	if text, err := json.Marshal(names); err == nil && !p.failed {
		p.note(key, string(text))
	}
	return all
}

// time reads a length of time above 0, or its default.
func (p *Params) time(name string) time.Duration {
	if p.At(name) != nil {
		return p.Duration(name)
	}
	text, _ := p.defaultOf(name).(string)
	p.note(name, jsonText(text))
	d, err := time.ParseDuration(text)
	if err != nil { // a default that is none is caught by the test of them all
		p.Fault(nil, name, "%v", err)
	}
	return d
}
