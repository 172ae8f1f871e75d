package httpproxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

const withImages = `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a"}},{"type":"image_url","image_url":{"url":"b"}},{"type":"image_url","image_url":{"url":"a"}}]}]}`

// encodedBy is a rig in which e0 decodes, e1 prefills and e2, with e3 to fall back on,
// encodes.
func encodedBy(t *testing.T, on []route.Action, encoders ...http.HandlerFunc) (*pd, *stageReservation) {
	t.Helper()
	policy := policyFor(route.Local)
	policy.Encode = route.StagePolicy{OnFailure: on, Attempts: 2, Timeout: 5 * time.Second, Budget: 5 * time.Second}
	p := newPD(t, route.ConnectorNIXL, policy, handlers{decodes()}, append(handlers{prefills()}, encoders...))
	own := &stageReservation{}
	made := p.plan
	p.plan = func(d *route.Decision, all []roster.Endpoint) {
		if made(d, all); d.Endpoint == nil {
			return
		}
		s := route.Stage{Name: route.StageEncode, Picked: 1, Reservation: own}
		for i := range encoders {
			s.Endpoints = append(s.Endpoints, &all[2+i])
		}
		d.Plan.Stages[0].Endpoints = []*roster.Endpoint{&all[1]}
		d.Plan.Stages = append([]route.Stage{s}, d.Plan.Stages...)
		d.Reservation = both{d.Reservation, own}
	}
	return p, own
}

// F17, F19: media are encoded before anything else, or what the policy says.
func TestEncodeElsewhere(t *testing.T) {
	ok := answers(200, "{}")
	tests := []struct {
		name     string
		on       []route.Action
		encoders handlers
		body     string
		status   int
		reason   string
		calls    map[string]float64
		legs     int // besides the calls
		local    route.Reason
	}{
		{"F17 encoded", []route.Action{route.Fail}, handlers{ok}, withImages, 200, "", map[string]float64{"ok": 2}, 2, ""},
		{"F19 fails", []route.Action{route.Fail}, handlers{answers(500, "")}, withImages, 502, "encode-failed", nil, 0, ""},
		{"another encodes", []route.Action{route.RetryOther, route.Fail}, handlers{answers(500, ""), ok}, withImages, 200, "", map[string]float64{"bad-status": 2, "ok": 2}, 2, ""},
		{"the endpoint that decodes does", []route.Action{route.Local}, handlers{breaks}, withImages, 200, "", nil, 2, route.ReasonStageFailed},
		{"nothing to encode", []route.Action{route.Fail}, handlers{ok}, `{"model":"m","messages":[]}`, 200, "", map[string]float64{}, 2, route.ReasonCapability},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, own := encodedBy(t, tt.on, tt.encoders...)
			got := p.do("POST", "/v1/chat/completions", tt.body)
			if got.status != tt.status || got.header.Get("X-Pointsman-Reason") != tt.reason {
				t.Errorf("%+v", got)
			}
			p.settled()
			own.mu.Lock()
			if !own.ended || own.done != (tt.reason == "" && tt.local == "") {
				t.Errorf("the stage's reservation: ended %v, done %v", own.ended, own.done)
			}
			own.mu.Unlock()
			legs := 0
			for _, l := range p.legs() {
				if strings.HasSuffix(l, "e0") || strings.HasSuffix(l, "e1") {
					legs++
				}
			}
			if legs != tt.legs {
				t.Errorf("legs %v", p.legs())
			}
			for why, n := range tt.calls {
				if v := p.value("encode_calls_total", "reason", why); v != n {
					t.Errorf("%v calls ended by %s", v, why)
				}
			}
			if tt.calls != nil && p.value("encode_calls_total") != sum(tt.calls) {
				t.Errorf("%v calls", p.value("encode_calls_total"))
			}
			for _, why := range route.Reasons() {
				want := 0.0
				if why == tt.local {
					want = 1
				}
				if n := p.tel.Value("pointsman_router_decode_only_total", "stage", "encode", "reason", string(why)); n != want {
					t.Errorf("%v requests were encoded where they are decoded because of %s", n, why)
				}
			}
		})
	}
}
