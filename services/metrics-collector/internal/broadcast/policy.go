package broadcast

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pointsman/pointsman/internal/kit/follower"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

// UsePolicy has a policy told from now on: at once if it differs from the one before,
// and with every table. Safe to call before the part runs.
func (c *Broadcaster) UsePolicy(p *fleet.Policy) error {
	m, err := policyProto(p, p.Changed)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.policy != nil {
		if c.policy.GetDigest() == m.GetDigest() {
			return nil
		}
		if before := c.policy.GetChangeTime().AsTime(); !p.Changed.After(before) {
			m.ChangeTime = timestamppb.New(before.Add(time.Nanosecond)) // a file put back keeps its old date
		}
	}
	c.policy = m
	select {
	case c.policyChanged <- struct{}{}:
	default: // not yet told of the one before
	}
	return nil
}

func (c *Broadcaster) tellPolicy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.policy != nil {
		c.complain("policy", c.policies.Publish(c.policy))
	}
}

// policyProto puts a policy on the wire, without stamp.
func policyProto(p *fleet.Policy, changed time.Time) (*statev1.PoolPolicy, error) {
	m := &statev1.PoolPolicy{ChangeTime: timestamppb.New(changed)}
	for _, o := range p.Objectives {
		m.Objectives = append(m.Objectives, &statev1.Objective{Name: o.Name, Priority: o.Priority})
	}
	for _, r := range p.Rewrites {
		w := &statev1.ModelRewrite{Name: r.Name}
		for _, rule := range r.Rules {
			w.Rules = append(w.Rules, &statev1.RewriteRule{Models: rule.Models, Targets: targets(rule.Targets)})
		}
		m.Rewrites = append(m.Rewrites, w)
	}
	for _, s := range p.Models {
		w := &statev1.ServedModel{Model: s.Model, Criticality: statev1.Criticality_CRITICALITY_STANDARD, Targets: targets(s.Targets)}
		switch s.Criticality {
		case fleet.Critical:
			w.Criticality = statev1.Criticality_CRITICALITY_CRITICAL
		case fleet.Sheddable:
			w.Criticality = statev1.Criticality_CRITICALITY_SHEDDABLE
		case fleet.Standard:
		}
		m.Models = append(m.Models, w)
	}
	if p.CriticalModels != nil {
		m.CriticalModels = &statev1.CriticalModels{Models: p.CriticalModels}
	}
	var err error
	m.Digest, err = follower.PolicyDigest(m)
	return m, err
}

func targets(from []fleet.ModelTarget) []*statev1.ModelTarget {
	var out []*statev1.ModelTarget
	for _, t := range from {
		w := &statev1.ModelTarget{Model: t.Model}
		if t.Weight >= 0 {
			weight := uint32(t.Weight) //nolint:gosec // at most a million
			w.Weight = &weight
		}
		out = append(out, w)
	}
	return out
}
