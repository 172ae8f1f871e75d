package app

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/epconfig"
	"github.com/pointsman/pointsman/services/router/internal/fanout"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// pickConfig is the built-in default's scorers.
const pickConfig = `
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: queue-scorer}, {type: kv-cache-scorer}, {type: prefix-cache-scorer}, {type: max-score-picker}, {type: single-profile-handler}]
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: max-score-picker}
`

// atOnce is a scorer that answers at once with figures that it has already, so that what
// is measured is the router.
type atOnce struct {
	needs  fanout.Needs
	scores route.Scores
}

func (*atOnce) Timeout() time.Duration                         { return 0 }
func (*atOnce) End(*fanout.Call, *route.Scores, fanout.Ending) {}
func (s *atOnce) Start(c *fanout.Call) {
	c.Inference(&s.needs)
	c.Answer(s.scores)
}

// PrefixNeeds has the ledger tell of prompts, as with the indexer.
func (s *atOnce) PrefixNeeds(*roster.Table) (size, limit int) {
	return s.needs.BlockSize, s.needs.BlockLimit
}

// atOnceScorers resolve every type to scorers that answer about n endpoints.
type atOnceScorers struct{ n int }

func (atOnceScorers) Types() []string {
	return []string{"queue-scorer", "kv-cache-scorer", "prefix-cache-scorer"}
}

func (s atOnceScorers) Resolve(_, scorerType string, _ []byte) (string, any, bool, []string, error) {
	a := &atOnce{scores: route.Scores{Verdict: route.Scored, Values: make([]float32, s.n), StateAge: time.Millisecond}}
	for i := range a.scores.Values {
		a.scores.Values[i] = float32(i%7) / 7
	}
	switch scorerType {
	case "queue-scorer":
		a.scores.RequestsPerPoint = 10
	case "prefix-cache-scorer":
		a.needs = fanout.Needs{Prefix: true, BlockSize: 64, BlockLimit: 256}
		a.scores.Matched, a.scores.BlockSize, a.scores.Blocks = make([]uint32, s.n), 64, 128
	}
	return "test", a, false, nil, nil
}

// playing is a stream of ext_proc whose messages are there already, so that gRPC is not
// measured.
type playing struct {
	grpc.ServerStream
	ctx  context.Context
	in   []mem.BufferSlice
	next int
	sent int // messages
}

func (s *playing) Context() context.Context { return s.ctx }

func (s *playing) RecvMsg(m any) error {
	if s.next == len(s.in) {
		return io.EOF
	}
	s.next++
	return wire.Codec().Unmarshal(s.in[s.next-1], m)
}

func (s *playing) SendMsg(m any) error {
	data, err := wire.Codec().Marshal(m)
	data.Free()
	s.sent++
	return err
}

// registrar takes the handler of a service instead of serving it.
type registrar struct{ process grpc.StreamHandler }

func (r *registrar) RegisterService(d *grpc.ServiceDesc, _ any) { r.process = d.Streams[0].Handler }

// picking returns a function that plays one exchange of ext_proc to a router of n
// endpoints, but for NATS and the scorers' transport: a chat of size bytes in full duplex,
// and its answer. It returns how many messages the router sent.
func picking(t testing.TB, n, size int) func() int {
	t.Helper()
	_, pick := pickingRouter(t, n, size)
	return pick
}

// pickingRouter is picking, with the router.
func pickingRouter(t testing.TB, n, size int) (*router, func() int) {
	t.Helper()
	o, err := parse([]string{"--set", "listen.extProc.secureServing=false"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r, err := build(o)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := epconfig.Load("test", []byte(pickConfig), epconfig.Deps{Scorers: atOnceScorers{n}})
	if err != nil {
		t.Fatal(err)
	}
	r.useConfiguration(loaded)
	list := make([]roster.Endpoint, n)
	for i := range list {
		list[i] = roster.Endpoint{ID: roster.ID(fmt.Sprintf("pod-%04d", i)), Host: fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), Port: 8000}
	}
	table, err := roster.NewTable(list)
	if err != nil {
		t.Fatal(err)
	}
	r.roster.SetTable(table)
	var reg registrar
	r.extProc.Register(&reg)
	p := &playing{ctx: context.Background(), in: chatExchange(t, size)}
	return r, func() int {
		p.next, p.sent = 0, 0
		if err := reg.process(nil, p); err != nil {
			t.Fatal(err)
		}
		return p.sent
	}
}

// chatExchange is what a proxy sends of a chat and its answer.
func chatExchange(t testing.TB, size int) []mem.BufferSlice {
	t.Helper()
	var out []mem.BufferSlice
	add := func(m *extprocv3.ProcessingRequest) {
		raw, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, mem.BufferSlice{mem.SliceBuffer(raw)})
	}
	headers := func(pairs ...string) *extprocv3.HttpHeaders {
		m := &core.HeaderMap{}
		for i := 0; i < len(pairs); i += 2 {
			m.Headers = append(m.Headers, &core.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
		}
		return &extprocv3.HttpHeaders{Headers: m}
	}
	text := fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":"You are helpful."},{"role":"user","content":%q}],"stream":false}`,
		strings.Repeat("All work and no play makes Jack a dull boy. ", size/44))
	add(&extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers(":method", "POST", ":path", "/v1/chat/completions", ":authority", "llm.example.com",
			"content-type", "application/json", "content-length", fmt.Sprint(len(text)), "authorization", "Bearer 0123456789abcdef", "user-agent", "OpenAI/Python 1.99.0",
			"x-request-id", "6f5902ac-237e-4a0e-9d0f-0c1d2e3f4a5b", "x-forwarded-for", "10.1.2.3", "x-forwarded-proto", "https")},
		ProtocolConfig: &extprocv3.ProtocolConfiguration{RequestBodyMode: 4, ResponseBodyMode: 4},
	})
	for len(text) > 0 {
		n := min(len(text), 16<<10)
		add(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: []byte(text[:n]), EndOfStream: n == len(text)}}})
		text = text[n:]
	}
	add(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: headers(":status", "200", "content-type", "application/json")}})
	add(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{ResponseBody: &extprocv3.HttpBody{
		Body: []byte(`{"id":"x","choices":[{"message":{"role":"assistant","content":"y"}}],"usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16}}`), EndOfStream: true,
	}}})
	return out
}

// TestPickAllocations keeps a pick cheap: pickBudget is how many allocations one pick by
// ext_proc may make in the router, for a chat of 8 KB: reading it, hashing it, asking three
// scorers, picking, reserving, counting, answering, and watching the answer. What NATS, the
// scorers' transport and gRPC take comes on top. It counts, and measures no time.
func TestPickAllocations(t *testing.T) {
	for _, n := range []int{10, 500} {
		pick := picking(t, n, 8<<10)
		if got := pick(); got != 4 {
			t.Fatalf("%d messages were sent, want 4", got)
		}
		if got := testing.AllocsPerRun(300, func() { pick() }); got > pickBudget {
			t.Errorf("%v allocations with %d endpoints, want at most %d", got, n, pickBudget)
		} else {
			t.Logf("%v allocations with %d endpoints", got, n)
		}
	}
}

// Whoever watches decisions with candidates gets them whole, although they go by the columns
// of others else.
func TestWatchedDecisionsAreWhole(t *testing.T) {
	const n = 20
	r, pick := pickingRouter(t, n, 1<<10)
	pick()
	entries, stop := r.decisions.Watch(0, true)
	defer stop()
	for range 3 {
		pick()
	}
	for range 3 {
		res := (<-entries).Full.Results[0]
		if len(res.Totals) != n || len(res.InFlight) != n || len(res.Scores) != 3 || len(res.Scores[0].Values) != n {
			t.Errorf("%d totals, %d in flight, scores %+v", len(res.Totals), len(res.InFlight), res.Scores)
		}
	}
}

// BenchmarkPick is a pick by ext_proc in the router alone.
func BenchmarkPick(b *testing.B) {
	for _, n := range []int{10, 100, 500} {
		for _, size := range []int{1 << 10, 8 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("%d/%dKB", n, size>>10), func(b *testing.B) {
				pick := picking(b, n, size)
				b.ReportAllocs()
				for b.Loop() {
					pick()
				}
			})
		}
	}
}
