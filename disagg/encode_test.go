package disagg

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const threeImages = `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a"}},{"type":"image_url","image_url":{"url":"b"}},{"type":"image_url","image_url":{"url":"a"}}]}]}`

// F17: three images, two of them the same: two calls. The client's body is left alone; the
// reference adds cache_hit_threshold 0, which here means the same as none.
func TestF17Encode(t *testing.T) {
	e1, e2 := newEngine(t, "e1", answers(200, "application/json", "{}")), newEngine(t, "e2", answers(200, "application/json", "{}"))
	r := newRig(t, NIXL)
	r.body = threeImages
	said, err := r.runner.Encode(t.Context(), &EncodePlan{Encoders: []Endpoint{e1.Endpoint, e2.Endpoint}, Shared: 2}, r.request())
	if err != nil || said.Items != 2 || len(said.Calls) != 2 || said.Local != OK {
		t.Fatalf("%+v, %v", said, err)
	}
	all := slices.Concat(e1.requests(), e2.requests())
	slices.SortFunc(all, func(a, b got) int { return strings.Compare(a.id, b.id) })
	for i, g := range all {
		if g.id != fmt.Sprintf("client-1-enc-%d", i) || g.ids != 1 || g.path != "/v1/chat/completions" || g.header.Get("Content-Digest") != "" || g.header.Get("Authorization") != "Bearer x" {
			t.Errorf("call %d: %+v", i, g)
		}
	}
	if len(e1.requests()) != 1 || len(e2.requests()) != 1 || all[0].host != e1.Address {
		t.Error("they do not take turns")
	}
	if want := `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"b"}}]}],"max_tokens":1,"stream":false}`; all[1].body != want {
		t.Error(cmp.Diff(want, all[1].body))
	}
}

// F19: one encoder fails; what then happens the policy says.
func TestF19EncoderFails(t *testing.T) {
	left := make(chan struct{}, 100)
	for name, bad := range map[string]struct {
		play http.HandlerFunc
		want Reason
	}{
		"500": {answers(500, "text/plain", "no"), BadStatus}, "400": {answers(400, "text/plain", "no"), Refused}, "down": {nil, ConnectFailed},
		"reset": {breaks, Reset}, "error in a 200": {answers(200, "application/json", `{"error":{}}`), ReportedError}, "hangs": {hangs(left), Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			e1, e2 := newEngine(t, "e1", bad.play), newEngine(t, "e2", answers(200, "application/json", "{}"))
			r := newRig(t, NIXL)
			r.body = threeImages
			plan := &EncodePlan{Encoders: []Endpoint{e1.Endpoint}, Shared: 1, Policy: Policy{OnFailure: []Action{RetryOther, Fail}, Timeout: 50 * time.Millisecond, Budget: 10 * time.Second}}
			var failed *EncodeError
			if _, err := r.runner.Encode(t.Context(), plan, r.request()); !errors.As(err, &failed) || failed.Attempt.Reason != bad.want {
				t.Errorf("Fail: %v", err)
			}
			plan.Policy.OnFailure = []Action{LocalPrefill}
			if got, err := r.runner.Encode(t.Context(), plan, r.request()); err != nil || got.Local != bad.want {
				t.Errorf("Local: %+v, %v", got, err)
			}
			plan.Encoders, plan.Policy.OnFailure = append(plan.Encoders, e2.Endpoint), []Action{RetryOther, Fail}
			if got, err := r.runner.Encode(t.Context(), plan, r.request()); err != nil || got.Local != OK || len(got.Calls) != 4 || len(e2.requests()) != 2 {
				t.Errorf("RetryOther: %+v, %v", got, err)
			}
			eventually(t, "no connection is in use", func() bool { return e1.busy()+e2.busy() == 0 })
		})
	}
}

func TestEncodeEnds(t *testing.T) {
	left := make(chan struct{}, 2)
	e := newEngine(t, "e", hangs(left))
	r := newRig(t, NIXL)
	plan := &EncodePlan{Encoders: []Endpoint{e.Endpoint}}
	if got, err := r.runner.Encode(t.Context(), plan, r.request()); err != nil || got.Items != 0 || len(e.requests()) != 0 {
		t.Errorf("without media: %+v, %v", got, err)
	}
	r.body = threeImages
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "both calls are under way", func() bool { return len(e.requests()) == 2 })
		cancel()
	}()
	if _, err := r.runner.Encode(ctx, plan, r.request()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-left
	<-left
	r.path = "/v1/completions"
	if _, err := r.runner.Encode(t.Context(), plan, r.request()); !errors.Is(err, ErrNotDivisible) {
		t.Error(err)
	}
	if _, err := r.runner.Encode(t.Context(), &EncodePlan{}, r.request()); err == nil {
		t.Error("a plan without endpoints was taken")
	}
}

// With ec-nixl each encoder answers where its items are; the request is told of all.
func TestEncodersHandOver(t *testing.T) {
	handing := func(params string) http.HandlerFunc {
		return answers(200, "application/json", `{"choices":[{"finish_reason":"length"}],"ec_transfer_params":`+params+`}`)
	}
	const a, b = `{"ha": {"peer_port":9007199254740993}}`, `{"hb":{"peer_port":2},"ha":{"peer_port":3}}`
	for _, tt := range []struct {
		name   string
		second http.HandlerFunc
		demand bool
		policy []Action
		want   string
		local  Reason
		failed Reason
	}{
		{"both", handing(b), true, nil, `{"ha": {"peer_port":9007199254740993},"hb":{"peer_port":2}}`, OK, ""},
		{"one does not", answers(200, "application/json", `{}`), true, []Action{Fail}, "", OK, NoTransfer},
		{"one answers null", handing("null"), true, []Action{Fail}, "", OK, NoTransfer},
		{"one is not JSON", answers(200, "text/plain", `?`), true, []Action{Fail}, "", OK, Unreadable},
		{"partial", answers(500, "text/plain", ``), true, []Action{LocalPrefill}, `{"ha": {"peer_port":9007199254740993}}`, BadStatus, ""},
		{"partial, without parameters", answers(200, "application/json", `{}`), true, []Action{LocalPrefill}, `{"ha": {"peer_port":9007199254740993}}`, NoTransfer, ""},
		{"not demanded", answers(200, "text/plain", `?`), false, []Action{Fail}, `{"ha": {"peer_port":9007199254740993}}`, OK, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e1, e2 := newEngine(t, "e1", handing(a)), newEngine(t, "e2", tt.second)
			p, d := newEngine(t, "p", prefills()), newEngine(t, "d", decodes())
			r := newRig(t, NIXL, p)
			r.body = strings.Replace(threeImages, `"model":"m"`, `"model":"m","ec_transfer_params":{"evil":1}`, 1)
			req := r.request()
			said, err := r.runner.Encode(t.Context(), &EncodePlan{Encoders: []Endpoint{e1.Endpoint, e2.Endpoint}, Shared: 2, Demand: tt.demand, Policy: Policy{OnFailure: tt.policy}}, req)
			var failed *EncodeError
			if tt.failed != "" {
				if !errors.As(err, &failed) || failed.Attempt.Reason != tt.failed {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || string(said.Transfer) != tt.want || said.Local != tt.local {
				t.Fatalf("%+v with %s, %v", said, said.Transfer, err)
			}
			req.Encoded = said.Transfer
			resp, _, err := r.runner.Do(t.Context(), &r.plan, req, d.Endpoint, nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			for _, g := range []got{p.requests()[0], d.requests()[0]} {
				if !strings.Contains(g.body, `"ec_transfer_params":`+tt.want) || strings.Contains(g.body, "evil") {
					t.Errorf("a leg is told %s", g.body)
				}
			}
			for _, g := range append(e1.requests(), e2.requests()...) {
				if strings.Contains(g.body, "ec_transfer_params") {
					t.Errorf("an encoder is told %s", g.body)
				}
			}
		})
	}
}
