package telemetry_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

func TestHealth(t *testing.T) {
	var h telemetry.Health
	var heard []bool
	h.Subscribe(func(ready bool) { heard = append(heard, ready) })

	ask := func(want bool, reasons ...string) {
		t.Helper()
		ready, got := h.Ready()
		if ready != want {
			t.Errorf("Ready = %v, want %v", ready, want)
		}
		if d := cmp.Diff(reasons, got); d != "" {
			t.Errorf("reasons (-want +got):\n%s", d)
		}
	}
	ask(true)
	h.Set("roster", errors.New("no table yet"))
	ask(false, "roster: no table yet")
	h.Set("bus", errors.New("not connected"))
	ask(false, "bus: not connected", "roster: no table yet")
	h.Set("roster", nil)
	ask(false, "bus: not connected")
	h.Set("bus", nil)
	ask(true)
	h.Set("bus", nil)
	if d := cmp.Diff([]bool{true, false, true}, heard); d != "" {
		t.Errorf("a subscriber hears the present state and each change, once (-want +got):\n%s", d)
	}
}

// Whatever the interleaving, the last thing a subscriber hears is what is true at the end.
func TestHealthSubscribersEndWithTheTruth(t *testing.T) {
	for range 200 {
		var h telemetry.Health
		last := true
		h.Subscribe(func(ready bool) { last = ready })
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b", "c"} {
			wg.Go(func() {
				h.Set(name, errors.New("away"))
				h.Set(name, nil)
				h.Set(name, errors.New("away again"))
			})
		}
		wg.Wait()
		if ready, _ := h.Ready(); ready || last {
			t.Fatalf("Ready = %v, the subscriber heard %v, want both false", ready, last)
		}
	}
}
