package route_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/pick"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// planner is stages with a plan: the first profile prefills, the last decodes, and one
// between them, if there is one, is for nothing.
type planner struct {
	stages
	unplanned bool // after all the first is not needed
	other     bool // the first's second choice is to prefill
	err       error
	works     *[]string
}

func (h planner) Work(_ *route.Cycle, done []*route.ProfileResult, res *route.ProfileResult) route.Work {
	_, picked := res.Best()
	*h.works = append(*h.works, fmt.Sprint(res.Profile.Name, " after ", len(done), " ", picked && res.Reservation == nil))
	if res.Profile.Name == "second" {
		return route.WorkDecode
	}
	return route.WorkPrefill
}

func (h planner) Plan(c *route.Cycle, done []*route.ProfileResult, primary *route.ProfileResult) (*route.Plan, error) {
	if h.err != nil {
		return nil, h.err
	}
	p := &route.Plan{Policy: &route.Policy{}, PrimaryPort: 9999}
	if !h.unplanned {
		first := done[0]
		s := route.Stage{Name: route.StagePrefill, Result: first}
		for _, at := range first.Ranked {
			s.Endpoints = append(s.Endpoints, &c.Snapshot.Table.Endpoints[first.Candidates[at]])
		}
		if h.other {
			s.Endpoints = s.Endpoints[1:]
		}
		p.Stages = append(p.Stages, s)
	}
	return p, nil
}

// three is a configuration of three profiles over three pods, each of which has its own.
func three(h route.Handler) *route.Config {
	picker := pick.NewMaxScore("p", 1)
	only := func(name string, drop ...int32) *route.Profile {
		dropped := map[int32]bool{}
		for _, d := range drop {
			dropped[d] = true
		}
		return &route.Profile{Name: name, Picker: picker, Filters: []route.Filter{dropper{name, dropped}}}
	}
	return &route.Config{Handler: h, Profiles: []*route.Profile{only("first", 2), only("between", 0, 2), only("second", 0, 1)}}
}

func TestPlansAreCompletedAndNothingLeaks(t *testing.T) {
	for name, c := range map[string]struct {
		h        planner
		inFlight []int64 // when it is decided
		stages   int
	}{
		"a stage":         {planner{}, []int64{1, 0, 1}, 1},
		"not needed":      {planner{unplanned: true}, []int64{0, 0, 1}, 0},
		"its second":      {planner{other: true}, []int64{0, 1, 1}, 1},
		"refused":         {planner{err: fmt.Errorf("%w: no prefill", route.ErrNoEndpoint)}, []int64{0, 0, 0}, 0},
		"nobody decodes":  {planner{stages: stages{fail: true}}, []int64{0, 0, 0}, 0},
		"it never ends":   {planner{stages: stages{endless: true}}, []int64{0, 0, 0}, 0},
		"refused, others": {planner{err: errors.New("other")}, []int64{0, 0, 0}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var works []string
			c.h.works = &works
			g := newRig(t, &fan{}, with{}, pod{InFlight: 0}, pod{InFlight: 5}, pod{})
			base := int64(5)
			g.Use(three(c.h))
			d := g.Decide(t.Context(), request())
			s := g.r.Snapshot()
			got := []int64{s.InFlight(0), s.InFlight(1) - base, s.InFlight(2)}
			if diff := cmp.Diff(c.inFlight, got); diff != "" {
				t.Errorf("in flight: %s", diff)
			}
			if c.inFlight[2] == 0 {
				if d.Err == nil || d.Plan != nil || d.Reservation != nil {
					t.Errorf("decision %+v", d)
				}
				return
			}
			if d.Plan == nil || len(d.Plan.Stages) != c.stages {
				t.Fatalf("plan %+v, err %v", d.Plan, d.Err)
			}
			if diff := cmp.Diff([]string{"first after 0 true", "between after 1 true", "second after 2 true"}, works); diff != "" {
				t.Error(diff)
			}
			if to := d.AddressOf(d.Endpoint); to != "192.168.1.3:9999" {
				t.Errorf("sent to %s", to)
			}
			d.Reservation.Finish(true, route.NoUsage())
			if len(g.l.open) != 0 {
				t.Errorf("%d reservations are left", len(g.l.open))
			}
		})
	}
}

func TestExplainingReservesNothingForStages(t *testing.T) {
	var works []string
	g := newRig(t, &fan{}, with{}, pod{}, pod{}, pod{})
	g.Use(three(planner{works: &works}))
	d := g.Explain(t.Context(), request())
	if s := d.Plan.Stage(route.StagePrefill); s == nil || s.Reservation != nil || len(g.l.all) != 0 {
		t.Fatalf("stage %+v, %d reserved", s, len(g.l.all))
	}
	d.TakeOver(&d.Plan.Stages[0]) // does nothing
}

// The first token says that the stages are done: their endpoints are free again while the
// answer goes on.
func TestStagesEndWithTheFirstToken(t *testing.T) {
	var works []string
	g := newRig(t, &fan{}, with{}, pod{}, pod{}, pod{})
	g.Use(three(planner{works: &works}))
	d := g.Decide(t.Context(), request())
	d.Reservation.FirstToken()
	if s := g.r.Snapshot(); s.InFlight(0) != 0 || s.InFlight(2) != 1 {
		t.Errorf("in flight %d, %d, want 0, 1", s.InFlight(0), s.InFlight(2))
	}
	d.Reservation.Finish(true, route.NoUsage())
	if len(g.l.open) != 0 {
		t.Errorf("%d reservations are left", len(g.l.open))
	}
}

func TestTakingAStageOver(t *testing.T) {
	var works []string
	g := newRig(t, &fan{}, with{}, pod{}, pod{}, pod{})
	g.Use(three(planner{works: &works}))
	d := g.Decide(t.Context(), request())
	for range 2 {
		d.TakeOver(d.Plan.Stage(route.StagePrefill))
		if s := g.r.Snapshot(); s.InFlight(0) != 0 || s.InFlight(2) != 1 || g.l.here != 1 {
			t.Errorf("in flight %d, %d, prefilled here %d times, want 0, 1, 1", s.InFlight(0), s.InFlight(2), g.l.here)
		}
	}
	d.Reservation.Finish(true, route.NoUsage())
	if d.Plan.Type() != "prefill-decode" {
		t.Error("the plan has changed")
	}
}

func TestPlanTypes(t *testing.T) {
	prefill, encode := route.Stage{Name: route.StagePrefill}, route.Stage{Name: route.StageEncode}
	for want, p := range map[string]*route.Plan{
		"decode-only":           {},
		"prefill-decode":        {Stages: []route.Stage{prefill}},
		"encode-decode":         {Stages: []route.Stage{encode}},
		"encode-prefill-decode": {Stages: []route.Stage{encode, prefill}},
	} {
		if got := p.Type(); got != want {
			t.Errorf("type %s, want %s", got, want)
		}
	}
	if got := (*route.Plan)(nil).Type(); got != "decode-only" {
		t.Errorf("without a plan: %s", got)
	}
}

func TestAddressOf(t *testing.T) {
	e := &roster.Endpoint{Host: "fd00::1", Port: 8003, Address: "[fd00::1]:8003"}
	for want, p := range map[string]*route.Plan{"[fd00::1]:8003": nil, "[fd00::1]:8000": {PrimaryPort: 8000}} {
		if got := (&route.Decision{Plan: p}).AddressOf(e); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, p := range []*route.Plan{{}, {PrimaryPort: 8003}} {
		if got := (&route.Decision{Plan: p}).AddressOf(e); got != e.Address {
			t.Errorf("%s, want its own", got)
		}
	}
}
