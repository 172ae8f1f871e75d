package prefix

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
)

// What parameters are said to come to makes the same instance, with the same needs, and
// comes to itself.
func TestEffectiveParameters(t *testing.T) {
	const rest = `"autoTune":false,"maxPrefixBlocksToMatch":256,"maxPrefixTokensToMatch":0,"lruCapacityPerServer":31250`
	for text, want := range map[string]string{
		"":                                  `{"hashBlockSize":64,` + rest + `}`,
		`{"BLOCKSIZE":5}`:                   `{"blockSize":5,` + rest + `}`,
		`{"blockSizeTokens":16}`:            `{"blockSizeTokens":16,` + rest + `}`,
		`{"lruCapacityPerServer":0}`:        `{"hashBlockSize":64,` + rest + `}`,
		`{"maxPrefixBlocksToMatch":100000}`: `{"hashBlockSize":64,"autoTune":false,"maxPrefixBlocksToMatch":8192,"maxPrefixTokensToMatch":0,"lruCapacityPerServer":31250}`,
		`{"autoTune":true,"maxPrefixTokensToMatch":4096,"lruCapacityPerServer":7}`: `{"hashBlockSize":64,"autoTune":true,"maxPrefixBlocksToMatch":256,"maxPrefixTokensToMatch":4096,"lruCapacityPerServer":7}`,
	} {
		t.Run(text, func(t *testing.T) {
			scorer := New(Config{})
			got := scorer.EffectiveParameters([]byte(text))
			if d := cmp.Diff(want, string(got)); d != "" {
				t.Error(d)
			}
			if again := scorer.EffectiveParameters(got); string(again) != string(got) {
				t.Errorf("comes to %s", again)
			}
			before, needs, _ := scorer.Parse([]byte(text))
			after, same, faults := scorer.Parse(got)
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			if d := cmp.Diff(before.(*instance).Settings, after.(*instance).Settings); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(needs, same, protocmp.Transform()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestEffectiveParametersOfNoHit(t *testing.T) {
	scorer := NewNoHit(Config{}, nil)
	got := scorer.EffectiveParameters([]byte(`{"lruSize":9,"blockSizeTokens":16,"prefixPluginName":"p"}`))
	const want = `{"blockSizeTokens":16,"autoTune":false,"maxPrefixBlocksToMatch":256,"maxPrefixTokensToMatch":0,"lruCapacityPerServer":31250,"lruSize":9,"prefixPluginName":"p"}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
	v, _, faults := scorer.Parse(got)
	in := v.(*noHit)
	if len(faults) > 0 || in.size != 9 || in.BlockSize != 64 {
		t.Errorf("%+v, faults %v", in.Settings, faults)
	}
}
