package route_test

import (
	"testing"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestWhoFallsBack(t *testing.T) {
	const retry, local, fail = route.RetryOther, route.Local, route.Fail
	policy := func(actions ...route.Action) *route.StagePolicy { return &route.StagePolicy{OnFailure: actions} }
	for _, c := range []struct {
		policy *route.StagePolicy
		want   bool
	}{{policy(retry, local), true}, {policy(local), true}, {policy(retry, fail), false}, {policy(fail), false}, {policy(), false}} {
		if got := c.policy.Falls(); got != c.want {
			t.Errorf("%v falls back: %v", c.policy.OnFailure, got)
		}
	}
	p := &route.Policy{Prefill: *policy(local), Encode: *policy(fail)}
	if p.Of(route.StagePrefill) != &p.Prefill || p.Of(route.StageEncode) != &p.Encode {
		t.Error("policies are mixed up")
	}
}
