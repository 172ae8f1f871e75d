package envoy

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/pointsman/pointsman/test/cluster"
)

// way is one way to set the filter up.
type way struct {
	name, request, response string
	// edit changes more; may be nil.
	edit func(l *listener)
	// basis is what requests with a body are decided on.
	basis string
	// whole is true if answers reach the client only when they are complete.
	whole bool
	// blind is true if the router does not see the answer's body.
	blind bool
	// told is true if the server gets the client's Content-Length.
	told bool
}

// ways are those that the router claims to serve.
func ways() []way {
	const duplex, streamed, buffered, partial, none = "FULL_DUPLEX_STREAMED", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL", "NONE"
	set := func(key string, value any) func(*listener) {
		return func(l *listener) { l.extProc[key] = value }
	}
	roomy := func(l *listener) {
		l.self["per_connection_buffer_limit_bytes"] = 32 << 20
		l.host["request_body_buffer_limit"] = 32 << 20
	}
	return []way{
		{name: "duplex", request: duplex, response: duplex, basis: "body"}, // the file as it is
		{name: "duplex-length", told: true, request: duplex, response: duplex, basis: "body", edit: set("allow_content_length_header", true)},
		{name: "duplex-streamed", request: duplex, response: streamed, basis: "body"},
		{name: "duplex-none", request: duplex, response: none, basis: "body", blind: true},
		{name: "duplex-skip", request: duplex, response: none, basis: "body", blind: true, edit: func(l *listener) {
			mode, _ := l.extProc["processing_mode"].(object)
			mode["response_header_mode"] = "SKIP"
		}},
		{name: "streamed", request: streamed, response: streamed, basis: "headers"},
		{name: "streamed-nowait", request: streamed, response: streamed, basis: "body", edit: set("send_body_without_waiting_for_header_response", true)},
		{name: "buffered", told: true, request: buffered, response: buffered, basis: "body", whole: true, edit: roomy},
		{name: "buffered-streamed", told: true, request: buffered, response: streamed, basis: "body", edit: roomy},
		{name: "partial", request: partial, response: partial, basis: "body", whole: true, edit: roomy},
		{name: "none", told: true, request: none, response: none, basis: "headers", blind: true},
	}
}

func listenAllWays(t testing.TB) func(*bootstrap) {
	return func(b *bootstrap) {
		for _, w := range ways() {
			b.listen(t, w.name, func(l *listener) {
				l.modes(w.request, w.response)
				if w.edit != nil {
					w.edit(l)
				}
			})
		}
	}
}

// sizes of bodies: around what fits into a message, around what once did, and large.
var sizes = []int{0, 1, 61_999, 62_000, 62_001, 65_537, 200_000, 1_000_000, 5_000_000, 25_000_000}

// TestEveryWay runs, in every way, all that a client may do.
func TestEveryWay(t *testing.T) {
	r := newRig(t, options{file: overrideHost, cluster: cluster.Options{Servers: 3}, listeners: listenAllWays(t)})
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			for _, part := range []struct {
				name string
				run  func(t *testing.T, w way)
			}{{"bodies", r.bodies}, {"shapes", r.shapes}, {"answers", r.answers}, {"events", r.events}, {"disconnects", r.disconnects}, {"resets", r.resets}} {
				t.Run(part.name, func(t *testing.T) {
					part.run(t, w)
					r.idle(t)
				})
			}
			r.content(t, w.name)
		})
	}
}

// bodies sends bodies of all sizes, with and without Content-Length, in HTTP/1.1 and
// HTTP/2 (B014, B016, B017, C1–C6): each comes to the server byte for byte, to the one
// that was picked, on the basis that the mode allows.
func (r *rig) bodies(t *testing.T, w way) {
	streams, sent := r.counter("pointsman_router_extproc_streams_total", fmt.Sprintf("mode=%q", w.request)), 0
	for _, size := range sizes {
		for _, h2 := range []bool{false, true} {
			for _, chunked := range []bool{false, true} {
				if size > 1_000_000 && h2 != chunked {
					continue // as many as time allows
				}
				t.Run(fmt.Sprintf("%d bytes, h2 %t, chunked %t", size, h2, chunked), func(t *testing.T) {
					r.body(t, w, size, h2, chunked)
					sent++
				})
			}
		}
	}
	streams.rose(t, sent)
}

// body sends one body.
func (r *rig) body(t *testing.T, w way, size int, h2, chunked bool) {
	q := request{body: chat(size), h2: h2, chunked: chunked}
	if size < 100 { // too short for a chat
		q.path, q.body = "/anything", filler(size)
	}
	basis := w.basis
	if size == 0 && !chunked {
		basis = "headers" // which say that there is no body
	}
	label := fmt.Sprintf("basis=%q", basis)
	// Envoy sends no more of a body than its buffers hold before the headers are answered,
	// so that the router may have to do without the body.
	late := w.name == "streamed-nowait" && size > 1_000_000
	if late {
		label = ""
	}
	based := r.counter("pointsman_router_extproc_decisions_total", label)
	done := r.counter("pointsman_router_extproc_requests_total", `code="2xx",reason="ok"`)
	received := r.counter("pointsman_router_extproc_request_bytes_total", "")
	got := r.echo(t, w.name, q)
	if got.Method != http.MethodPost {
		t.Errorf("method %s", got.Method)
	}
	if told := got.Length >= 0; told != (w.told && !chunked) && size > 0 {
		t.Errorf("the server was told of %d bytes", got.Length)
	}
	d := r.decided(t, got)
	if known := d.GetPromptTokenCount() > 0; known != (basis == "body" && size >= 100) && !late {
		t.Errorf("the prompt was taken to have %d tokens on the basis of %s", d.GetPromptTokenCount(), basis)
	}
	based.rose(t, 1)
	if w.name != "duplex-skip" { // the status is not seen there
		done.rose(t, 1)
	}
	if w.request != "NONE" {
		received.rose(t, size)
	}
}
