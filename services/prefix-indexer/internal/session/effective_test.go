package session

import "testing"

func TestEffectiveParameters(t *testing.T) {
	typ := New(Config{})
	for text, want := range map[string]string{"": `{"headerName":"x-session-token"}`, `{"HeaderName":"X-Mine"}`: `{"headerName":"x-mine"}`} {
		got := typ.EffectiveParameters([]byte(text))
		before, _, _ := typ.Parse([]byte(text))
		after, _, faults := typ.Parse(got)
		if string(got) != want || before != after || len(faults) > 0 {
			t.Errorf("%s comes to %s, which makes %v, want %s and %v; faults %v", text, got, after, want, before, faults)
		}
	}
}
