package envoy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/test/cluster"
)

// TestRewrite puts another model into bodies, of which nothing else changes (B025, B028),
// and whose length is right in every mode (B044). Modes in which the picker does not see
// the body before it has to answer leave the model alone, and say so once.
func TestRewrite(t *testing.T) {
	const longer = "a-much-longer-name-than-it-had"
	r := newRig(t, options{file: overrideHost, cluster: cluster.Options{Servers: 2}, listeners: func(b *bootstrap) {
		for _, w := range ways() {
			b.listen(t, w.name, func(l *listener) {
				l.modes(w.request, w.response)
				if w.edit != nil {
					w.edit(l)
				}
				l.before("envoy.filters.http.header_mutation", "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation", object{"mutations": object{
					"request_mutations": []any{object{"append": object{"append_action": "OVERWRITE_IF_EXISTS_OR_ADD", "header": object{"key": "x-gateway-model-name-rewrite", "value": longer}}}},
				}})
			})
		}
	}})
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			for _, size := range []int{300, 62_000, 1_000_000} {
				for _, h2 := range []bool{false, true} {
					body := bytes.Replace(chat(size), []byte(`"max_tokens"`), []byte(`"html":"<&>`+"\u2028"+`","max_tokens"`), 1)
					want := body
					if w.basis == "body" {
						want = bytes.Replace(body, []byte("sim-model"), []byte(longer), 1)
					}
					a := r.send(t, w.name, request{body: body, h2: h2, chunked: size == 62_000, headers: map[string]string{headerDo: "echo"}})
					var got seen
					if err := json.Unmarshal(a.body, &got); err != nil || a.status != http.StatusOK {
						t.Fatalf("status %d, %v: %.300s", a.status, err, a.body)
					}
					if got.Size != len(want) || got.Digest != digest(want) || got.Length >= 0 && got.Length != int64(len(want)) {
						t.Errorf("%d bytes: the server got %d, told of %d, want %d", size, got.Size, got.Length, len(want))
					}
					d := r.decided(t, got)
					if w.basis == "body" && (d.GetModel() != longer || d.GetClientModel() != "sim-model") {
						t.Errorf("decided on %q for %q", d.GetModel(), d.GetClientModel())
					}
				}
			}
			r.idle(t)
			r.content(t, w.name)
		})
	}
	if !strings.Contains(r.Routers[0].Log(), "could not be rewritten") {
		t.Error("the router does not say that models are not rewritten")
	}
}

// TestUnsupported has Envoy send bodies in a mode that the router does not serve: it says
// so, decides by the headers, and no client gets an error for it.
func TestUnsupported(t *testing.T) {
	r := newRig(t, options{file: overrideHost, cluster: cluster.Options{Servers: 2}, listeners: func(b *bootstrap) {
		b.listen(t, "grpc", func(l *listener) { l.modes("GRPC", "GRPC") })
	}})
	decided := r.counter("pointsman_router_extproc_decisions_total", `basis="headers"`)
	sent := 0
	for _, size := range []int{0, 1, 62_001, 1_000_000} {
		for _, h2 := range []bool{false, true} {
			q := request{body: filler(size), path: "/anything", h2: h2}
			r.decided(t, r.echo(t, "grpc", q))
			sent++
		}
	}
	decided.rose(t, sent)
	said := slices.ContainsFunc(strings.Split(r.Routers[0].Log(), "\n"), func(line string) bool {
		return strings.Contains(line, "level=WARN") && strings.Contains(line, "mode=GRPC") && strings.Contains(line, "set request_body_mode to FULL_DUPLEX_STREAMED")
	})
	if !said {
		t.Error("the router does not say that the mode is not supported")
	}
	r.idle(t)
	r.content(t, "grpc")
}

// TestLimits has bodies be too large, for the router (413) or for Envoy's buffers.
func TestLimits(t *testing.T) {
	r := newRig(t, options{file: overrideHost, cluster: cluster.Options{Servers: 2, RouterSets: []string{"listen.extProc.maxRequestBytes=3000000"}}, listeners: func(b *bootstrap) {
		for _, mode := range []string{"FULL_DUPLEX_STREAMED", "BUFFERED"} {
			b.listen(t, mode, func(l *listener) { l.modes(mode, mode) })
		}
		b.listen(t, "tight", func(l *listener) {
			l.modes("BUFFERED", "STREAMED")
			delete(l.host, "request_body_buffer_limit") // 1 MiB by the listener's limit
		})
		b.listen(t, "partial", func(l *listener) {
			l.modes("BUFFERED_PARTIAL", "STREAMED")
			delete(l.host, "request_body_buffer_limit")
		})
	}})
	for _, mode := range []string{"FULL_DUPLEX_STREAMED", "BUFFERED"} {
		for _, chunked := range []bool{false, true} {
			a := r.send(t, mode, request{body: chat(3_000_001), chunked: chunked, headers: map[string]string{headerDo: "echo"}})
			a.refused(t, http.StatusRequestEntityTooLarge, "too-large")
			r.echo(t, mode, request{body: chat(3_000_000), chunked: chunked})
		}
	}
	r.echo(t, "tight", request{body: chat(1_000_000)})
	if a := r.send(t, "tight", request{body: chat(2_500_000), headers: map[string]string{headerDo: "echo"}}); a.status != http.StatusRequestEntityTooLarge || a.headers.Get("X-Pointsman-Reason") != "" {
		t.Errorf("Envoy answers status %d, reason %q", a.status, a.headers.Get("X-Pointsman-Reason"))
	}
	part := r.counter("pointsman_router_extproc_decisions_total", `basis="part"`)
	got := r.echo(t, "partial", request{body: chat(2_500_000)})
	if d := r.decided(t, got); d.GetModel() != "sim-model" {
		t.Errorf("the model is taken to be %q", d.GetModel())
	}
	part.rose(t, 1)
	r.idle(t)
}
