package length

import "testing"

func TestEffectiveParameters(t *testing.T) {
	typ := New(Config{})
	for text, want := range map[string]string{
		"":                                     `{"label":"llm-d.ai/context-length-range","enableFiltering":false}`,
		`{"LABEL":"a","enableFiltering":true}`: `{"label":"a","enableFiltering":true}`,
	} {
		got := typ.EffectiveParameters([]byte(text))
		before, _, _ := typ.Parse([]byte(text))
		after, _, faults := typ.Parse(got)
		if string(got) != want || before.(*instance).label != after.(*instance).label || len(faults) > 0 {
			t.Errorf("%s comes to %s, want %s; faults %v", text, got, want, faults)
		}
	}
}
