package route_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pointsman/pointsman/services/router/internal/filter"
	"github.com/pointsman/pointsman/services/router/internal/pick"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// stages runs all profiles, one after the other; the last one's result counts.
type stages struct {
	fail    bool
	endless bool
}

func (stages) Name() string { return "stages" }

func (h stages) Next(_ *route.Cycle, profiles []*route.Profile, done []*route.ProfileResult) []*route.Profile {
	if h.endless {
		return profiles[:1]
	}
	if len(done) == len(profiles) {
		return nil
	}
	return profiles[len(done) : len(done)+1]
}

func (h stages) Primary(_ *route.Cycle, done []*route.ProfileResult) (*route.ProfileResult, error) {
	if h.fail {
		return nil, fmt.Errorf("%w: the handler says so", route.ErrNoEndpoint)
	}
	if h.endless {
		return nil, nil
	}
	return done[len(done)-1], nil
}

func twoStages(h route.Handler) *route.Config {
	picker := pick.NewMaxScore("p", 1)
	first := &route.Profile{Name: "first", Picker: picker, Filters: []route.Filter{dropper{"f", map[int32]bool{1: true}}}}
	second := &route.Profile{Name: "second", Picker: picker, Filters: []route.Filter{dropper{"s", map[int32]bool{0: true}}}}
	return &route.Config{Handler: h, Profiles: []*route.Profile{first, second}}
}

// With several profiles every pick is reserved, and the primary's is the decision's.
func TestEveryProfilesPickIsReserved(t *testing.T) {
	g := newRig(t, &fan{}, with{}, pod{}, pod{})
	g.Use(twoStages(stages{}))
	d := g.Decide(t.Context(), request())
	if d.Err != nil || len(d.Results) != 2 || d.Endpoint.ID != "pod-0001" {
		t.Fatalf("decision %+v", d)
	}
	if d.Results[1].Reservation == nil || d.Reservation.PickID() != d.Results[1].Reservation.PickID() || d.Results[0].Reservation == nil {
		t.Error("the decision's reservation is not the primary's, or the other is missing")
	}
	if s := g.r.Snapshot(); s.InFlight(0) != 1 || s.InFlight(1) != 1 {
		t.Errorf("in flight %d, %d; want 1, 1", s.InFlight(0), s.InFlight(1))
	}
	d.Reservation.Finish(true, route.NoUsage())
	if s := g.r.Snapshot(); s.InFlight(0) != 0 || s.InFlight(1) != 0 {
		t.Errorf("in flight %d, %d after the decision's reservation ended; want 0, 0", s.InFlight(0), s.InFlight(1))
	}
}

func TestNothingStaysReservedWithoutAPick(t *testing.T) {
	g := newRig(t, &fan{}, with{}, pod{}, pod{})
	for _, h := range []stages{{fail: true}, {endless: true}} {
		g.Use(twoStages(h))
		d := g.Decide(t.Context(), request())
		if !errors.Is(d.Err, route.ErrNoEndpoint) || d.Endpoint != nil || d.Reservation != nil {
			t.Errorf("%+v: %v", h, d.Err)
		}
		if len(d.Results) < 2 || len(g.l.open) != 0 {
			t.Errorf("%+v: %d results, %d reservations left", h, len(d.Results), len(g.l.open))
		}
	}
}

// M23: the row records an error for a profile with nothing but the affinity filter and
// endpoints without adapter figures. Here nothing is known against them, and they
// serve.
func TestM23AffinityFilterAloneWithoutAdapterFigures(t *testing.T) {
	f, err := filter.NewLoRAAffinity("lora-affinity-filter", .999)
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, &fan{}, with{filters: []route.Filter{f}}, pod{}, pod{})
	if d := g.Decide(t.Context(), request()); d.Err != nil {
		t.Error(d.Err)
	}
	full := pod{Max: 1, Active: []string{"other"}}
	g = newRig(t, &fan{}, with{filters: []route.Filter{f}}, full, full)
	if d := g.Decide(t.Context(), request()); !errors.Is(d.Err, route.ErrShed) {
		t.Errorf("all slots taken: %v", d.Err)
	}
}
