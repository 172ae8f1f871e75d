package disagg

import (
	"net/http"
	"testing"
)

// Whoever is told of a decode leg that has failed can tell from whom it was to fetch.
func TestHandedBy(t *testing.T) {
	for name, c := range map[string]struct {
		connector Connector
		prefill   http.HandlerFunc // of the first one
		on        []Action
		decode    http.HandlerFunc
		want      string
	}{
		"NIXL":                      {NIXL, prefills(), []Action{Fail}, decodes(), "p"},
		"NIXL, the second one":      {NIXL, answers(500, "application/json", ""), []Action{RetryOther, Fail}, decodes(), "q"},
		"NIXL, and decoding fails":  {NIXL, prefills(), []Action{Fail}, answers(500, "text/plain", "gone"), "p"},
		"SGLang":                    {SGLang, prefills(), []Action{Fail}, decodes(), "p"},
		"from nobody":               {NIXL, answers(500, "application/json", ""), []Action{LocalPrefill}, decodes(), ""},
		"SGLang, then from nobody":  {SGLang, answers(500, "application/json", ""), []Action{LocalPrefill}, waitsForMeeting(decodes()), ""},
		"from a storage":            {SharedStorage, prefills(), []Action{Fail}, decodes(), ""},
		"refused, to decode at all": {NIXL, answers(400, "text/plain", "no"), []Action{Fail}, decodes(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.connector, newEngine(t, "p", c.prefill), newEngine(t, "q", prefills()))
			r.plan.Policy.OnFailure = c.on
			a := r.do(newEngine(t, "d", c.decode))
			if a.report.HandedBy.ID != c.want {
				t.Errorf("status %d, %v: from %q, want %q", a.status, a.err, a.report.HandedBy.ID, c.want)
			}
		})
	}
}

// waitsForMeeting does not answer the first leg, which is to meet another one.
func waitsForMeeting(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerRequestID) == "client-1" {
			<-r.Context().Done()
			return
		}
		then(w, r)
	}
}
