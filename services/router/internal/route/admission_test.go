package route_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// doorman sheds what has a priority below 0, if the detector says that it is full, and
// notes what it was asked about.
type doorman struct{ asked [][]int32 }

func (d *doorman) Admit(c *route.Cycle, by route.Detector, candidates []int32) route.Admission {
	d.asked = append(d.asked, candidates)
	a := route.Admission{Priority: c.Request.Priority, Sheddable: c.Request.Priority < 0, Because: "it is", Detector: by.Name()}
	a.Saturation, a.Saturated = by.Saturation(c, candidates)
	a.Shed = a.Sheddable && a.Saturated
	return a
}

// queues is a detector: full is when every candidate has a queue.
type queues struct{}

func (queues) Name() string { return "queues" }

func (queues) Saturation(c *route.Cycle, candidates []int32) (float64, bool) {
	least := int32(math.MaxInt32)
	for _, pos := range candidates {
		least = min(least, c.Snapshot.Waiting[pos])
	}
	return float64(least), least > 0
}

func TestAdmission(t *testing.T) {
	full, free := pod{Waiting: 9, Models: []string{"m"}}, pod{Models: []string{"other"}}
	only := func(addresses ...string) *route.Subset { return &route.Subset{Addresses: addresses} }
	for _, c := range []struct {
		id     string
		pods   []pod
		req    route.Request
		err    error // nil: picked
		asked  [][]int32
		shed   bool
		nobody bool
	}{
		{id: "not sheddable, full", pods: []pod{full}, asked: [][]int32{{0}}},
		{id: "sheddable, full", pods: []pod{full}, req: route.Request{Priority: -1}, err: route.ErrShed, asked: [][]int32{{0}}, shed: true},
		{id: "sheddable, room", pods: []pod{full, free}, req: route.Request{Priority: -1}, asked: [][]int32{{0, 1}}},
		{id: "sheddable, room only for another model", pods: []pod{full, free}, req: route.Request{Priority: -1, Model: "m"}, err: route.ErrShed, asked: [][]int32{{0}}, shed: true},
		{id: "B099 sheddable, room only outside of the subset", pods: []pod{full, free}, req: route.Request{Priority: -1, Subset: only("192.168.1.1")}, err: route.ErrShed, asked: [][]int32{{0}}, shed: true},
		{id: "B097 an empty pool is not full", req: route.Request{Priority: -1}, err: route.ErrNoEndpoint, nobody: true},
		{id: "B097 an empty subset is not full", pods: []pod{full}, req: route.Request{Priority: -1, Subset: only()}, err: route.ErrNoEndpoint, nobody: true},
	} {
		t.Run(c.id, func(t *testing.T) {
			d := &doorman{}
			f := &fan{}
			g := newRigDeps(t, route.Deps{Fan: f, Admitter: d}, with{}, c.pods...)
			cfg := *g.Config()
			cfg.Detector = queues{}
			g.Use(&cfg)
			c.req.Headers = route.NoHeaders{}
			got := g.Decide(context.Background(), &c.req)
			if !errors.Is(got.Err, c.err) || (got.Endpoint == nil) != (c.err != nil) {
				t.Errorf("error %v, want %v", got.Err, c.err)
			}
			if df := cmp.Diff(c.asked, d.asked); df != "" {
				t.Errorf("asked about: %s", df)
			}
			a := got.Admission
			if a.Asked == c.nobody || a.Shed != c.shed || c.shed && (len(got.Results) > 0 || !strings.Contains(got.Err.Error(), "queues: 9")) {
				t.Errorf("%+v, %d results, %v", a, len(got.Results), got.Err)
			}
			if len(g.l.all) != map[bool]int{true: 1, false: 0}[c.err == nil] {
				t.Errorf("reserved %v", g.l.all)
			}
			// An explanation says the same and reserves nothing.
			if e := g.Explain(context.Background(), &c.req); e.Admission != a || !errors.Is(e.Err, c.err) {
				t.Errorf("explained as %+v, %v", e.Admission, e.Err)
			}
		})
	}
}

// Whoever is in quarantine has no room to offer.
func TestAdmissionDoesNotCountQuarantined(t *testing.T) {
	d := &doorman{}
	g := newRigDeps(t, route.Deps{Fan: &fan{}, Admitter: d, Quarantine: outs{"pod-0001": "it failed"}}, with{}, pod{Waiting: 9}, pod{})
	cfg := *g.Config()
	cfg.Detector = queues{}
	g.Use(&cfg)
	got := g.Decide(context.Background(), &route.Request{Priority: -1, Headers: route.NoHeaders{}})
	if !errors.Is(got.Err, route.ErrShed) {
		t.Errorf("let in to %v, %v: the only endpoint with room is in quarantine", got.Endpoint, got.Err)
	}
}
