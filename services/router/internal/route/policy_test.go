package route_test

import (
	"testing"
	"time"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestWhatFollowsAFailure(t *testing.T) {
	const retry, local, fail = route.RetryOther, route.Local, route.Fail
	policy := func(actions ...route.Action) *route.StagePolicy {
		return &route.StagePolicy{OnFailure: actions, Attempts: 3, Timeout: time.Second, Budget: 10 * time.Second}
	}
	for name, c := range map[string]struct {
		policy  *route.StagePolicy
		failed  int
		spent   time.Duration
		another bool
		want    route.Action
	}{
		"another":                   {policy(retry, local), 1, time.Second, true, retry},
		"another, the last attempt": {policy(retry, local), 2, time.Second, true, retry},
		"no attempt left":           {policy(retry, local), 3, time.Second, true, local},
		"the budget is spent":       {policy(retry, local), 1, 10 * time.Second, true, local},
		"nobody else":               {policy(retry, fail), 1, time.Second, false, fail},
		"no retries":                {policy(local), 1, time.Second, true, local},
		"fail":                      {policy(fail), 1, time.Second, true, fail},
		"nothing said":              {policy(), 1, time.Second, true, fail},
	} {
		if got := c.policy.After(c.failed, c.spent, c.another); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
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
