package app

import (
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/router/internal/admission"
)

// usePolicy makes all further requests follow what operators say of them.
func (r *router) usePolicy(m *statev1.PoolPolicy) {
	r.gate.Use(policyOf(m))
	r.tel.Log.Info("policy of requests in use", "collector", m.GetStamp().GetPublisherId(), "objectives", len(m.GetObjectives()),
		"rewrites", len(m.GetRewrites()), "models", len(m.GetModels()), "critical_models", len(m.GetCriticalModels().GetModels()))
}

// policyOf reads a policy from the wire.
func policyOf(m *statev1.PoolPolicy) *admission.Policy {
	p := &admission.Policy{}
	for _, o := range m.GetObjectives() {
		p.Objectives = append(p.Objectives, admission.Objective{Name: o.GetName(), Priority: o.GetPriority()})
	}
	for _, w := range m.GetRewrites() {
		for _, rule := range w.GetRules() {
			p.Rules = append(p.Rules, admission.Rule{Models: rule.GetModels(), Targets: targetsOf(rule.GetTargets())})
		}
	}
	for _, s := range m.GetModels() {
		p.Models = append(p.Models, admission.Model{
			Name: s.GetModel(), Critical: s.GetCriticality() == statev1.Criticality_CRITICALITY_CRITICAL, Targets: targetsOf(s.GetTargets()),
		})
	}
	if c := m.GetCriticalModels(); c != nil {
		p.CriticalModels = append([]string{}, c.GetModels()...)
	}
	return p
}

func targetsOf(ts []*statev1.ModelTarget) []admission.Target {
	var out []admission.Target
	for _, t := range ts {
		out = append(out, admission.Target{Model: t.GetModel(), Weight: t.GetWeight()})
	}
	return out
}
