package route_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

// roomy answers in the room it is given: each scorer gives the endpoint that the request
// names by its number 1, and the others 0.
type roomy struct{ t *testing.T }

func (f roomy) Score(_ context.Context, c *route.Cycle, scorers []route.Scorer, candidates []int32, out []route.Scores) {
	best, _ := strconv.Atoi(c.Request.ID)
	for i := range scorers {
		if len(out[i].Values) != 0 || len(out[i].Matched) != 0 {
			f.t.Errorf("the room holds %v, %v", out[i].Values, out[i].Matched)
		}
		values := out[i].Values
		for k := range candidates {
			v := float32(0)
			if k == best {
				v = 1
			}
			values = append(values, v)
		}
		out[i] = route.Scores{Verdict: route.Scored, Values: values}
	}
}

// looking is an observer that looks at totals while it is told.
type looking struct{ t *testing.T }

func (o looking) Decided(d *route.Decision) {
	best, _ := strconv.Atoi(d.Request.ID)
	for at, total := range d.Results[0].Totals {
		if want := map[bool]float64{true: 6}[at == best]; total != want {
			o.t.Errorf("candidate %d has %v points, want %v", at, total, want)
			return
		}
	}
}

// Columns that nobody keeps are used again, and never by two decisions at once.
func TestColumnsAreUsedAgain(t *testing.T) {
	const n = 60
	r := routetest.Roster(t, make([]pod, n)...)
	g, err := route.NewScheduler(route.Deps{Roster: r, Fan: roomy{t}, Ledger: newLedger(r), Observer: looking{t}})
	if err != nil {
		t.Fatal(err)
	}
	g.Use(with{scorers: scorers(1, 2, 3)}.config())
	var asking sync.WaitGroup
	for k := range 4 {
		asking.Go(func() {
			for i := range 200 {
				best := (7*i + k) % n
				d := g.Decide(context.Background(), &route.Request{ID: strconv.Itoa(best), Headers: route.NoHeaders{}})
				if want := fmt.Sprintf("pod-%04d", best); d.Err != nil || string(d.Endpoint.ID) != want {
					t.Errorf("picked %v, want %s: %v", d.Endpoint, want, d.Err)
					return
				}
				res := d.Results[0]
				if res.Totals != nil || res.InFlight != nil || res.Scores[2].Values != nil || len(res.Ranked) != 4 || len(res.Candidates) != n || res.Scores[2].Verdict != route.Scored {
					t.Errorf("what is left is %+v", res)
					return
				}
			}
		})
	}
	asking.Wait()
}

// Decisions that an observer keeps, and those of dry runs, are whole for ever.
func TestKeptDecisionsStayWhole(t *testing.T) {
	g := newRig(t, roomy{t}, with{scorers: scorers(1)}, make([]pod, 3)...)
	d := g.Decide(context.Background(), &route.Request{ID: "1", Headers: route.NoHeaders{}})
	dry := g.Explain(context.Background(), &route.Request{ID: "2", Headers: route.NoHeaders{}})
	g.Decide(context.Background(), &route.Request{ID: "0", Headers: route.NoHeaders{}})
	if diff := cmp.Diff([]float64{0, 1, 0}, d.Results[0].Totals); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{0, 0, 1}, dry.Results[0].Totals); diff != "" {
		t.Error(diff)
	}
}

func TestInRange(t *testing.T) {
	bits := func(s string) float32 {
		v, err := strconv.ParseFloat(s, 32)
		if err != nil {
			t.Fatal(err)
		}
		return float32(v)
	}
	for _, in := range []string{"0", "1", "0.5", "1e-45", "0.99999994"} {
		if !route.InRange([]float32{0.5, bits(in), 0.25}) {
			t.Errorf("%s is in range", in)
		}
	}
	for _, out := range []string{"1.0000001", "2", "1e38", "Inf", "-Inf", "NaN", "-1e-45", "-0.5", "-1", "-1.5", "-1e38"} {
		if route.InRange([]float32{0.5, bits(out), 0.25}) {
			t.Errorf("%s is out of range", out)
		}
	}
}
