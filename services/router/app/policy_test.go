package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/router/internal/admission"
)

func TestPolicyIsReadFromTheWire(t *testing.T) {
	weight := func(n uint32) *uint32 { return &n }
	m := &statev1.PoolPolicy{
		Objectives: []*statev1.Objective{{Name: "batch", Priority: -1}},
		Rewrites: []*statev1.ModelRewrite{
			{Name: "r", Rules: []*statev1.RewriteRule{{Models: []string{"a"}, Targets: []*statev1.ModelTarget{{Model: "b", Weight: weight(3)}, {Model: "c", Weight: weight(0)}}}}},
			{Name: "s", Rules: []*statev1.RewriteRule{{Targets: []*statev1.ModelTarget{{Model: "d"}}}}},
		},
		Models: []*statev1.ServedModel{
			{Model: "x", Criticality: statev1.Criticality_CRITICALITY_CRITICAL},
			{Model: "y", Criticality: statev1.Criticality_CRITICALITY_STANDARD, Targets: []*statev1.ModelTarget{{Model: "y1"}}},
			{Model: "z"},
		},
		CriticalModels: &statev1.CriticalModels{},
	}
	want := &admission.Policy{
		Objectives: []admission.Objective{{Name: "batch", Priority: -1}},
		Rules: []admission.Rule{
			{Models: []string{"a"}, Targets: []admission.Target{{Model: "b", Weight: 3}, {Model: "c"}}},
			{Targets: []admission.Target{{Model: "d"}}},
		},
		Models:         []admission.Model{{Name: "x", Critical: true}, {Name: "y", Targets: []admission.Target{{Model: "y1"}}}, {Name: "z"}},
		CriticalModels: []string{},
	}
	if d := cmp.Diff(want, policyOf(m)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&admission.Policy{}, policyOf(&statev1.PoolPolicy{})); d != "" {
		t.Errorf("an empty policy: %s", d)
	}
}
