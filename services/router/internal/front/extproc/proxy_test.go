package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
)

// proxy is one stream, as Envoy has it.
type proxy struct {
	r         *rig
	stream    extproc.ExternalProcessor_ProcessClient
	cancel    context.CancelFunc
	config    *extproc.ProtocolConfiguration // goes with the first message
	meta      *core.Metadata                 // goes with the next message
	attribute *structpb.Struct
}

// modes are those of the proxy; "" is a proxy that tells nothing.
func (r *rig) open(request, response string) *proxy {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	r.t.Cleanup(cancel)
	s, err := extproc.NewExternalProcessorClient(r.conn).Process(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &proxy{r: r, stream: s, cancel: cancel}
	if request != "" {
		p.config = protocolConfig(request, response)
	}
	return p
}

func protocolConfig(request, response string) *extproc.ProtocolConfiguration {
	mode := func(s string) filter.ProcessingMode_BodySendMode {
		return filter.ProcessingMode_BodySendMode(filter.ProcessingMode_BodySendMode_value[s])
	}
	return &extproc.ProtocolConfiguration{RequestBodyMode: mode(request), ResponseBodyMode: mode(response)}
}

const (
	duplex   = "FULL_DUPLEX_STREAMED"
	buffered = "BUFFERED"
	partial  = "BUFFERED_PARTIAL"
	streamed = "STREAMED"
	none     = "NONE"
)

// duplex opens a stream as the endpoint picker protocol has it.
func (r *rig) duplex() *proxy { r.t.Helper(); return r.open(duplex, duplex) }

func (p *proxy) send(m *extproc.ProcessingRequest) {
	p.r.t.Helper()
	m.ProtocolConfig, p.config = p.config, nil
	m.MetadataContext, p.meta = p.meta, nil
	if p.attribute != nil {
		m.Attributes = map[string]*structpb.Struct{"envoy.filters.http.ext_proc": p.attribute}
		p.attribute = nil
	}
	if err := p.stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		p.r.t.Fatal(err)
	}
}

// allow puts a subset hint into the next message.
func (p *proxy) allow(subset any) *proxy {
	return p.know("envoy.lb.subset_hint", edge.HeaderSubset, subset)
}

// know puts a value into the metadata of the next message.
func (p *proxy) know(namespace, key string, value any) *proxy {
	p.r.t.Helper()
	s, err := structpb.NewStruct(map[string]any{key: value})
	if err != nil {
		p.r.t.Fatal(err)
	}
	p.meta = &core.Metadata{FilterMetadata: map[string]*structpb.Struct{namespace: s}}
	return p
}

func headerMap(pairs []string) *core.HeaderMap {
	m := new(core.HeaderMap)
	for i := 0; i+1 < len(pairs); i += 2 {
		m.Headers = append(m.Headers, &core.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return m
}

// headers sends the headers of a request.
func (p *proxy) headers(method, path string, end bool, pairs ...string) {
	p.r.t.Helper()
	pairs = append([]string{":method", method, ":path", path, ":authority", "x"}, pairs...)
	p.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestHeaders{
		RequestHeaders: &extproc.HttpHeaders{Headers: headerMap(pairs), EndOfStream: end},
	}})
}

func (p *proxy) body(b string, end bool) {
	p.r.t.Helper()
	p.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: []byte(b), EndOfStream: end}}})
}

func (p *proxy) trailers() {
	p.r.t.Helper()
	p.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestTrailers{RequestTrailers: &extproc.HttpTrailers{}}})
}

// post sends a request whole, as FULL_DUPLEX_STREAMED has it.
func (p *proxy) post(path, body string, pairs ...string) {
	p.r.t.Helper()
	p.headers("POST", path, false, append([]string{"content-type", "application/json", "content-length", fmt.Sprint(len(body))}, pairs...)...)
	p.body(body, false)
	p.body("", true)
}

// answer sends the headers of an answer.
func (p *proxy) answer(status int, end bool, pairs ...string) {
	p.r.t.Helper()
	pairs = append([]string{":status", fmt.Sprint(status)}, pairs...)
	p.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseHeaders{
		ResponseHeaders: &extproc.HttpHeaders{Headers: headerMap(pairs), EndOfStream: end},
	}})
}

func (p *proxy) answerBody(b string, end bool) {
	p.r.t.Helper()
	p.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseBody{ResponseBody: &extproc.HttpBody{Body: []byte(b), EndOfStream: end}}})
}

func (p *proxy) answerTrailers() {
	p.r.t.Helper()
	p.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extproc.HttpTrailers{}}})
}

// recv receives the next message.
func (p *proxy) recv() *extproc.ProcessingResponse {
	p.r.t.Helper()
	m, err := p.stream.Recv()
	if err != nil {
		p.r.t.Fatalf("no answer came: %v", err)
	}
	return m
}

// silent checks that no answer is on its way: the stream is closed by the proxy and
// ends without one.
func (p *proxy) silent() {
	p.r.t.Helper()
	_ = p.stream.CloseSend()
	if m, err := p.stream.Recv(); err == nil {
		p.r.t.Errorf("an answer came that should not: %v", m)
	} else if !errors.Is(err, io.EOF) && status.Code(err) != codes.Canceled {
		p.r.t.Errorf("the stream ended with %v", err)
	}
}

// routed is what a request's headers were answered with.
type routed struct {
	Set    map[string]string
	Remove []string
	Meta   string
	Clear  bool
}

func mutationOf(c *extproc.CommonResponse, m *extproc.ProcessingResponse) routed {
	out := routed{Set: map[string]string{}, Remove: c.GetHeaderMutation().GetRemoveHeaders(), Clear: c.GetClearRouteCache()}
	for _, h := range c.GetHeaderMutation().GetSetHeaders() {
		out.Set[h.GetHeader().GetKey()] = string(h.GetHeader().GetRawValue())
		if h.GetAppendAction() != core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			out.Set[h.GetHeader().GetKey()] += " (" + h.GetAppendAction().String() + ")"
		}
	}
	out.Meta = m.GetDynamicMetadata().GetFields()["envoy.lb"].GetStructValue().GetFields()[edge.HeaderDestination].GetStringValue()
	return out
}

// routed receives the answer to a request's headers.
func (p *proxy) routed() routed {
	p.r.t.Helper()
	m := p.recv()
	h := m.GetRequestHeaders()
	if h == nil {
		p.r.t.Fatalf("the headers were answered with %v", m)
	}
	return mutationOf(h.GetResponse(), m)
}

// to checks that the request goes there, and returns what else its headers were answered
// with.
func (p *proxy) to(address string) routed {
	p.r.t.Helper()
	got := p.routed()
	if got.Set[edge.HeaderDestination] != address || got.Meta != address || !got.Clear {
		p.r.t.Errorf("it goes to %q, in the metadata to %q, route cache cleared: %v; want %q", got.Set[edge.HeaderDestination], got.Meta, got.Clear, address)
	}
	return got
}

// echoed receives a streamed body to its end.
func (p *proxy) echoed() (body string, messages int) {
	p.r.t.Helper()
	for {
		m := p.recv()
		s := m.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if s == nil {
			s = m.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		}
		if s == nil {
			p.r.t.Fatalf("a body was answered with %.300v", m)
		}
		if len(s.GetBody()) > 62000 {
			p.r.t.Errorf("a message holds %d bytes", len(s.GetBody()))
		}
		body += string(s.GetBody())
		messages++
		if s.GetEndOfStream() {
			return body, messages
		}
	}
}

// same checks that a streamed body is this one.
func (p *proxy) same(want string) {
	p.r.t.Helper()
	if got, _ := p.echoed(); got != want {
		p.r.t.Errorf("the body has become %.300q, was %.300q", got, want)
	}
}

// refusal is an answer of the front's own.
type refusal struct {
	Status  int
	Reason  string
	Headers map[string]string
	Body    string
}

// refused receives an immediate answer, and the end of the stream after it.
func (p *proxy) refused() refusal {
	p.r.t.Helper()
	m := p.recv()
	i := m.GetImmediateResponse()
	if i == nil {
		p.r.t.Fatalf("it was not refused: %.300v", m)
	}
	out := refusal{Status: int(i.GetStatus().GetCode()), Headers: map[string]string{}, Body: string(i.GetBody())}
	for _, h := range i.GetHeaders().GetSetHeaders() {
		out.Headers[h.GetHeader().GetKey()] = string(h.GetHeader().GetRawValue())
	}
	out.Reason = out.Headers[edge.HeaderReason]
	if m, err := p.stream.Recv(); !errors.Is(err, io.EOF) {
		p.r.t.Errorf("after the refusal came %v, %v", m, err)
	}
	return out
}

// finish ends a request that was routed, with a short answer.
func (p *proxy) finish() {
	p.r.t.Helper()
	p.answer(200, true)
	if m := p.recv(); m.GetResponseHeaders() == nil {
		p.r.t.Errorf("the headers of the answer were answered with %v", m)
	}
	p.cancel()
}

// chat returns a chat body.
func chat(model, text string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"` + text + `"}]}`
}

// eachMode runs a test for every mode in which bodies are decided on.
func eachMode(t *testing.T, f func(t *testing.T, mode string)) {
	for _, mode := range []string{duplex, buffered, partial} {
		t.Run(strings.ToLower(mode), func(t *testing.T) { f(t, mode) })
	}
}

// submit sends a request in any of these modes, and returns the change that it gets and
// the body that goes on.
func (p *proxy) submit(mode, path, body string, pairs ...string) (routed, string) {
	p.r.t.Helper()
	if mode == duplex {
		p.post(path, body, pairs...)
		got := p.routed()
		out, _ := p.echoed()
		return got, out
	}
	p.headers("POST", path, false, append([]string{"content-type", "application/json", "content-length", fmt.Sprint(len(body))}, pairs...)...)
	if first := p.routed(); first.Set[edge.HeaderDestination] != "" || !slices.Contains(first.Remove, edge.HeaderDestination) {
		p.r.t.Errorf("the headers were answered with %v", first)
	}
	p.body(body, true)
	m := p.recv()
	b := m.GetRequestBody()
	if b == nil {
		p.r.t.Fatalf("the body was answered with %.300v", m)
	}
	if replaced, ok := b.GetResponse().GetBodyMutation().GetMutation().(*extproc.BodyMutation_Body); ok {
		body = string(replaced.Body)
	} else if b.GetResponse().GetBodyMutation() != nil {
		p.r.t.Errorf("the body's mutation is %v", b.GetResponse().GetBodyMutation())
	}
	return mutationOf(b.GetResponse(), m), body
}

// waiting returns a mode for proxies that do not wait for the answer to the headers.
func (r *rig) openNoWait(response string) *proxy {
	r.t.Helper()
	p := r.open(streamed, response)
	p.config.SendBodyWithoutWaitingForHeaderResponse = true
	return p
}

// observed is a message of a proxy in observability mode.
func observed() *extproc.ProcessingRequest {
	return &extproc.ProcessingRequest{ObservabilityMode: true, Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{
		Headers: headerMap([]string{":method", "GET", ":path", "/"}), EndOfStream: true,
	}}}
}
