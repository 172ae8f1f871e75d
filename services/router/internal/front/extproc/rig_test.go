package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reservation counts what is done with it.
type reservation struct {
	rig         *rig
	mu          sync.Mutex
	on          []roster.ID
	firstTokens int
	finished    int
	completed   bool
	usage       route.Usage
}

func (r *reservation) PickID() string { return "pick" }
func (r *reservation) FirstToken()    { r.mu.Lock(); r.firstTokens++; r.mu.Unlock() }
func (r *reservation) Move(to *roster.Endpoint) {
	r.mu.Lock()
	r.on = append(r.on, to.ID)
	r.mu.Unlock()
}

func (r *reservation) Finish(completed bool, u route.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished++; r.finished == 1 {
		r.completed, r.usage = completed, u
	}
}

// outcome is a reservation's state, for comparison.
type outcome struct {
	Finished, FirstTokens int
	Completed             bool
	Usage                 route.Usage
}

func (r *reservation) outcome() outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return outcome{r.finished, r.firstTokens, r.completed, r.usage}
}

// rig is a front with a proxy's connection to it. It decides and hears how endpoints
// do.
type rig struct {
	t      testing.TB
	tel    *telemetry.Telemetry
	server *Server
	grpc   *grpc.Server
	conn   *grpc.ClientConn
	roster *roster.Roster

	endpoints int
	fallbacks int // of a decision
	max       int // what the picker is asked for
	cheap     bool
	err       error                           // of a decision
	decide    func(ctx context.Context) error // called in each decision
	decider   Decider                         // instead of the rig
	deps      func(d *Deps)

	mu           sync.Mutex
	seen         []*route.Request
	prompts      []string
	reservations []*reservation
	cheaply      int
	failed       []string
	succeeded    []string
}

type option func(r *rig, c *Config)

func with(f func(c *Config)) option { return func(_ *rig, c *Config) { f(c) } }

func newRig(t testing.TB, opts ...option) *rig {
	t.Helper()
	r := &rig{t: t, tel: telemetry.Discard(), endpoints: 3, fallbacks: 2, max: 1}
	cfg := DefaultConfig()
	cfg.SecureServing = false
	for _, o := range opts {
		o(r, &cfg)
	}
	if r.roster == nil {
		r.roster = roster.New(roster.Config{})
		var list []roster.Endpoint
		for i := range r.endpoints {
			list = append(list, roster.Endpoint{ID: roster.ID(fmt.Sprintf("e%d", i)), Host: fmt.Sprintf("192.168.1.%d", i+1), Port: 8000})
		}
		r.setTable(list)
	}
	deps := Deps{Decider: r, Roster: r.roster, Quarantine: r, Telemetry: r.tel}
	if r.decider != nil {
		deps.Decider = r.decider
	}
	if r.cheap {
		deps.Cheap = cheap{r}
	}
	if r.deps != nil {
		r.deps(&deps)
	}
	var err error
	if r.server, err = New(deps, cfg); err != nil {
		t.Fatal(err)
	}
	options, err := r.server.Options()
	if err != nil {
		t.Fatal(err)
	}
	r.grpc = grpc.NewServer(options...)
	r.server.Register(r.grpc)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.grpc.Serve(l) }()
	r.conn, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.conn.Close()
		r.grpc.Stop()
		<-served
		r.settled()
	})
	return r
}

func (r *rig) setTable(list []roster.Endpoint) {
	r.t.Helper()
	table, err := roster.NewTable(list)
	if err != nil {
		r.t.Fatal(err)
	}
	r.roster.SetTable(table)
}

// settled checks that every reservation was ended once.
func (r *rig) settled() {
	r.t.Helper()
	kittest.Eventually(r.t, "the last stream to end", func() bool {
		return r.tel.Value("pointsman_router_extproc_requests_in_flight") == 0
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, res := range r.reservations {
		if o := res.outcome(); o.Finished != 1 {
			r.t.Errorf("reservation %d was finished %d times", i, o.Finished)
		}
	}
}

// Decide picks the first endpoint.
func (r *rig) Decide(ctx context.Context, req *route.Request) *route.Decision {
	r.mu.Lock()
	r.seen = append(r.seen, req)
	text := ""
	if req.Prompt != nil {
		text = req.Prompt.Text()
	}
	r.prompts = append(r.prompts, text)
	r.mu.Unlock()
	if r.decide != nil {
		if err := r.decide(ctx); err != nil {
			return &route.Decision{Request: req, Err: err}
		}
	}
	return r.pick(req)
}

func (r *rig) pick(req *route.Request) *route.Decision {
	if r.err != nil {
		return &route.Decision{Request: req, Err: r.err}
	}
	table := r.roster.Snapshot().Table
	if table.Len() == 0 {
		return &route.Decision{Request: req, Err: route.ErrNoEndpoint}
	}
	res := &reservation{rig: r}
	r.mu.Lock()
	r.reservations = append(r.reservations, res)
	r.mu.Unlock()
	d := &route.Decision{Request: req, Snapshot: r.roster.Snapshot(), Endpoint: &table.Endpoints[0], Reservation: res}
	for i := 1; i <= r.fallbacks && i < table.Len(); i++ {
		d.Fallbacks = append(d.Fallbacks, &table.Endpoints[i])
	}
	d.Results = []*route.ProfileResult{{Profile: &route.Profile{Picker: picker(r.max)}, Candidates: []int32{0}, Ranked: []int32{0}, Reservation: res}}
	return d
}

// cheap is the rig as the decider for when it was late.
type cheap struct{ r *rig }

func (c cheap) Decide(_ context.Context, req *route.Request) *route.Decision {
	c.r.mu.Lock()
	c.r.cheaply++
	c.r.mu.Unlock()
	return c.r.pick(req)
}

type picker int

func (p picker) Name() string { return "picker" }
func (p picker) Max() int     { return int(p) }
func (p picker) Pick(*route.Cycle, []int32, []float64, []int64, int, []int32) ([]int32, string) {
	return nil, ""
}

func (r *rig) Failed(id roster.ID, reason string) {
	r.mu.Lock()
	r.failed = append(r.failed, string(id)+": "+reason)
	r.mu.Unlock()
}

func (r *rig) Succeeded(id roster.ID) {
	r.mu.Lock()
	r.succeeded = append(r.succeeded, string(id))
	r.mu.Unlock()
}

// request returns the last request that was decided on, and its prompt.
func (r *rig) request() (*route.Request, string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 {
		r.t.Fatal("nothing was decided")
	}
	return r.seen[len(r.seen)-1], r.prompts[len(r.prompts)-1]
}

func (r *rig) decided() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// last waits for the last reservation to end and returns what became of it.
func (r *rig) last() outcome {
	r.t.Helper()
	r.mu.Lock()
	if len(r.reservations) == 0 {
		r.mu.Unlock()
		r.t.Fatal("nothing was reserved")
	}
	res := r.reservations[len(r.reservations)-1]
	r.mu.Unlock()
	kittest.Eventually(r.t, "the reservation to end", func() bool { return res.outcome().Finished > 0 })
	return res.outcome()
}

// count returns a metric of the front.
func (r *rig) count(name string, labels ...string) int {
	return int(r.tel.Value("pointsman_router_extproc_"+name, labels...))
}

// ended waits until so many streams have ended for the reason.
func (r *rig) ended(reason string, n int) {
	r.t.Helper()
	kittest.Eventually(r.t, "a stream to end: "+reason, func() bool { return r.count("requests_total", "reason", reason) == n })
}

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
		mode := func(s string) filter.ProcessingMode_BodySendMode {
			return filter.ProcessingMode_BodySendMode(filter.ProcessingMode_BodySendMode_value[s])
		}
		p.config = &extproc.ProtocolConfiguration{RequestBodyMode: mode(request), ResponseBodyMode: mode(response)}
	}
	return p
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
func (p *proxy) allow(subset any) *proxy { return p.know("envoy.lb.subset_hint", keySubset, subset) }

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
	out.Meta = m.GetDynamicMetadata().GetFields()["envoy.lb"].GetStructValue().GetFields()[destinationUsual].GetStringValue()
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
	if got.Set[destinationUsual] != address || got.Meta != address || !got.Clear {
		p.r.t.Errorf("it goes to %q, in the metadata to %q, route cache cleared: %v; want %q", got.Set[destinationUsual], got.Meta, got.Clear, address)
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
	out.Reason = out.Headers[headerReason]
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
	if first := p.routed(); first.Set[destinationUsual] != "" || !slices.Contains(first.Remove, destinationUsual) {
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

var _ = wire.None

// observed is a message of a proxy in observability mode.
func observed() *extproc.ProcessingRequest {
	return &extproc.ProcessingRequest{ObservabilityMode: true, Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{
		Headers: headerMap([]string{":method", "GET", ":path", "/"}), EndOfStream: true,
	}}}
}
