package extproc

import (
	"slices"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// B214, B216: what a client says about where requests go is removed or replaced, in any
// case and however often it says it, in every mode; plug-ins do not see it.
func TestForgedHeaders(t *testing.T) {
	forged := []string{
		"x-gateway-destination-endpoint", "x-gateway-destination-endpoint-subset", "x-gateway-destination-endpoint-served",
		"x-prefiller-host-port", "x-prefiller-url", "x-encoder-hosts-ports", "x-data-parallel-host-port", "x-pointsman-endpoint", "x-pointsman-anything",
	}
	var pairs []string
	for _, name := range forged {
		for _, spelled := range []string{name, strings.ToUpper(name), strings.ToTitle(name[:3]) + name[3:]} {
			pairs = append(pairs, spelled, "169.254.169.254:80", spelled, "169.254.169.254:80, 169.254.169.254:81")
		}
	}
	check := func(t *testing.T, r *rig, got routed) {
		t.Helper()
		if got.Set[edge.HeaderDestination] != "192.168.1.1:8000" || got.Meta != "192.168.1.1:8000" {
			t.Errorf("it goes to %q, in the metadata to %q", got.Set[edge.HeaderDestination], got.Meta)
		}
		for name, value := range got.Set {
			if strings.Contains(value, "169.254") {
				t.Errorf("%s is set to %s", name, value)
			}
		}
		for _, name := range forged[1:] { // the first is replaced
			if !slices.Contains(got.Remove, name) {
				t.Errorf("%s goes on", name)
			}
		}
		req, _ := r.request()
		if req.Subset != nil {
			t.Errorf("the subset is %v", req.Subset)
		}
		for _, name := range forged {
			if v := req.Headers.Get(name); v != "" {
				t.Errorf("plug-ins see %s: %s", name, v)
			}
		}
	}
	eachMode(t, func(t *testing.T, mode string) {
		r := newRig(t)
		p := r.open(mode, none)
		got, _ := p.submit(mode, "/v1/completions", `{"model":"m","prompt":"x"}`, pairs...)
		check(t, r, got)
		p.finish()
	})
	for _, mode := range []string{duplex, buffered, streamed, none} {
		t.Run("no body, "+mode, func(t *testing.T) {
			r := newRig(t)
			p := r.open(mode, none)
			p.headers("GET", "/", true, pairs...)
			check(t, r, p.routed())
			p.finish()
		})
	}
}

// B214: even a header that the proxy does not show us is removed.
func TestUnseenHeadersAreRemoved(t *testing.T) {
	r := newRig(t)
	p := r.duplex()
	p.headers("GET", "/", true)
	got := p.routed()
	for _, name := range []string{"x-prefiller-host-port", "x-prefiller-url", "x-encoder-hosts-ports", "x-data-parallel-host-port", edge.HeaderSubset, edge.HeaderServed, edge.HeaderModel} {
		if !slices.Contains(got.Remove, name) {
			t.Errorf("%s goes on", name)
		}
	}
	p.finish()
}

// B216: a client cannot tell which endpoint has served; only the proxy's metadata can.
func TestServedIsNotAHeader(t *testing.T) {
	r := newRig(t)
	p := r.routedStream(duplex)
	p.answer(200, true, edge.HeaderServed, "192.168.1.3:8000")
	if got := p.recv().GetResponseHeaders().GetResponse().GetHeaderMutation().GetRemoveHeaders(); !slices.Contains(got, edge.HeaderServed) {
		t.Errorf("%v are removed", got)
	}
	r.last()
	if on := r.reservations[0].on; len(on) > 0 {
		t.Errorf("it was moved to %v", on)
	}
	p.cancel()
}

// B221: the salt, and the model, keep tenants apart.
func TestSaltsKeepTenantsApart(t *testing.T) {
	seen := map[uint64]string{}
	r := newRig(t)
	var chain []uint64
	r.server.deps.Decider = deciderFunc(func(req *route.Request) *route.Decision {
		chain = req.Prompt.Blocks(16, 8)
		return r.pick(req)
	})
	for _, extra := range []string{"", `,"cache_salt":"A"`, `,"cache_salt":"B"`, `,"extra_key":"A"`, `,"model":"m2"`} {
		model := `"model":"m",`
		if strings.Contains(extra, "model") {
			model = ""
		}
		p := r.duplex()
		p.post("/v1/completions", `{`+model+`"prompt":"`+strings.Repeat("same ", 20)+`"`+extra+`}`)
		p.routed()
		p.echoed()
		p.finish()
		if len(chain) == 0 {
			t.Fatal("there is no prefix")
		}
		if other, there := seen[chain[0]]; there {
			t.Errorf("%q and %q have the same prefix", extra, other)
		}
		seen[chain[0]] = extra
	}
}
