package route_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/pick"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

type answers = []func(*route.Cycle, []int32) route.Scores

var nan = float32(math.NaN())

func approx() cmp.Option { return cmpopts.EquateApprox(1e-6, 1e-6) }

func TestTotals(t *testing.T) {
	abstains := func(values []float32, on ...uint32) func(*route.Cycle, []int32) route.Scores {
		return func(*route.Cycle, []int32) route.Scores {
			return route.Scores{Verdict: route.Scored, Values: values, AbstainedOn: on}
		}
	}
	for _, c := range []struct {
		name    string
		weights []float64
		answers answers
		want    []float64 // in table order
		best    int32
	}{
		{"G11", []float64{1, 1}, answers{gives(.3, .3), gives(.8, .8)}, []float64{1.1, 1.1}, -1},
		{"G12", []float64{60, 40}, answers{gives(.3, .3), gives(.8, .8)}, []float64{50, 50}, -1},
		{"M18 step 1", []float64{1, 1, 1}, answers{gives(.7, 1, 0), gives(.8, .9, .8), gives(0, 0, 0)}, []float64{1.5, 1.9, .8}, 1},
		{"M18 step 2", []float64{1, 1, 1}, answers{gives(.7, 1, 0), gives(.8, .9, .8), gives(0, 1, 0)}, []float64{1.5, 2.9, .8}, 1},
		{"M20", []float64{2, 3}, answers{gives(.7, 1, 0), gives(.8, .9, .8)}, []float64{3.8, 4.7, 2.4}, 1},
		{"M21 negative weight", []float64{-3}, answers{gives(.7, 1, 0)}, []float64{-2.1, -3, 0}, 2},
		// The row's scorer does not clamp; here scores are 0..1 before they are weighed.
		{"M11 clamped", []float64{1}, answers{gives(-.2, 1.1)}, []float64{0, 1}, 1},
		{"an abstention is the mean of what was given", []float64{2}, answers{abstains([]float32{.2, nan, .8}, 1)}, []float64{.4, 1, 1.6}, 2},
		// The reference (Higress's ai-endpoint-picker) counts what is missing as 0 of the worst,
		// so that a known queue always wins. Here it says nothing: the other scorer decides.
		{"Higress H4 A has no queue, B is not known to", []float64{2, 1}, answers{abstains([]float32{1, nan}, 1), gives(.5, .6)}, []float64{2.5, 2.6}, 1},
		{"a scorer that abstained on everybody is not there", []float64{1, 9}, answers{gives(.1, .2), abstains([]float32{0, 0}, 0, 1)}, []float64{.1, .2}, 1},
		{"nor one that says so", []float64{1, 9}, answers{gives(.1, .2), says(route.Abstained, "")}, []float64{.1, .2}, 1},
		{"nor one that failed", []float64{1, 9}, answers{gives(.1, .2), says(route.Failed, "x")}, []float64{.1, .2}, 1},
		{"nor one that is late", []float64{1, 9}, answers{gives(.1, .2), says(route.TimedOut, "x")}, []float64{.1, .2}, 1},
		{"nor one that did not answer", []float64{1, 9}, answers{gives(.1, .2), says(0, "")}, []float64{.1, .2}, 1},
		{"NaN fails its scorer", []float64{1, 9}, answers{gives(.1, .2), gives(1, nan)}, []float64{.1, .2}, 1},
		{"infinity fails its scorer", []float64{1, 9}, answers{gives(.1, .2), gives(float32(math.Inf(1)), 0)}, []float64{.1, .2}, 1},
		{"too few scores fail their scorer", []float64{1, 9}, answers{gives(.1, .2), gives(1)}, []float64{.1, .2}, 1},
		{"abstaining out of range fails the scorer", []float64{1, 9}, answers{gives(.1, .2), abstains([]float32{1, 0}, 2)}, []float64{.1, .2}, 1},
		{"abstaining twice fails the scorer", []float64{1, 9}, answers{gives(.1, .2), abstains([]float32{1, 0}, 0, 0)}, []float64{.1, .2}, 1},
		{"weight 0", []float64{1, 0}, answers{gives(.1, .2), gives(1, 0)}, []float64{.1, .2}, 1},
		{"huge weights", []float64{1e300, 1e300}, answers{gives(0, 1), gives(0, 1)}, []float64{0, 2e300}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, &fan{answers: c.answers}, with{scorers: scorers(c.weights...)}, make([]pod, len(c.want))...)
			d := g.Decide(t.Context(), request())
			if d.Err != nil {
				t.Fatal(d.Err)
			}
			res := d.Results[0]
			if diff := cmp.Diff(c.want, res.Totals, approx()); diff != "" {
				t.Error(diff)
			}
			if res.LeastLoad || res.Corrected {
				t.Errorf("least load %t, corrected %t", res.LeastLoad, res.Corrected)
			}
			if pos, _ := res.Best(); c.best >= 0 && pos != c.best {
				t.Errorf("picked %d, want %d", pos, c.best)
			}
		})
	}
}

// Sums which differ only by the order of their additions are ties.
func TestRoundingErrorsBreakNoTie(t *testing.T) {
	g := newRig(t, &fan{answers: answers{gives(.1, .3), gives(.2, .1), gives(.3, .2)}}, with{scorers: scorers(.1, .1, .1)}, pod{}, pod{})
	if tie := g.Decide(t.Context(), request()).Results[0].TieBreak; tie != pick.ByChance {
		t.Errorf("tie break %q", tie)
	}
}

func TestADecisionIsReservedAndTold(t *testing.T) {
	g := newRig(t, &fan{answers: answers{gives(.1, .9, .5, .3, .2, .7)}}, with{scorers: scorers(1)}, make([]pod, 6)...)
	d := g.Decide(t.Context(), request())
	if d.Err != nil || d.Endpoint.ID != "pod-0001" || d.DryRun || d.Config != g.Config() {
		t.Fatalf("decision %+v", d)
	}
	var back []roster.ID
	for _, e := range d.Fallbacks {
		back = append(back, e.ID)
	}
	if diff := cmp.Diff([]roster.ID{"pod-0005", "pod-0002", "pod-0003"}, back); diff != "" {
		t.Error(diff)
	}
	if d.Reservation == nil || d.Reservation != d.Results[0].Reservation || g.r.Snapshot().InFlight(1) != 1 {
		t.Error("the pick is not reserved")
	}
	if diff := cmp.Diff(1, len(g.o.seen)); diff != "" || g.o.seen[0] != d {
		t.Error("the observer was not told of the decision")
	}
	d.Reservation.Finish(true, route.NoUsage())
	if g.r.Snapshot().InFlight(1) != 0 {
		t.Error("the reservation does not end")
	}
}

func TestMoreEndpointsThanFallBacksIfAskedFor(t *testing.T) {
	g := newRig(t, &fan{}, with{picker: pick.NewRandom("random", 6)}, make([]pod, 8)...)
	if d := g.Decide(t.Context(), request()); len(d.Fallbacks) != 5 {
		t.Errorf("%d fall-backs, want 5", len(d.Fallbacks))
	}
}

func TestExplainReservesNothing(t *testing.T) {
	g := newRig(t, &fan{answers: answers{func(c *route.Cycle, _ []int32) route.Scores {
		if !c.Explain {
			t.Error("the scorer was not asked to explain")
		}
		return route.Scores{Verdict: route.Scored, Values: []float32{0, 1}}
	}}}, with{scorers: scorers(1)}, pod{}, pod{})
	d := g.Explain(t.Context(), request())
	if d.Err != nil || d.Endpoint.ID != "pod-0001" || !d.DryRun || d.Reservation != nil || g.r.Snapshot().InFlight(1) != 0 || len(g.o.seen) != 0 {
		t.Errorf("dry run %+v left traces", d)
	}
}

func TestNobodyAnswersSoLeastLoad(t *testing.T) {
	pods := []pod{{Waiting: 2, Running: 3}, {Waiting: 1, Running: 1, InFlight: 1}, {Waiting: 0, Running: 4}, {Waiting: 9, Age: time.Minute, InFlight: 4}, {Unscraped: true, InFlight: 5}}
	g := newRig(t, &fan{answers: answers{says(route.Failed, "down"), says(route.Abstained, "")}}, with{scorers: scorers(2, 3)}, pods...)
	d := g.Decide(t.Context(), request())
	res := d.Results[0]
	if d.Endpoint.ID != "pod-0001" || !res.LeastLoad || !strings.Contains(res.TieBreak, "least load") {
		t.Errorf("picked %v, least load %t, %q", d.Endpoint, res.LeastLoad, res.TieBreak)
	}
	if diff := cmp.Diff([]float64{1. / 6, 1. / 4, 1. / 5, 1. / 5, 1. / 6}, res.Totals, approx()); diff != "" {
		t.Error(diff)
	}
	if !g.o.seen[0].Results[0].LeastLoad {
		t.Error("the observer cannot see it")
	}
}

func TestLeastLoadSpreads(t *testing.T) {
	g := newRig(t, &fan{answers: answers{says(route.Skipped, "breaker open")}}, with{scorers: scorers(1)}, make([]pod, 8)...)
	for range 64 {
		g.Decide(t.Context(), request())
	}
	for id, n := range g.l.all {
		if n != 8 {
			t.Errorf("%s got %d of 64, want 8", id, n)
		}
	}
}

func TestFailClosed(t *testing.T) {
	for _, v := range []route.Verdict{route.Failed, route.TimedOut, route.Skipped} {
		sc := scorers(1, 1)
		sc[1].FailClosed = true
		g := newRig(t, &fan{answers: answers{gives(1), says(v, "because")}}, with{scorers: sc}, pod{})
		d := g.Decide(t.Context(), request())
		if !errors.Is(d.Err, route.ErrScorerFailed) || !strings.Contains(d.Err.Error(), "because") || d.Endpoint != nil || d.Reservation != nil {
			t.Errorf("%v: %v", v, d.Err)
		}
	}
	sc := scorers(1)
	sc[0].FailClosed = true
	g := newRig(t, &fan{answers: answers{says(route.Abstained, "")}}, with{scorers: sc}, pod{})
	if d := g.Decide(t.Context(), request()); d.Err != nil {
		t.Errorf("an abstention is an answer: %v", d.Err)
	}
}

func TestAClientThatWentAway(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := newRig(t, &fan{answers: answers{says(route.Failed, "")}, before: func(context.Context) { cancel() }}, with{scorers: scorers(1)}, pod{})
	d := g.Decide(ctx, request())
	if !errors.Is(d.Err, context.Canceled) || len(g.l.all) != 0 {
		t.Errorf("error %v, reservations %v", d.Err, g.l.all)
	}
}

func TestNewSchedulerWantsItsParts(t *testing.T) {
	_, err := route.NewScheduler(route.Deps{})
	for _, part := range []string{"roster", "fan", "ledger"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not named in %v", part, err)
		}
	}
}

func TestWithoutConfiguration(t *testing.T) {
	r := newRig(t, &fan{}, with{}, pod{})
	s, err := route.NewScheduler(route.Deps{Roster: r.r, Fan: &fan{}, Ledger: r.l})
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Decide(t.Context(), request()); !errors.Is(d.Err, route.ErrNoEndpoint) {
		t.Error(d.Err)
	}
}
