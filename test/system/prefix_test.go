package system

import (
	"testing"

	"github.com/pointsman/pointsman/test/cluster"
)

// randomRouting picks without looking.
const randomRouting = `{"apiVersion":"inference.networking.x-k8s.io/v1alpha1","kind":"EndpointPickerConfig",
"plugins":[{"type":"random-picker"},{"type":"single-profile-handler"}],
"schedulingProfiles":[{"name":"default","plugins":[{"pluginRef":"random-picker"}]}]}`

// 2,000 multi-turn requests over five processes and 8 model servers: no error, and
// twice the prefix hits of random routing; with two routers the same hits, since
// what one learns all know.
func TestConversationsStayWhereTheirPrefixIs(t *testing.T) {
	w := conversations(400)
	run := func(name string, o cluster.Options) (ratio float64) {
		t.Run(name, func(t *testing.T) {
			o.Servers, o.Server, o.Plain, o.RouterSets = 8, fast, true, patient
			c := cluster.Start(t, o)
			if n := replay(t, c, w, 16); n != 2000 {
				t.Errorf("%d requests were answered, want 2000", n)
			}
			ratio = c.HitRatio()
			t.Logf("prefix hit ratio %.3f", ratio)
		})
		return ratio
	}
	random := run("random", cluster.Options{ConfigText: randomRouting})
	one := run("one router", cluster.Options{})
	two := run("two routers", cluster.Options{Routers: 2})
	if one < 2*random {
		t.Errorf("hit ratio %.3f, want at least twice the %.3f of random routing", one, random)
	}
	if two < 0.95*one || two > 1.05*one {
		t.Errorf("hit ratio %.3f with two routers, want within 5 %% of the %.3f with one", two, one)
	}
}
