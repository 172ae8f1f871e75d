package httpproxy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// A client is given the token of the endpoint that answered, with the head of the
// answer, in place of whatever the endpoint itself says there.
func TestTheSessionTokenReachesTheClient(t *testing.T) {
	claims := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Session-Token", "the endpoint's own")
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {}\n\n")
	})
	for name, c := range map[string]struct {
		engines  []http.Handler
		sessions []string
		want     string
	}{
		"the first answers":    {[]http.Handler{claims}, []string{"x-session-token"}, route.SessionToken("p", "e0")},
		"after a retry":        {[]http.Handler{abort(), claims}, []string{"x-session-token"}, route.SessionToken("p", "e1")},
		"nobody wants a token": {[]http.Handler{claims}, nil, "the endpoint's own"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.engines, func(r *rig, _ *Config) { r.sessions = c.sessions })
			resp, err := http.Post("http://"+r.addr+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"x"}`))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got := resp.Header.Values("X-Session-Token"); len(got) != 1 || got[0] != c.want {
				t.Errorf("token %q, want %q", got, c.want)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
		})
	}
}
