package app

import (
	"testing"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/decisions"
	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

func TestAdmissionsAreCounted(t *testing.T) {
	tel := telemetry.Discard()
	o, err := newObserver(decisions.NewLog(), tel)
	if err != nil {
		t.Fatal(err)
	}
	snapshot := routetest.Roster(t).Snapshot()
	for _, a := range []route.Admission{{}, {Asked: true}, {Asked: true}, {Asked: true, Shed: true}} {
		o.Decided(&route.Decision{Request: &route.Request{Headers: route.NoHeaders{}}, Snapshot: snapshot, Admission: a})
	}
	o.Decided(&route.Decision{Request: &route.Request{Headers: route.NoHeaders{}, Model: "b", ClientModel: "a"}, Snapshot: snapshot})
	for result, want := range map[string]float64{"nobody": 2, "admitted": 2, "shed": 1} {
		if got := tel.Value("pointsman_router_admission_total", "result", result); got != want {
			t.Errorf("%s: %v, want %v", result, got, want)
		}
	}
	if got := tel.Value("pointsman_router_model_rewrites_total"); got != 1 {
		t.Errorf("%v rewrites, want 1", got)
	}
}
