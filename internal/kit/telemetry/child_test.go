package telemetry_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

func TestChildrenDoNotMix(t *testing.T) {
	tel, err := telemetry.New("collector", "v1", telemetry.DefaultConfig(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	count := func(tel *telemetry.Telemetry, n int64) {
		t.Helper()
		c, err := tel.Meter.Int64Counter("pointsman_things_total", metric.WithDescription("Things."))
		if err != nil {
			t.Fatal(err)
		}
		c.Add(t.Context(), n)
	}
	a, endA, err := tel.Child("pool", "a")
	if err != nil {
		t.Fatal(err)
	}
	b, endB, err := tel.Child("pool", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer endB()
	count(tel, 1)
	count(a, 2)
	count(b, 4)
	want := func(n float64, attrs ...string) {
		t.Helper()
		if got := tel.Value("pointsman_things_total", attrs...); got != n {
			t.Errorf("%v: %v, want %v", attrs, got, n)
		}
	}
	want(7)
	want(2, "pool", "a")
	want(4, "pool", "b")

	a.Health.Set("nats", errors.New("away"))
	if ready, why := tel.Health.Ready(); !ready {
		t.Errorf("a child makes the process unready: %v", why)
	}
	endA()
	want(5)
	want(0, "pool", "a")
	families, err := tel.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "pointsman_things_total" && (len(f.GetMetric()) != 2 || !strings.HasPrefix(f.GetHelp(), "Things")) {
			t.Errorf("family %v", f)
		}
	}
}

func TestInstrumentsAreListed(t *testing.T) {
	tel := telemetry.Discard()
	child, done, err := tel.Child("pool", "a")
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	_, errC := tel.Meter.Int64Counter("pointsman_b_total", metric.WithDescription("Bs."))
	_, errG := child.Meter.Float64ObservableGauge("pointsman_a", metric.WithDescription("An a."))
	_, errH := tel.Meter.Float64Histogram("pointsman_c_seconds", metric.WithDescription("Cs."))
	if err := errors.Join(errC, errG, errH); err != nil {
		t.Fatal(err)
	}
	want := []telemetry.Instrument{{"pointsman_a", "gauge", "An a."}, {"pointsman_b_total", "counter", "Bs."}, {"pointsman_c_seconds", "histogram", "Cs."}}
	if d := cmp.Diff(want, tel.Instruments()); d != "" {
		t.Error(d)
	}
}
