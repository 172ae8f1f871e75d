package broadcast

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

func TestPolicyGoesThere(t *testing.T) {
	p := &fleet.Policy{
		Objectives: []fleet.Objective{{Name: "batch", Priority: -1}},
		Rewrites: []fleet.Rewrite{{Name: "r", Rules: []fleet.RewriteRule{
			{Models: []string{"m"}, Targets: []fleet.ModelTarget{{Model: "a", Weight: 0}, {Model: "b", Weight: 3}}},
			{Targets: []fleet.ModelTarget{{Model: "c", Weight: -1}}},
		}}},
		Models:         []fleet.ServedModel{{Model: "x", Criticality: fleet.Critical}, {Model: "y"}, {Model: "z", Criticality: fleet.Sheddable, Targets: []fleet.ModelTarget{{Model: "z1", Weight: -1}}}},
		CriticalModels: []string{},
	}
	m, err := policyProto(p, time.Unix(5, 0))
	if err != nil {
		t.Fatal(err)
	}
	weight := func(n uint32) *uint32 { return &n }
	want := &statev1.PoolPolicy{
		Digest: m.GetDigest(), ChangeTime: m.GetChangeTime(),
		Objectives: []*statev1.Objective{{Name: "batch", Priority: -1}},
		Rewrites: []*statev1.ModelRewrite{{Name: "r", Rules: []*statev1.RewriteRule{
			{Models: []string{"m"}, Targets: []*statev1.ModelTarget{{Model: "a", Weight: weight(0)}, {Model: "b", Weight: weight(3)}}},
			{Targets: []*statev1.ModelTarget{{Model: "c"}}},
		}}},
		Models: []*statev1.ServedModel{
			{Model: "x", Criticality: statev1.Criticality_CRITICALITY_CRITICAL},
			{Model: "y", Criticality: statev1.Criticality_CRITICALITY_STANDARD},
			{Model: "z", Criticality: statev1.Criticality_CRITICALITY_SHEDDABLE, Targets: []*statev1.ModelTarget{{Model: "z1"}}},
		},
		CriticalModels: &statev1.CriticalModels{},
	}
	if d := cmp.Diff(want, m, protocmp.Transform()); d != "" {
		t.Error(d)
	}
	later, err := policyProto(p, time.Unix(6, 0))
	if err != nil {
		t.Fatal(err)
	}
	if later.GetDigest() != m.GetDigest() {
		t.Error("the same policy has two digests")
	}
	p.CriticalModels = nil
	without, err := policyProto(p, time.Unix(5, 0))
	if err != nil {
		t.Fatal(err)
	}
	if without.GetDigest() == m.GetDigest() || without.GetCriticalModels() != nil {
		t.Error("no list of critical models is told as an empty one")
	}
}
