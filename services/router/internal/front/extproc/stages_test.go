package extproc

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// C22 to C25, B160, B214: what a sidecar is told, whatever the client says.
func TestHeadersOfStages(t *testing.T) {
	at := func(addresses ...string) []*roster.Endpoint {
		var all []*roster.Endpoint
		for _, a := range addresses {
			all = append(all, &roster.Endpoint{ID: roster.ID(a), Address: a})
		}
		return all
	}
	names := []string{edge.HeaderPrefiller, edge.HeaderEncoders, edge.HeaderDataParallel}
	for _, c := range []struct {
		id   string
		plan *route.Plan
		want []string // by names
		to   string   // if not the endpoint's own, and fall-backs
	}{
		{"C22 no plan", nil, []string{"", "", ""}, ""},
		{"C22 decode only", &route.Plan{}, []string{"", "", ""}, ""},
		{"C23 prefill", &route.Plan{Stages: []route.Stage{{Name: "prefill", Endpoints: at("10.0.0.5:8000", "10.0.0.6:8000"), Picked: 1}}}, []string{"10.0.0.5:8000", "", ""}, ""},
		{"B160 another port, IPv6", &route.Plan{Stages: []route.Stage{{Name: "prefill", Endpoints: at("[fd00::5]:8200"), Picked: 1}}}, []string{"[fd00::5]:8200", "", ""}, ""},
		{"C25 encode, two of three", &route.Plan{Stages: []route.Stage{{Name: "encode", Endpoints: at("A:8000", "B:8000", "C:8000"), Picked: 2}}}, []string{"", "A:8000,B:8000", ""}, ""},
		{"both", &route.Plan{Stages: []route.Stage{{Name: "encode", Endpoints: at("A:8000"), Picked: 1}, {Name: "prefill", Endpoints: at("P:1"), Picked: 1}}}, []string{"P:1", "A:8000", ""}, ""},
		{"a rank", &route.Plan{PrimaryPort: 9000}, []string{"", "", "192.168.1.1:8000"}, "192.168.1.1:9000"},
		{"a rank that is at the primary port", &route.Plan{PrimaryPort: 8000}, []string{"", "", "192.168.1.1:8000"}, "192.168.1.1:8000"},
	} {
		t.Run(c.id, func(t *testing.T) {
			eachMode(t, func(t *testing.T, mode string) {
				r := newRig(t)
				r.server.deps.Decider = deciderFunc(func(req *route.Request) *route.Decision {
					d := r.pick(req)
					d.Plan = c.plan
					return d
				})
				p := r.open(mode, none)
				var forged []string
				for _, name := range names {
					forged = append(forged, name, "169.254.169.254:80", name, "169.254.169.254:81")
				}
				got, _ := p.submit(mode, "/v1/completions", `{"model":"m","prompt":"x"}`, forged...)
				for i, name := range names {
					if d := cmp.Diff(c.want[i], got.Set[name]); d != "" {
						t.Errorf("%s: %s", name, d)
					}
					if removed := slices.Contains(got.Remove, name); mode == duplex && removed == (c.want[i] != "") {
						t.Errorf("%s is set to %q and removed: %v", name, c.want[i], removed)
					}
				}
				if c.to != "" && (got.Set[edge.HeaderDestination] != c.to || got.Meta != c.to) {
					t.Errorf("it goes to %q, in the metadata to %q", got.Set[edge.HeaderDestination], got.Meta)
				}
				p.finish()
			})
		})
	}
}

// The proxy names the primary port as what has answered, which is none of another endpoint.
func TestAServedPrimaryPortIsTheRanks(t *testing.T) {
	r := newRig(t)
	r.setTable([]roster.Endpoint{{ID: "rank-0", Host: "192.168.1.1", Port: 9000}, {ID: "rank-1", Host: "192.168.1.1", Port: 9001}})
	r.server.deps.Decider = deciderFunc(func(req *route.Request) *route.Decision {
		d := r.pick(req)
		table := r.roster.Snapshot().Table
		d.Endpoint, d.Fallbacks = &table.Endpoints[1], []*roster.Endpoint{&table.Endpoints[0]}
		d.Plan = &route.Plan{PrimaryPort: 9000}
		return d
	})
	p := r.duplex()
	p.headers("GET", "/", true)
	if got := p.routed(); got.Set[edge.HeaderDestination] != "192.168.1.1:9000" || got.Set[edge.HeaderDataParallel] != "192.168.1.1:9001" {
		t.Errorf("set %v", got.Set)
	}
	p.know(r.server.cfg.DestinationNamespace, edge.HeaderServed, "192.168.1.1:9000")
	p.answer(200, true)
	p.finish()
	r.last()
	if on := r.reservations[0].on; len(on) > 0 {
		t.Errorf("it was moved to %v", on)
	}
}
