package httpproxy

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Where encoders answer ec_transfer_params, all who take part after them are told; what the
// client says of them nobody is.
func TestEncodedIsHandedOver(t *testing.T) {
	const params = `{"h":{"peer_host":"10.0.0.9","peer_port":9007199254740993}}`
	for name, prefilled := range map[string]bool{"prefilled elsewhere": true, "the endpoint that decodes prefills": false} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var told []string
			recorded := func(next http.HandlerFunc) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					raw, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					told = append(told, string(raw))
					mu.Unlock()
					if r.Header.Get("Content-Digest") != "" {
						t.Error("the digest is of another body")
					}
					next(w, r)
				}
			}
			policy := policyFor(route.Local)
			policy.Encode = route.StagePolicy{OnFailure: []route.Action{route.Fail}, Timeout: 5 * time.Second}
			p := newPD(t, route.ConnectorNIXL, policy, handlers{recorded(decodes())}, handlers{recorded(prefills()), answers(200, `{"ec_transfer_params":`+params+`}`)})
			made := p.plan
			p.plan = func(d *route.Decision, all []roster.Endpoint) {
				if made(d, all); d.Endpoint == nil {
					return
				}
				own := &stageReservation{}
				s := route.Stage{Name: route.StageEncode, Picked: 1, Reservation: own, Endpoints: []*roster.Endpoint{&all[2]}}
				if d.Plan.Stages[0].Endpoints = []*roster.Endpoint{&all[1]}; prefilled {
					d.Plan.Stages = append([]route.Stage{s}, d.Plan.Stages...)
				} else {
					d.Plan.Stages[0].Reservation.Finish(false, route.NoUsage())
					d.Plan.Stages = []route.Stage{s}
				}
				d.Reservation = both{d.Reservation, own}
			}
			got := p.do("POST", "/v1/chat/completions", strings.Replace(withImages, `"model":"m"`, `"model":"m","ec_transfer_params":{"evil":1}`, 1), "Content-Digest", "sha-256=:x:")
			if got.status != 200 {
				t.Fatalf("%+v", got)
			}
			p.settled()
			legs := 1
			if prefilled {
				legs = 2
			}
			if len(told) != legs {
				t.Errorf("%d legs: %q", len(told), told)
			}
			for _, b := range told {
				if !strings.Contains(b, `"ec_transfer_params":`+params) || strings.Contains(b, "evil") {
					t.Errorf("a leg is told %s", b)
				}
			}
		})
	}
}
