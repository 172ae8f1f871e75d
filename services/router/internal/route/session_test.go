package route_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// issuer is a scorer that wants tokens in a header.
type issuer string

func (i issuer) SessionHeader() string { return string(i) }

func TestSessionTokensAreForWhoAnswers(t *testing.T) {
	sc := scorers(1, 1, 1, 1)
	sc[0].Asked, sc[1].Asked, sc[2].Asked = issuer("x-session-token"), issuer(""), issuer("x-session-token")
	g := newRigDeps(t, route.Deps{Fan: &fan{answers: answers{gives(1, 0), gives(0, 0), gives(0, 0), gives(0, 0)}}, Pool: "pool"}, with{scorers: sc}, pod{}, pod{})
	d := g.Decide(t.Context(), request())
	want := []route.Header{{Name: "x-session-token", Value: "cG9vbC9wb2QtMDAwMA=="}} // pool/pod-0000
	if diff := cmp.Diff(want, d.ResponseHeaders(d.Endpoint)); diff != "" {
		t.Error(diff)
	}
	want[0].Value = route.SessionToken("pool", "pod-0001")
	if diff := cmp.Diff(want, d.ResponseHeaders(d.Fallbacks[0])); diff != "" {
		t.Errorf("after a retry: %s", diff)
	}
	if h := d.ResponseHeaders(nil); h != nil {
		t.Errorf("of nobody: %v", h)
	}
	plain := newRig(t, &fan{answers: answers{gives(1, 0)}}, with{scorers: scorers(1)}, pod{}, pod{})
	if d := plain.Decide(t.Context(), request()); d.ResponseHeaders(d.Endpoint) != nil {
		t.Error("tokens that nobody wants")
	}
}
