package follower

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/internal/kit/bus"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// policies chooses among what the collectors say of requests. Guarded by Follower.mu.
type policies struct {
	use  func(*statev1.PoolPolicy) // nil: nobody wants to know
	said map[string]saidPolicy
	used uint64 // digest of what was handed out last
	any  bool   // something was
}

type saidPolicy struct {
	policy  *statev1.PoolPolicy
	changed int64 // ns, by the collector's clock
	heard   int64 // ns, by the roster's clock
}

// OnPolicy has use called with each policy that is to be followed, when it differs from
// the one before: one call at a time, and not to be changed or called back from. It
// subscribes, so call it once, before the bus runs.
func (f *Follower) OnPolicy(use func(*statev1.PoolPolicy)) {
	f.policies.use = use
	bus.Subscribe(f.bus, bus.Policy, func() *statev1.PoolPolicy { return &statev1.PoolPolicy{} }, f.onPolicy)
}

func (f *Follower) onPolicy(m *statev1.PoolPolicy, _ bus.Meta) {
	now := f.roster.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	best, err := f.policies.hear(m, now)
	switch {
	case err != nil:
		f.drop("policy", err)
	case !f.policies.any || best.GetDigest() != f.policies.used:
		f.policies.any, f.policies.used = true, best.GetDigest()
		f.policies.use(best)
	}
}

// hear notes what a collector says and returns the policy to follow.
func (p *policies) hear(m *statev1.PoolPolicy, received int64) (*statev1.PoolPolicy, error) {
	publisher := m.GetStamp().GetPublisherId()
	if publisher == "" || m.GetChangeTime() == nil {
		return nil, fmt.Errorf("policy from %q says not who changed it when", publisher)
	}
	if p.said == nil {
		p.said = make(map[string]saidPolicy)
	}
	p.said[publisher] = saidPolicy{m, m.GetChangeTime().AsTime().UnixNano(), received}
	var best saidPolicy
	for id, s := range p.said {
		if received-s.heard > int64(policyHold) {
			delete(p.said, id)
			continue
		}
		if best.policy == nil || s.changed > best.changed || s.changed == best.changed && s.policy.GetDigest() > best.policy.GetDigest() {
			best = s
		}
	}
	return best.policy, nil
}

// policyHold is how long a collector's policy counts after its last broadcast, as
// tableHold.
const policyHold = 6 * time.Second

// PolicyDigest returns the digest of a policy's contents: all of it but stamp, digest
// and change time.
func PolicyDigest(m *statev1.PoolPolicy) (uint64, error) {
	bare := &statev1.PoolPolicy{Objectives: m.GetObjectives(), Rewrites: m.GetRewrites(), Models: m.GetModels(), CriticalModels: m.GetCriticalModels()}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(bare)
	if err != nil {
		return 0, fmt.Errorf("digest a policy: %w", err)
	}
	return xxhash.Sum64(raw), nil
}
