package follower

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

func wirePolicy(t *testing.T, publisher string, changed int64, objective string) *statev1.PoolPolicy {
	t.Helper()
	m := &statev1.PoolPolicy{
		Stamp: &statev1.Stamp{PublisherId: publisher, Sequence: 1}, ChangeTime: timestamppb.New(time.Unix(changed, 0)),
		Objectives: []*statev1.Objective{{Name: objective, Priority: 1}},
	}
	var err error
	if m.Digest, err = PolicyDigest(m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestThePolicyThatChangedLastIsFollowed(t *testing.T) {
	var ps policies
	hear := func(m *statev1.PoolPolicy, at time.Duration) string {
		t.Helper()
		best, err := ps.hear(m, int64(at))
		if err != nil {
			t.Fatal(err)
		}
		return best.GetObjectives()[0].GetName()
	}
	old, fresh := wirePolicy(t, "c1", 100, "old"), wirePolicy(t, "c2", 200, "new")
	for _, step := range []struct {
		say  *statev1.PoolPolicy
		at   time.Duration
		want string
	}{
		{old, 1 * time.Second, "old"},
		{fresh, 2 * time.Second, "new"},
		{old, 3 * time.Second, "new"},
		{old, 9 * time.Second, "old"}, // c2 has fallen silent
	} {
		if got := hear(step.say, step.at); got != step.want {
			t.Errorf("at %v %s is followed, want %s", step.at, got, step.want)
		}
	}
}

func TestPoliciesOfNobodyAreRefused(t *testing.T) {
	for name, m := range map[string]*statev1.PoolPolicy{
		"no publisher":   {ChangeTime: timestamppb.Now()},
		"no change time": {Stamp: &statev1.Stamp{PublisherId: "c"}},
	} {
		var ps policies
		if _, err := ps.hear(m, 1); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What says the same has the same digest, whoever says it when; what does not, not.
func TestDigestsStandForContents(t *testing.T) {
	same := wirePolicy(t, "c1", 1, "x").GetDigest() == wirePolicy(t, "c2", 2, "x").GetDigest()
	differs := wirePolicy(t, "c1", 1, "x").GetDigest() != wirePolicy(t, "c1", 1, "y").GetDigest()
	if !same || !differs {
		t.Errorf("same contents same digest: %v; other contents another digest: %v", same, differs)
	}
	none, err := PolicyDigest(&statev1.PoolPolicy{})
	if err != nil {
		t.Fatal(err)
	}
	empty, err := PolicyDigest(&statev1.PoolPolicy{CriticalModels: &statev1.CriticalModels{}})
	if err != nil {
		t.Fatal(err)
	}
	if none == empty {
		t.Error("an empty list of critical models has the digest of none")
	}
}
