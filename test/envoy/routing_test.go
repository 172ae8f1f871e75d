package envoy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/test/cluster"
)

// decoy is a server that is in no pool.
func (r *rig) decoy(t testing.TB) *server {
	t.Helper()
	other := &servers{t: t}
	other.front(r.Servers[0])
	return other.all[0]
}

// spoofs are headers by which a client tries to choose the server itself (B214, B216).
func spoofs(address string) []map[string]string {
	var all []map[string]string
	for _, name := range []string{"X-Gateway-Destination-Endpoint", "x-gateway-destination-endpoint", "X-GATEWAY-Destination-ENDPOINT"} {
		for _, value := range []string{address, address + "\n" + address, address + "," + address} {
			all = append(all, map[string]string{name: value})
		}
	}
	for _, name := range []string{"x-gateway-destination-endpoint-subset", "x-gateway-destination-endpoint-served", "x-prefiller-url", "x-prefiller-host-port", "X-Prefiller-Host-Port", "x-encoder-hosts-ports", "x-data-parallel-host-port", "x-pointsman-endpoint"} {
		all = append(all, map[string]string{name: address})
	}
	return all
}

// TestDestination follows the picker with either kind of cluster. What clients say of
// the destination counts for nothing (B214, B216), not even without a picker.
func TestDestination(t *testing.T) {
	for _, file := range []string{overrideHost, originalDst} {
		t.Run(file, func(t *testing.T) {
			r := newRig(t, options{file: file, cluster: cluster.Options{Servers: 4}, listeners: func(b *bootstrap) {
				b.listen(t, "openai", nil)
				b.listen(t, "bare", func(l *listener) { delete(l.manager, "early_header_mutation_extensions") })
				b.listen(t, "open", func(l *listener) { l.extProc["failure_mode_allow"] = true })
				b.listen(t, "late", func(l *listener) { l.host["request_headers_to_remove"] = []any{"x-gateway-destination-endpoint"} })
			}})
			met := map[string]bool{}
			for i := range 20 {
				got := r.echo(t, "openai", request{body: []byte(fmt.Sprintf(`{"model":"sim-model","messages":[{"role":"user","content":"%d"}]}`, i))})
				r.decided(t, got)
				met[got.Server] = true
				if to := got.Headers.Values("X-Gateway-Destination-Endpoint"); len(to) != 1 || to[0] != got.Server {
					t.Errorf("%s was told of the destination %q", got.Server, to)
				}
			}
			if len(met) < 2 {
				t.Errorf("all requests went to %v", met)
			}
			decoy := r.decoy(t)
			for _, headers := range spoofs(decoy.address) {
				for _, l := range []string{"openai", "bare"} { // bare: the picker alone takes care
					q := request{body: chat(300), headers: map[string]string{}}
					for name, value := range headers {
						q.headers[name] = value
					}
					got := r.echo(t, l, q)
					r.decided(t, got)
					for name, values := range got.Headers {
						if strings.Contains(strings.Join(values, " "), decoy.address) {
							t.Errorf("%v on %s: the server got %s: %v", headers, l, name, values)
						}
					}
				}
			}
			// Routes remove headers after the picker has set them: only the metadata is left.
			late := r.send(t, "late", request{body: chat(300), headers: map[string]string{headerDo: "echo"}})
			if followed := late.status == http.StatusOK; followed != (file == overrideHost) {
				t.Errorf("without the picker's header the status is %d", late.status)
			}
			r.idle(t)
			r.content(t, "openai")
			r.content(t, "bare")

			r.Routers[0].Kill()
			for _, headers := range spoofs(decoy.address)[:9] {
				for _, l := range []string{"openai", "open"} {
					q := request{method: http.MethodGet, path: "/v1/models", headers: map[string]string{headerDo: "echo"}}
					for name, value := range headers {
						q.headers[name] = value
					}
					a := r.send(t, l, q)
					if want := l == "open" && file == overrideHost; (a.status == http.StatusOK) != want || !want && a.status != http.StatusServiceUnavailable {
						t.Errorf("%v on %s without a picker: status %d: %.200s", headers, l, a.status, a.body)
					}
				}
			}
			if n := decoy.counted("echo"); n != 0 {
				t.Errorf("clients have sent %d requests to where they liked", n)
			}
		})
	}
}

// TestRetry has the picked server refuse connections: the next one that was named
// serves, and that is believed of the request from then on.
func TestRetry(t *testing.T) {
	r := newRig(t, options{file: overrideHost, cluster: cluster.Options{Servers: 4, RouterSets: []string{"listen.extProc.fallbacks=2"}}})
	body := chat(4_000)
	first := r.echo(t, "openai", request{body: body})
	if to := strings.Split(first.Headers.Get("X-Gateway-Destination-Endpoint"), ","); len(to) != 3 || to[0] != first.Server {
		t.Fatalf("named are %v", to)
	}
	matched := func(d *routerv1.Decision, address string) uint32 {
		for _, c := range d.GetProfiles()[0].GetCandidates() {
			if c.GetEndpoint().GetAddress() == address {
				for _, s := range c.GetScores() {
					if s.MatchedBlockCount != nil {
						return s.GetMatchedBlockCount()
					}
				}
			}
		}
		return 0
	}
	r.idle(t)
	refusing := r.servers.at(first.Server)
	refusing.stop()
	mark, moves := r.mark(t), r.counter("pointsman_router_extproc_moves_total", "")

	second := r.echo(t, "openai", request{body: body})
	d := r.decisions.of(t, second.Headers.Get("X-Request-Id"))
	if d.GetEndpoint().GetAddress() != first.Server || matched(d, first.Server) == 0 {
		t.Fatalf("%s was picked, not %s that has the prefix", d.GetEndpoint().GetAddress(), first.Server)
	}
	if next := d.GetFallbacks()[0].GetAddress(); second.Server != next {
		t.Errorf("%s has served, not %s that was named second", second.Server, next)
	}
	moves.rose(t, 1)
	o := r.outcomes.since(t, mark, 2)
	if !strings.Contains(o[0].endpoint, first.Server) || o[0].finished.GetCompleted() || !strings.Contains(o[1].endpoint, second.Server) || !o[1].finished.GetCompleted() || !o[1].firstToken {
		t.Errorf("outcomes: %+v", o)
	}
	if n := r.stat(t, "cluster.model-servers.upstream_rq_retry"); n != 1 {
		t.Errorf("Envoy has retried %d times", n)
	}
	r.idle(t)

	refusing.again(t)
	kittest.Eventually(t, "the prefix to be found where it was served", func() bool {
		third := r.echo(t, "openai", request{body: body})
		return matched(r.decided(t, third), second.Server) > 0
	})
	r.content(t, "openai")
}

// TestSubset restricts who may be picked, as filters before the picker do (A14, A16, B10).
func TestSubset(t *testing.T) {
	r := newRig(t, options{file: overrideHost, cluster: cluster.Options{Servers: 4}, listeners: func(b *bootstrap) {
		for _, mode := range []string{"FULL_DUPLEX_STREAMED", "BUFFERED", "NONE"} {
			b.listen(t, mode, func(l *listener) {
				l.modes(mode, mode)
				l.before("envoy.filters.http.header_to_metadata", "envoy.extensions.filters.http.header_to_metadata.v3.Config", object{
					"request_rules": []any{object{"header": "x-test-subset", "on_header_present": object{"metadata_namespace": "envoy.lb.subset_hint", "key": "x-gateway-destination-endpoint-subset"}}},
				})
			})
		}
	}})
	one, two := r.servers.all[1].address, r.servers.all[2].address
	for _, l := range []string{"FULL_DUPLEX_STREAMED", "BUFFERED", "NONE"} {
		for _, c := range []struct {
			name, subset string
			allowed      []string // nil: nobody
		}{
			{"one", one, []string{one}},
			{"A14: two, and one that is not there", one + "," + two + ",127.0.0.1:1", []string{one, two}},
			{"A16: none that is there", "127.0.0.1:1,127.0.0.2:8000", nil},
		} {
			t.Run(l+", "+c.name, func(t *testing.T) {
				for _, body := range [][]byte{chat(300), nil} {
					q := request{body: body, headers: map[string]string{"x-test-subset": c.subset, headerDo: "echo"}}
					if body == nil {
						q.method, q.path = http.MethodGet, "/v1/models"
					}
					if c.allowed == nil {
						r.send(t, l, q).refused(t, http.StatusServiceUnavailable, "no-endpoint")
						continue
					}
					for range 4 {
						got := r.echo(t, l, q)
						r.decided(t, got)
						if !slices.Contains(c.allowed, got.Server) {
							t.Errorf("%s has served", got.Server)
						}
					}
				}
			})
		}
		r.content(t, l)
	}
}
