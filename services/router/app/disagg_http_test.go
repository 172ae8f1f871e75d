package app

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// B214, B160, C22, C23: the HTTP front tells a sidecar what it decided and nothing that a
// client said.
func TestHTTPFrontTellsASidecar(t *testing.T) {
	var seen http.Header
	var host string
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen, host = r.Header, r.Host
		fmt.Fprint(w, `{"choices":[{"text":"x"}]}`)
	}))
	t.Cleanup(engine.Close)
	_, text, err := net.SplitHostPort(engine.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	ranks := fmt.Sprintf("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: data-parallel-profile-handler, parameters: {primaryPort: %d}}, {type: queue-scorer}]\n", port)
	label := func(role string) []roster.Label { return []roster.Label{{Name: "llm-d.ai/role", Value: role}} }
	decode := roster.Endpoint{ID: "d", Host: "127.0.0.1", Port: uint16(port), Labels: label("decode")}
	for _, c := range []struct {
		name, config string
		endpoints    []roster.Endpoint
		want         [2]string // prefiller, rank
	}{
		{"C23 prefill, IPv6", configured("always-disagg-pd-decider", ", connector: sidecar"), []roster.Endpoint{decode, {ID: "p", Host: "::1", Port: 8200, Labels: label("prefill")}}, [2]string{"[::1]:8200", ""}},
		{"C22 decode only", configured("always-disagg-pd-decider", ", connector: sidecar"), []roster.Endpoint{decode}, [2]string{"", ""}},
		{"a rank", ranks, []roster.Endpoint{{ID: "r", Host: "127.0.0.1", Port: 1}}, [2]string{"", "127.0.0.1:1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := place(t, c.config)
			table, err := roster.NewTable(c.endpoints)
			if err != nil {
				t.Fatal(err)
			}
			s.roster.SetTable(table)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", strings.NewReader(`{"model":"m","prompt":"a prompt of some length"}`))
			for _, name := range []string{"X-Prefiller-Host-Port", "x-prefiller-host-port", "X-Encoder-Hosts-Ports", "X-Data-Parallel-Host-Port", "X-Prefiller-Url"} {
				r.Header[name] = []string{"169.254.169.254:80", "169.254.169.254:81"}
			}
			w := httptest.NewRecorder()
			s.proxy.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Fatalf("%d: %s", w.Code, w.Body)
			}
			got := [2]string{strings.Join(seen.Values("X-Prefiller-Host-Port"), " "), strings.Join(seen.Values("X-Data-Parallel-Host-Port"), " ")}
			if d := cmp.Diff(c.want, got); d != "" || seen.Get("X-Encoder-Hosts-Ports") != "" || seen.Get("X-Prefiller-Url") != "" || host != fmt.Sprintf("127.0.0.1:%d", port) {
				t.Errorf("host %s, headers %v: %s", host, seen, d)
			}
			s.idleAgain()
		})
	}
}
