package route_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/pick"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// burst decides n requests at once: none picks before all have their scores. It
// returns the picks per endpoint.
func burst(t testing.TB, n int, w with, f *fan, pods []pod) map[roster.ID]int {
	t.Helper()
	var scored sync.WaitGroup
	scored.Add(n)
	f.before = func(context.Context) { scored.Done(); scored.Wait() }
	g := newRigDeps(t, route.Deps{Fan: f, OtherRouters: func() int { return w.others }}, w, pods...)
	var done sync.WaitGroup
	for range n {
		done.Go(func() {
			if d := g.Decide(context.Background(), request()); d.Err != nil {
				t.Error(d.Err)
			}
		})
	}
	done.Wait()
	return g.l.all
}

func spread(picks map[roster.ID]int, endpoints int) (least, most int) {
	least = 1 << 30
	for _, n := range picks {
		least, most = min(least, n), max(most, n)
	}
	if len(picks) < endpoints {
		least = 0
	}
	return least, most
}

// B128: 8 pods all holding the prefix, 64 concurrent arrivals.
func TestB128ABurstSpreadsOverEqualEndpoints(t *testing.T) {
	ones := []float32{1, 1, 1, 1, 1, 1, 1, 1}
	for name, w := range map[string]struct {
		with
		answers
	}{
		"queue only":       {with{scorers: scorers(1)}, answers{counts(ones...)}},
		"default weights":  {with{scorers: scorers(2, 2, 3)}, answers{counts(ones...), gives(ones...), gives(ones...)}},
		"nobody counts":    {with{scorers: scorers(2, 3)}, answers{gives(ones...), gives(ones...)}},
		"no scorer at all": {with{}, nil},
	} {
		picks := burst(t, 64, w.with, &fan{answers: w.answers}, make([]pod, 8))
		if len(w.answers) == 0 {
			continue // nothing to wait for: they are merely concurrent
		}
		if least, most := spread(picks, 8); most-least > 2 {
			t.Errorf("%s: %v", name, picks)
		}
	}
}

// A stale view in which 3 of 8 look idle must not send the burst to those 3.
func TestB135ABurstSpreadsInSpiteOfAStaleView(t *testing.T) {
	stale := []float32{1, 1, 1, 0, 0, 0, 0, 0}
	equal := []float32{.5, .5, .5, .5, .5, .5, .5, .5}
	for name, w := range map[string]struct {
		weights []float64
		answers
	}{
		"queue only":      {[]float64{1}, answers{counts(stale...)}},
		"default weights": {[]float64{2, 2, 3}, answers{counts(stale...), gives(equal...), gives(equal...)}},
		"two that count":  {[]float64{2, 3}, answers{counts(stale...), counts(stale...)}},
		"a little noise":  {[]float64{2, 1}, answers{counts(stale...), gives(.50, .51, .52, .53, .54, .55, .56, .57)}},
	} {
		picks := burst(t, 64, with{scorers: scorers(w.weights...)}, &fan{answers: w.answers}, make([]pod, 8))
		if _, most := spread(picks, 8); most > 64/8+2 {
			t.Errorf("%s: %v", name, picks)
		}
	}
}

// Without the correction the same burst falls on the three: the test above is able
// to fail.
func TestABurstHerdsWhereNobodyCounts(t *testing.T) {
	picks := burst(t, 64, with{scorers: scorers(1)}, &fan{answers: answers{gives(1, 1, 1, 0, 0, 0, 0, 0)}}, make([]pod, 8))
	if _, most := spread(picks, 8); most < 21 {
		t.Errorf("picks %v", picks)
	}
}

// Picks that are learned from other routers while scorers are asked count as well.
func TestPicksOfOtherRoutersCorrectTheTotals(t *testing.T) {
	var g *rig
	f := &fan{answers: answers{counts(1, 1, 0)}}
	f.before = func(context.Context) { g.r.Pick("other", 1, "pod-0000", 0, g.r.Now()) }
	g = newRig(t, f, with{scorers: scorers(2)}, pod{}, pod{}, pod{})
	d := g.Decide(t.Context(), request())
	res := d.Results[0]
	if diff := cmp.Diff([]float64{0, 2, 0}, res.Totals, approx()); diff != "" || !res.Corrected || d.Endpoint.ID != "pod-0001" {
		t.Errorf("corrected %t, picked %v, %s", res.Corrected, d.Endpoint.ID, diff)
	}
	if diff := cmp.Diff([]int64{1, 0, 0}, res.InFlight); diff != "" {
		t.Error(diff)
	}
}

// Three routers that share a pool and hear nothing of each other while a burst lasts
// still fill it evenly: each takes the others to do as it does.
func TestRoutersAllowForEachOther(t *testing.T) {
	total := make(map[roster.ID]int)
	for range 3 {
		picks := burst(t, 21, with{scorers: scorers(2, 1), others: 2}, &fan{answers: answers{counts(1, 1, 1, 1, .5, .5, .5, .5), gives(.8, .7, .6, .5, .4, .3, .2, .1)}}, make([]pod, 8))
		for id, n := range picks {
			total[id] += n
		}
	}
	for id, n := range total {
		if n > 10 {
			t.Errorf("%s got %d of 63: %v", id, n, total)
		}
	}
}

// What this router has picked since scoring is not news of the others: they are taken
// to have picked as much besides, less what was heard of them.
func TestOwnPicksAreNotThoseOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		heard int
		want  []float64 // totals, ascending
	}{
		"nothing heard":  {0, []float64{.8, .8, 1}},
		"all heard":      {2, []float64{.8, .8, 1}},
		"more than that": {3, []float64{.7, .8, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var g *rig
			nested := false
			f := &fan{answers: answers{func(*route.Cycle, []int32) route.Scores {
				return route.Scores{Verdict: route.Scored, Values: []float32{1, 1, 1}, RequestsPerPoint: 10}
			}}}
			f.before = func(context.Context) {
				if nested {
					return
				}
				nested = true
				var picked [2]roster.ID
				for i := range picked {
					picked[i] = g.Decide(context.Background(), request()).Endpoint.ID
				}
				for i := range c.heard {
					g.r.Pick("other", uint64(i), picked[i%2], 0, g.r.Now())
				}
			}
			g = newRigDeps(t, route.Deps{Fan: f, OtherRouters: func() int { return 1 }}, with{scorers: scorers(1)}, pod{}, pod{}, pod{})
			d := g.Decide(t.Context(), request())
			if diff := cmp.Diff(c.want, slices.Sorted(slices.Values(d.Results[0].Totals)), approx()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// B127: ties are uniform.
func TestB127TiesAreUniform(t *testing.T) {
	g := newRig(t, &fan{answers: answers{gives(1, 1, 1, 1)}}, with{scorers: scorers(1)}, make([]pod, 4)...)
	const rounds = 4000
	for range rounds {
		g.Decide(t.Context(), request()).Reservation.Finish(true, route.NoUsage())
	}
	chi := 0.0
	for _, n := range g.l.all {
		d := float64(n) - rounds/4
		chi += d * d / (rounds / 4)
	}
	if chi > 21.1 || len(g.l.all) != 4 { // 3 degrees of freedom, p = 0.0001
		t.Errorf("χ² = %.1f, picks %v", chi, g.l.all)
	}
}

// Property: a scorer that abstains, on everybody or on all but equal scores, never
// changes the order of the others; permuting the candidates' scores permutes totals.
func TestAbstainingChangesNobodysOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(rt, "n")
		values := rapid.SliceOfN(rapid.Float32Range(0, 1), n, n).Draw(rt, "scores")
		mine := rapid.SliceOfN(rapid.Float32Range(0, 1), n, n).Draw(rt, "of the abstaining")
		one := rapid.IntRange(0, n-1).Draw(rt, "the one with an opinion")
		var on []uint32
		for i := range n {
			if i != one {
				on = append(on, uint32(i)) //nolint:gosec // a test's
			}
		}
		partly := func(*route.Cycle, []int32) route.Scores {
			return route.Scores{Verdict: route.Scored, Values: mine, AbstainedOn: on}
		}
		pods := make([]pod, n)
		alone := newRig(t, &fan{answers: answers{gives(values...)}}, with{scorers: scorers(1)}, pods...).Explain(context.Background(), request())
		both := newRig(t, &fan{answers: answers{gives(values...), partly}}, with{scorers: scorers(1, 5)}, pods...).Explain(context.Background(), request())
		a, b := alone.Results[0].Totals, both.Results[0].Totals
		for i := range a {
			for j := range a {
				if d := a[i] - a[j]; d > 1e-9 && b[i] <= b[j] {
					rt.Fatalf("order of %d and %d changed: %v, %v", i, j, a, b)
				}
			}
		}
		if pos, ok := both.Results[0].Best(); !ok || a[pos] < max0(a)-1e-9 {
			rt.Fatalf("picked %d of %v", pos, a)
		}
	})
}

func max0(v []float64) float64 {
	m := v[0]
	for _, x := range v {
		m = max(m, x)
	}
	return m
}

// A dry run guesses at other routers' picks like any decision does, from the same
// notes of this router's own.
func TestExplainingWhileDeciding(t *testing.T) {
	f := &fan{answers: answers{counts(1, 1, 1, 1)}}
	g := newRigDeps(t, route.Deps{Fan: f, OtherRouters: func() int { return 2 }}, with{scorers: scorers(1)}, make([]pod, 4)...)
	var all sync.WaitGroup
	for _, one := range []func() *route.Decision{
		func() *route.Decision { return g.Decide(context.Background(), request()) },
		func() *route.Decision { return g.Explain(context.Background(), request()) },
	} {
		for range 2 {
			all.Go(func() {
				for range 300 {
					d := one()
					if d.Err != nil {
						t.Error(d.Err)
					}
					if d.Reservation != nil {
						d.Reservation.Finish(true, route.NoUsage())
					}
				}
			})
		}
	}
	all.Wait()
}

// Many deciders, configuration swaps and table changes at once: every decision is
// of one configuration and one table, and nothing is left reserved.
func TestSwapsUnderLoad(t *testing.T) {
	f := &fan{answers: answers{func(c *route.Cycle, candidates []int32) route.Scores {
		values := make([]float32, len(candidates))
		for i := range values {
			values[i] = rand.Float32()
		}
		return route.Scores{Verdict: route.Scored, Values: values, RequestsPerPoint: 1}
	}}}
	g := newRig(t, f, with{scorers: scorers(1)}, make([]pod, 12)...)
	var deciders, swaps sync.WaitGroup
	stop := make(chan struct{})
	swaps.Go(func() {
		small, err := roster.NewTable(g.r.Snapshot().Table.Endpoints[:5])
		if err != nil {
			t.Error(err)
			return
		}
		big := g.r.Snapshot().Table
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			g.Use(with{scorers: scorers(float64(1 + i%3)), picker: pick.NewMaxScore("p", 1+i%7)}.config())
			g.r.SetTable([]*roster.Table{small, big}[i%2])
		}
	})
	for range 4 {
		deciders.Go(func() {
			for range 500 {
				d := g.Decide(context.Background(), request())
				if d.Err != nil {
					t.Error(d.Err)
					return
				}
				res := d.Results[0]
				if res.Profile != d.Config.Profiles[0] || len(res.Totals) != d.Snapshot.Len() || len(res.Ranked) != min(max(res.Profile.Picker.Max(), 4), d.Snapshot.Len()) {
					t.Errorf("mixed decision: %d totals, %d endpoints, %d ranked", len(res.Totals), d.Snapshot.Len(), len(res.Ranked))
				}
				d.Reservation.Finish(true, route.NoUsage())
			}
		})
	}
	deciders.Wait()
	close(stop)
	swaps.Wait()
	if len(g.l.open) != 0 {
		t.Errorf("%d reservations are left", len(g.l.open))
	}
}
