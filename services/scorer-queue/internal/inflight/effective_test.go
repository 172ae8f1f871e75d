package inflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What parameters are said to come to makes the same instance and comes to itself.
func TestEffectiveParameters(t *testing.T) {
	for _, c := range []struct {
		typ        *Type
		text, want string
	}{
		{NewTokens(Config{}), "", `{"queueThresholdTokens":4194304}`},
		{NewTokens(Config{}), `{"QUEUEthresholdTokens":8}`, `{"queueThresholdTokens":8}`},
		{NewActive(Config{}), "", `{"idleThreshold":0,"maxBusyScore":1}`},
		{NewActive(Config{}), `{"maxBusyScore":0.25,"idleThreshold":3,"requestTimeout":"1m"}`, `{"idleThreshold":3,"maxBusyScore":0.25,"requestTimeout":"1m"}`},
	} {
		t.Run(c.typ.info.GetName()+c.text, func(t *testing.T) {
			got := c.typ.EffectiveParameters([]byte(c.text))
			if d := cmp.Diff(c.want, string(got)); d != "" {
				t.Error(d)
			}
			if again := c.typ.EffectiveParameters(got); string(again) != string(got) {
				t.Errorf("comes to %s", again)
			}
			before, _, _ := c.typ.Parse([]byte(c.text))
			after, _, faults := c.typ.Parse(got)
			if d := cmp.Diff(before, after, cmp.AllowUnexported(activeSettings{})); d != "" || len(faults) > 0 {
				t.Errorf("%v %s", faults, d)
			}
		})
	}
}
