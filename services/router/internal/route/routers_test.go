package route_test

import (
	"context"
	"sync"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/pick"
	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

// routers returns schedulers that share one roster, as routers that hear each other at
// once, and a count of all their picks.
func routers(t *testing.T, n int, picker route.Picker, pods ...pod) ([]*route.Scheduler, func() map[roster.ID]int) {
	t.Helper()
	shared := routetest.Roster(t, pods...)
	equal := make([]float32, len(pods))
	for i := range equal {
		equal[i] = 1
	}
	var all []*route.Scheduler
	var ledgers []*ledger
	for i := range n {
		l := newLedger(shared)
		l.last.Store(uint64(i) << 32) //nolint:gosec // a test's
		s, err := route.NewScheduler(route.Deps{Roster: shared, Fan: &fan{answers: answers{gives(equal...)}}, Ledger: l, OtherRouters: func() int { return n - 1 }})
		if err != nil {
			t.Fatal(err)
		}
		s.Use(with{scorers: scorers(1), picker: picker}.config())
		all, ledgers = append(all, s), append(ledgers, l)
	}
	return all, func() map[roster.ID]int {
		total := map[roster.ID]int{}
		for _, l := range ledgers {
			for id, n := range l.all {
				total[id] += n
			}
		}
		return total
	}
}

// Property: ties are uniform, with one router and with three, whether a request ends
// before the next begins or not, for every picker that goes by chance among equals.
func TestTiesAreUniformOverRouters(t *testing.T) {
	const pods, rounds = 5, 6000
	for name, c := range map[string]struct {
		routers int
		picker  route.Picker
	}{
		"one router":                      {1, pick.NewMaxScore("p", 1)},
		"three routers":                   {3, pick.NewMaxScore("p", 1)},
		"three routers, several named":    {3, pick.NewMaxScore("p", 3)},
		"three routers, random":           {3, pick.NewRandom("p", 1)},
		"three routers, weighted, random": {3, pick.NewWeightedRandom("p", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			all, total := routers(t, c.routers, c.picker, make([]pod, pods)...)
			for i := range rounds {
				all[i%len(all)].Decide(context.Background(), request()).Reservation.Finish(true, route.NoUsage())
			}
			chi := 0.0
			for _, n := range total() {
				d := float64(n) - rounds/pods
				chi += d * d / (rounds / pods)
			}
			if chi > 23.5 || len(total()) != pods { // 4 degrees of freedom, p = 0.0001
				t.Errorf("χ² = %.1f, picks %v", chi, total())
			}
		})
	}
}

// Three routers at once fill equal endpoints evenly while nothing ends.
func TestThreeRoutersSpreadWhatLasts(t *testing.T) {
	all, total := routers(t, 3, pick.NewMaxScore("p", 1), make([]pod, 6)...)
	var done sync.WaitGroup
	for _, s := range all {
		done.Go(func() {
			for range 60 {
				if d := s.Decide(context.Background(), request()); d.Err != nil {
					t.Error(d.Err)
				}
			}
		})
	}
	done.Wait()
	for id, n := range total() {
		if n < 25 || n > 35 { // 30 each; three picks may be under way at once
			t.Errorf("%s got %d of 180: %v", id, n, total())
		}
	}
}
