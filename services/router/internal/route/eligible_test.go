package route_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestSubset(t *testing.T) {
	v4 := []pod{{Host: "10.0.0.1"}, {Host: "10.0.0.2"}, {Host: "10.0.0.2"}}
	v6 := []pod{{Host: "fd00::10"}, {Host: "fd00::0011"}, {Host: "Pod.Example."}}
	for _, c := range []struct {
		name    string
		pods    []pod
		subset  []string
		allowed []int32
	}{
		{"I subset one", v4, []string{"10.0.0.1"}, []int32{0}},
		{"I subset, one unknown", v4, []string{"10.0.0.1", "10.0.0.2", "10.0.0.9"}, []int32{0, 1, 2}},
		{"I subset nobody known", v4, []string{"10.0.0.3"}, nil},
		{"I subset empty", v4, nil, nil},
		{"A14 with ports", v4, []string{"10.0.0.2:8000", "10.0.0.1:8000"}, []int32{0, 1, 2}},
		{"another port", v4, []string{"10.0.0.2:8001"}, nil},
		{"twice", v4, []string{"10.0.0.1", "10.0.0.1:8000", " 10.0.0.1 "}, []int32{0}},
		{"a whole list in one entry", v4, []string{"10.0.0.1:8000, 10.0.0.2"}, []int32{0, 1, 2}},
		{"rubbish", v4, []string{"", ":", "10.0.0.1:", "10.0.0.1:x", "10.0.0.1:0", "10.0.0.1:99999", "[", "[]:1", ":8000"}, nil},
		{"B100 bracketed with a port", v6, []string{"[fd00::10]:8000"}, []int32{0}},
		{"B100 bare", v6, []string{"fd00::10"}, []int32{0}},
		{"B100 bracketed", v6, []string{"[fd00::10]"}, []int32{0}},
		{"B100 spelled differently", v6, []string{"[FD00:0::0:10]:8000", "fd00:0:0::11"}, []int32{0, 1}},
		{"B100 the port is not cut off an IPv6 address", v6, []string{"fd00::8000"}, nil},
		{"IPv4 in IPv6", v4, []string{"::ffff:10.0.0.1"}, []int32{0}},
		{"host name", v6, []string{"pod.example:8000"}, []int32{2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, &fan{}, with{}, c.pods...)
			req := request()
			req.Subset = &route.Subset{Addresses: c.subset}
			d := g.Explain(t.Context(), req)
			if diff := cmp.Diff(c.allowed, d.Results[0].Candidates); diff != "" && len(c.allowed) > 0 {
				t.Error(diff)
			}
			if len(c.allowed) == 0 && (!errors.Is(d.Err, route.ErrNoEndpoint) || !strings.Contains(d.Err.Error(), "subset")) {
				t.Errorf("error %v", d.Err)
			}
			for pos, by := range d.Results[0].DroppedBy {
				in := false
				for _, a := range c.allowed {
					in = in || int(a) == pos
				}
				if (by == "") != in {
					t.Errorf("position %d dropped by %q", pos, by)
				}
			}
		})
	}
}

func TestModel(t *testing.T) {
	g := newRig(t, &fan{}, with{}, pod{Models: []string{"base", "lora"}}, pod{Models: []string{"base"}}, pod{})
	for model, want := range map[string][]int32{"lora": {0, 2}, "base": {0, 1, 2}, "": {0, 1, 2}, "nobody's": {0, 1, 2}} {
		req := request()
		req.Model = model
		d := g.Explain(t.Context(), req)
		if diff := cmp.Diff(want, d.Results[0].Candidates); diff != "" {
			t.Errorf("%q: %s", model, diff)
		}
	}
	req := request()
	req.Model, req.Subset = "lora", &route.Subset{Addresses: []string{"192.168.1.2"}}
	d := g.Explain(t.Context(), req)
	if diff := cmp.Diff([]string{route.DroppedBySubset, route.DroppedByModel, route.DroppedBySubset}, d.Results[0].DroppedBy); diff != "" {
		t.Error(diff)
	}
	if !errors.Is(d.Err, route.ErrNoEndpoint) || !strings.Contains(d.Err.Error(), `"lora"`) {
		t.Error(d.Err)
	}
}

// outs is a quarantine with reasons by id.
type outs map[roster.ID]string

func (o outs) Reason(id roster.ID, _ int64) string { return o[id] }
func (o outs) Suspects() []roster.ID {
	var ids []roster.ID
	for id := range o {
		ids = append(ids, id)
	}
	return ids
}

func TestQuarantineNeverEmptiesTheList(t *testing.T) {
	for _, c := range []struct {
		name   string
		out    outs
		want   []int32
		waived bool
	}{
		{"nobody", nil, []int32{0, 1, 2}, false},
		{"one", outs{"pod-0001": "refused"}, []int32{0, 2}, false},
		{"two and one of another table", outs{"pod-0001": "x", "pod-0000": "x", "gone": "x"}, []int32{2}, false},
		{"one that is in again", outs{"pod-0001": ""}, []int32{0, 1, 2}, false},
		{"B149 all", outs{"pod-0000": "x", "pod-0001": "x", "pod-0002": "x"}, []int32{0, 1, 2}, true},
	} {
		g := newRigDeps(t, route.Deps{Fan: &fan{}, Quarantine: c.out}, with{}, pod{}, pod{}, pod{})
		d := g.Explain(t.Context(), request())
		if diff := cmp.Diff(c.want, d.Results[0].Candidates); diff != "" || d.QuarantineWaived != c.waived {
			t.Errorf("%s: waived %t, %s", c.name, d.QuarantineWaived, diff)
		}
	}
}

// Endpoints that have failed a request are out for it, with those in quarantine and like
// them: tried again rather than nobody.
func TestWhoHasFailedARequestIsOutForIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		out    outs
		failed []roster.ID
		want   []int32
		waived bool
	}{
		{"one", nil, []roster.ID{"pod-0001"}, []int32{0, 2}, false},
		{"one that is gone", nil, []roster.ID{"gone"}, []int32{0, 1, 2}, false},
		{"one that is in quarantine too", outs{"pod-0001": "x"}, []roster.ID{"pod-0001"}, []int32{0, 2}, false},
		{"another is in quarantine", outs{"pod-0000": "x"}, []roster.ID{"pod-0002"}, []int32{1}, false},
		{"all", outs{"pod-0000": "x"}, []roster.ID{"pod-0002", "pod-0001"}, []int32{0, 1, 2}, true},
	} {
		for _, deps := range []route.Deps{{Fan: &fan{}, Quarantine: c.out}, {Fan: &fan{}}} {
			if deps.Quarantine == nil && c.out != nil {
				continue
			}
			g := newRigDeps(t, deps, with{}, pod{}, pod{}, pod{})
			req := request()
			req.Retry = &route.Retry{Failed: c.failed}
			d := g.Explain(t.Context(), req)
			if diff := cmp.Diff(c.want, d.Results[0].Candidates); diff != "" || d.QuarantineWaived != c.waived {
				t.Errorf("%s: waived %t, %s", c.name, d.QuarantineWaived, diff)
			}
		}
	}
}

// Where a filter lets few through, such as those that decode, and all of these are in
// quarantine, they are tried, rather than that everybody is refused.
func TestQuarantineNeverEmptiesAProfile(t *testing.T) {
	others := dropper{"others", map[int32]bool{0: true, 2: true}}
	for _, c := range []struct {
		name    string
		filters []route.Filter
		out     outs
		waived  bool
		err     error
	}{
		{"not in quarantine", []route.Filter{others}, outs{"pod-0000": "x"}, false, nil},
		{"in quarantine", []route.Filter{others}, outs{"pod-0001": "x"}, true, nil},
		{"in quarantine, and dropped for load", []route.Filter{others, loadDropper{dropper{"load", map[int32]bool{1: true}}}}, outs{"pod-0001": "x"}, true, route.ErrShed},
		{"nobody is let through anyway", []route.Filter{others, dropper{"all", map[int32]bool{1: true}}}, outs{"pod-0001": "x"}, true, route.ErrNoEndpoint},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRigDeps(t, route.Deps{Fan: &fan{}, Quarantine: c.out}, with{filters: c.filters}, pod{}, pod{}, pod{})
			d := g.Decide(t.Context(), request())
			if d.QuarantineWaived != c.waived || !errors.Is(d.Err, c.err) {
				t.Fatalf("waived %t, err %v", d.QuarantineWaived, d.Err)
			}
			if c.err == nil && d.Endpoint.ID != "pod-0001" {
				t.Errorf("picked %s", d.Endpoint.ID)
			}
			want := []string{"others", "", "others"}
			if explained := g.Explain(t.Context(), request()); c.err == nil && c.waived {
				if diff := cmp.Diff(want, explained.Results[len(explained.Results)-1].DroppedBy); diff != "" {
					t.Error(diff)
				}
			}
			if c.err != nil && len(g.l.open) != 0 {
				t.Errorf("%d reservations are left", len(g.l.open))
			}
		})
	}
}

func TestEmptyRosterIsNoEndpoint(t *testing.T) { // E9
	g := newRig(t, &fan{}, with{})
	if d := g.Decide(t.Context(), request()); !errors.Is(d.Err, route.ErrNoEndpoint) || d.Endpoint != nil {
		t.Error(d.Err)
	}
}

// dropper drops the positions given.
type dropper struct {
	name string
	out  map[int32]bool
}

func (f dropper) Name() string { return f.name }
func (f dropper) Filter(_ *route.Cycle, in []int32) []int32 {
	kept := in[:0]
	for _, pos := range in {
		if !f.out[pos] {
			kept = append(kept, pos)
		}
	}
	return kept
}

type loadDropper struct{ dropper }

func (loadDropper) FiltersLoad() {}

func TestFilters(t *testing.T) {
	first := dropper{"first", map[int32]bool{0: true}}
	second := dropper{"second", map[int32]bool{2: true}}
	all := map[int32]bool{0: true, 1: true, 2: true, 3: true}
	g := newRig(t, &fan{}, with{filters: []route.Filter{first, second}}, make([]pod, 4)...)
	d := g.Explain(t.Context(), request())
	if diff := cmp.Diff([]int32{1, 3}, d.Results[0].Candidates); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"first", "", "second", ""}, d.Results[0].DroppedBy); diff != "" {
		t.Error(diff)
	}
	for range 20 { // the shared list of positions must not have been written into
		if d := g.Decide(t.Context(), request()); len(d.Results[0].Candidates) != 2 {
			t.Fatalf("candidates %v", d.Results[0].Candidates)
		}
	}

	g.Use(with{filters: []route.Filter{first, dropper{"by-kind", all}}}.config())
	d = g.Decide(t.Context(), request())
	if !errors.Is(d.Err, route.ErrNoEndpoint) || errors.Is(d.Err, route.ErrShed) || !strings.Contains(d.Err.Error(), `"by-kind" left none of 3`) {
		t.Error(d.Err)
	}
	g.Use(with{filters: []route.Filter{loadDropper{dropper{"by-load", all}}}}.config())
	if d = g.Decide(t.Context(), request()); !errors.Is(d.Err, route.ErrShed) {
		t.Error(d.Err)
	}
}
