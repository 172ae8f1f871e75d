package requests

import "testing"

func TestEffectiveParameters(t *testing.T) {
	for _, c := range []struct {
		typ        *Type
		text, want string
		instance   any
	}{
		{NewQueue(Config{}), "", "{}", nil},
		{NewRunning(Config{}), "{}", "{}", nil},
		{NewLoadAware(Config{}), "", `{"threshold":128}`, int64(128)},
		{NewLoadAware(Config{}), `{"Threshold":5}`, `{"threshold":5}`, int64(5)},
	} {
		got := c.typ.EffectiveParameters([]byte(c.text))
		instance, _, faults := c.typ.Parse(got)
		if string(got) != c.want || instance != c.instance || len(faults) > 0 {
			t.Errorf("%s %q: %s makes %v, want %s and %v, faults %v", c.typ.info.GetName(), c.text, got, instance, c.want, c.instance, faults)
		}
	}
}
