package extproc

import (
	"fmt"
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

// unseen is a stage's reservation that is told that nobody will say when it is done.
type unseen struct {
	reservation
	streams []bool
}

func (u *unseen) EndsUnseen(streams bool) { u.streams = append(u.streams, streams) }

// A sidecar tells whose failure it passes on, and the one who decodes is not blamed for it;
// clients do not see that. Nobody tells when a stage is done, and the stage is told so.
func TestWhatASidecarSaysOfAFailure(t *testing.T) {
	for _, c := range []struct {
		reason string
		stream bool
		want   []string
	}{
		{"prefill-failed", true, []string{"p: it answered with a failure"}},
		{"encode-failed", false, nil}, // one of two, and it is not known which
		{"decode-unreachable", false, []string{"e0: it answered with a failure"}},
	} {
		r := newRig(t)
		encode, prefill := &unseen{}, &unseen{}
		r.server.deps.Decider = deciderFunc(func(req *route.Request) *route.Decision {
			d := r.pick(req)
			d.Plan = &route.Plan{Stages: []route.Stage{
				{Name: route.StageEncode, Endpoints: []*roster.Endpoint{{ID: "a"}, {ID: "b"}}, Picked: 2, Reservation: encode},
				{Name: route.StagePrefill, Endpoints: []*roster.Endpoint{{ID: "p"}, {ID: "q"}}, Picked: 1, Reservation: prefill},
			}}
			return d
		})
		p := r.open(duplex, none)
		p.submit(duplex, "/v1/completions", fmt.Sprintf(`{"model":"m","prompt":"x","stream":%t}`, c.stream))
		p.answer(502, true, "x-pointsman-reason", c.reason)
		if got := p.recv().GetResponseHeaders().GetResponse().GetHeaderMutation().GetRemoveHeaders(); !slices.Contains(got, edge.HeaderReason) {
			t.Errorf("%s: removed are %v", c.reason, got)
		}
		p.finish()
		r.last()
		if d := cmp.Diff(c.want, r.failed); d != "" {
			t.Errorf("%s: blamed (-want +got):\n%s", c.reason, d)
		}
		if d := cmp.Diff([][]bool{{c.stream}, {c.stream}}, [][]bool{encode.streams, prefill.streams}); d != "" {
			t.Errorf("%s: stages were told %s", c.reason, d)
		}
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
