package route_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

// still is a ledger that keeps no books.
type still struct{}

func (still) Reserve(*route.Cycle, *roster.Endpoint, *route.ProfileResult) route.Reservation {
	return (*reservation)(nil)
}

// BenchmarkDecide is a decision with three scorers that answer at once.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		for _, tied := range []bool{false, true} {
			name := fmt.Sprint(n)
			if tied {
				name += "-tied"
			}
			b.Run(name, func(b *testing.B) {
				values := make([]float32, n)
				for i := range values {
					values[i] = 1
					if !tied {
						values[i] = rand.Float32()
					}
				}
				f := &fan{answers: answers{counts(values...), gives(values...), gives(values...)}}
				s, err := route.NewScheduler(route.Deps{Roster: routetest.Roster(b, make([]pod, n)...), Fan: f, Ledger: still{}})
				if err != nil {
					b.Fatal(err)
				}
				s.Use(with{scorers: scorers(2, 2, 3)}.config())
				req := request()
				b.ReportAllocs()
				for b.Loop() {
					if d := s.Decide(context.Background(), req); d.Err != nil {
						b.Fatal(d.Err)
					}
				}
			})
		}
	}
}
