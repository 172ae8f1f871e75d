package memory

import (
	"testing"

	"github.com/pointsman/pointsman/sdk/scorer"
)

// Types without parameters say so.
func TestEffectiveParameters(t *testing.T) {
	for _, typ := range []scorer.Type{NewCache(Config{}), NewAffinity(Config{})} {
		teller, ok := typ.(scorer.ParameterTeller)
		if !ok || string(teller.EffectiveParameters(nil)) != "{}" {
			t.Errorf("%s does not tell that it has none", typ.Info().GetName())
		}
		if _, _, faults := typ.Parse([]byte(`{"a":1}`)); len(faults) != 1 || faults[0].GetKey() != "a" {
			t.Errorf("%s: faults %v", typ.Info().GetName(), faults)
		}
	}
}
