package extproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// tape is a stream of messages made of fuzzed bytes. It checks what is sent.
type tape struct {
	grpc.ServerStream
	t    *testing.T
	ctx  context.Context
	ops  []byte
	text []byte
	mode [2]wire.Mode
	sent bool // the first message was
	out  []*extproc.ProcessingResponse
	fail int // the message that cannot be sent, from 1; 0: none
	pool *leakPool

	answer []byte         // of the body, up to its end
	begun  bool           // the answer
	ended  bool           // the answer
	counts map[string]int // messages by kind
}

func (s *tape) Context() context.Context { return s.ctx }

// next returns the next fuzzed byte.
func (s *tape) next() byte {
	if len(s.ops) == 0 {
		return 0
	}
	b := s.ops[0]
	s.ops = s.ops[1:]
	return b
}

// some returns some of the fuzzed text.
func (s *tape) some() []byte {
	n, times := min(int(s.next()), len(s.text)), int(s.next())
	out := s.text[:n]
	s.text = s.text[n:]
	return bytes.Repeat(out, 1+max(times-128, 0)*10) // now and then a large body
}

// request returns the next message.
func (s *tape) request() *extproc.ProcessingRequest {
	op := s.next()
	end := op&0x80 != 0
	in := new(extproc.ProcessingRequest)
	switch op & 7 {
	case 0:
		in.Request = &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{Headers: s.headers(), EndOfStream: end}}
	case 1, 2:
		in.Request = &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: s.some(), EndOfStream: end}}
	case 3:
		in.Request = &extproc.ProcessingRequest_RequestTrailers{RequestTrailers: &extproc.HttpTrailers{}}
	case 4:
		in.Request = &extproc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extproc.HttpHeaders{Headers: s.headers(), EndOfStream: end}}
		s.begun, s.ended = true, s.ended || end && !s.begun
	case 5, 6:
		body := s.some()
		in.Request = &extproc.ProcessingRequest_ResponseBody{ResponseBody: &extproc.HttpBody{Body: body, EndOfStream: end}}
		if !s.ended {
			s.answer = append(s.answer, body...)
		}
		s.begun, s.ended = true, s.ended || end
	case 7:
		in.Request = &extproc.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extproc.HttpTrailers{}}
		s.begun, s.ended = true, true
	}
	s.counts[fmt.Sprintf("%T", in.GetRequest())]++
	if op&8 != 0 {
		v, _ := structpb.NewStruct(map[string]any{edge.HeaderSubset: string(s.some()), edge.HeaderServed: "10.0.0.2:8000"})
		in.MetadataContext = &core.Metadata{FilterMetadata: map[string]*structpb.Struct{namespaceSubset: v, "envoy.lb": v}}
	}
	if !s.sent {
		s.sent = true
		in.ProtocolConfig = &extproc.ProtocolConfiguration{
			RequestBodyMode: filter.ProcessingMode_BodySendMode(s.mode[0]), ResponseBodyMode: filter.ProcessingMode_BodySendMode(s.mode[1]),
		}
	}
	return in
}

func (s *tape) RecvMsg(m any) error {
	if len(s.ops) == 0 {
		return io.EOF
	}
	in := s.request()
	b, err := proto.Marshal(in)
	if err != nil {
		return err
	}
	// As gRPC hands them out: in buffers of a pool, freed after reading.
	var data mem.BufferSlice
	for len(b) > 0 {
		n := min(len(b), 2000)
		data = append(data, s.pool.hold(b[:n]))
		b = b[n:]
	}
	defer data.Free()
	return wire.Codec().Unmarshal(data, m)
}

func (s *tape) headers() *core.HeaderMap {
	b := s.next()
	pairs := []string{
		":method", []string{"POST", "GET", "CONNECT", ""}[b&3], ":status", []string{"200", "503", "404", "x"}[b>>2&3],
		":path", []string{"/v1/chat/completions", "/v1/completions", "/any", "/v1/audio/transcriptions"}[b>>4&3],
		"content-type", []string{"application/json", "text/event-stream", "multipart/form-data; boundary=x", "application/grpc"}[b>>6&3],
	}
	if b := s.next(); b&1 != 0 {
		pairs = append(pairs, "content-length", []string{"10", "-1", "99999999999"}[b%3], "content-encoding", []string{"gzip", "identity", "br"}[b>>2%3])
	}
	return headerMap(pairs)
}

var errSend = errors.New("the stream has gone")

func (s *tape) SendMsg(m any) error {
	data, err := wire.Codec().Marshal(m)
	if err != nil {
		return err
	}
	defer data.Free()
	if s.fail > 0 && len(s.out)+1 >= s.fail {
		return errSend
	}
	out, whole := new(extproc.ProcessingResponse), make([]byte, data.Len())
	data.CopyTo(whole)
	if err := proto.Unmarshal(whole, out); err != nil {
		s.t.Fatalf("what was sent cannot be read: %v", err)
	}
	s.out = append(s.out, out)
	return nil
}

// leakPool counts buffers that are held.
type leakPool struct{ held int }

func (p *leakPool) Get(n int) *[]byte { b := make([]byte, n); return &b }
func (p *leakPool) Put(*[]byte)       { p.held-- }

func (p *leakPool) hold(b []byte) mem.Buffer {
	p.held++
	own := make([]byte, len(b), max(len(b), 4096)) // gRPC does not pool small ones
	copy(own, b)
	return mem.NewBuffer(&own, p)
}

// fuzzed decides, and counts what is reserved.
type fuzzed struct {
	rig
	table *roster.Roster
	open  int
	err   error
}

func (d *fuzzed) Decide(_ context.Context, r *route.Request) *route.Decision {
	if r.Prompt != nil {
		r.Prompt.Blocks(64, 16)
		_ = r.Prompt.Text()
	}
	if d.err != nil {
		return &route.Decision{Request: r, Err: d.err}
	}
	d.open++
	e := d.table.Snapshot().Table.Endpoints
	return &route.Decision{Request: r, Endpoint: &e[0], Fallbacks: []*roster.Endpoint{&e[1]}, Reservation: &once{d: d}}
}
func (d *fuzzed) Snapshot() *roster.Snapshot { return d.table.Snapshot() }

type once struct {
	d    *fuzzed
	done bool
}

func (*once) PickID() string        { return "" }
func (*once) FirstToken()           {}
func (*once) Move(*roster.Endpoint) {}
func (o *once) Finish(bool, route.Usage) {
	if o.done {
		panic("finished twice")
	}
	o.done = true
	o.d.open--
}

// FuzzSequences plays messages in any order, with any content, to any end. Nothing
// panics, nothing stays reserved or held, and no answer is against the protocol.
func FuzzSequences(f *testing.F) {
	f.Add([]byte{0x00, 0, 0, 0x01, 100, 9, 0x81, 0, 0, 0x04, 0, 0, 0x85, 1, 1}, []byte(chat("m", "hello")), byte(4|4<<3), byte(0))
	f.Add([]byte{0x00, 0, 0, 0x81, 70, 9, 0x81, 0, 0, 0x01, 1, 1, 0x03}, []byte(chat("m", "hello")+"more"), byte(4|4<<3), byte(0))
	f.Add([]byte{0x80, 1, 0, 0x04, 0, 0, 0x05, 3, 3, 0x07}, []byte("data: x\n\n"), byte(1|1<<3), byte(2))
	f.Add([]byte{0x08, 0, 0, 3, 3, 0x01, 70, 9, 0x03, 0x0c, 0, 0, 1, 1}, []byte("[::1]:80,10.0.0.1"+chat("m", "x")), byte(2|2<<3), byte(1))
	f.Add([]byte{0x81, 90, 9, 0x00, 0, 0}, []byte(chat("m", "hello")), byte(3|0<<3), byte(0))
	f.Add([]byte{0x00, 0x20, 0, 0x01, 60, 255, 0x01, 60, 200, 0x03, 0x04, 0, 0, 0x85, 60, 255}, make([]byte, 200), byte(4|4<<3), byte(4))
	f.Add([]byte{0x00, 0x20, 0, 0x01, 60, 200}, make([]byte, 200), byte(4|4<<3), byte(0)) // the end never comes
	table := roster.New(roster.Config{})
	list, err := roster.NewTable([]roster.Endpoint{{ID: "a", Host: "10.0.0.1", Port: 8000}, {ID: "b", Host: "10.0.0.2", Port: 8000}})
	if err != nil {
		f.Fatal(err)
	}
	table.SetTable(list)
	cfg := DefaultConfig()
	cfg.SecureServing = false
	cfg.MaxRequestBytes = 150000
	d := &fuzzed{table: table}
	tel := telemetry.Discard()
	s, err := New(Deps{Decider: d, Roster: d, Quarantine: d, Telemetry: tel, Rewrite: func(r *route.Request) (string, bool) { return "other", r.Model == "m" }}, cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, ops, text []byte, modes, how byte) {
		d.err = nil
		if how&1 != 0 {
			d.err = route.ErrNoEndpoint
		}
		pool := &leakPool{}
		play := &tape{counts: map[string]int{}, t: t, ctx: context.Background(), ops: ops, text: text, mode: [2]wire.Mode{wire.Mode(modes & 7), wire.Mode(modes >> 3 & 7)}, pool: pool, fail: int(how >> 1 & 7)}
		err := s.process(play)
		if err != nil && !errors.Is(err, errSend) {
			t.Fatalf("the stream ended with %v", err)
		}
		if d.open != 0 {
			t.Fatalf("%d reservations are open", d.open)
		}
		if pool.held != 0 {
			t.Fatalf("%d buffers are held", pool.held)
		}
		immediate := protocol(t, play.out, play.mode[0] == wire.FullDuplex, play.mode[1] == wire.FullDuplex)
		if err == nil && !immediate && play.mode[0] <= wire.FullDuplex {
			complete(t, play)
		}
	})
}

// complete checks that every message that has to be answered was, and that the answer's
// body was passed on.
func complete(t *testing.T, play *tape) {
	t.Helper()
	got, passed, held := map[string]int{}, []byte{}, false
	for _, m := range play.out {
		got[strings.Replace(fmt.Sprintf("%T", m.GetResponse()), "Response_", "Request_", 1)]++
		passed = append(passed, m.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetBody()...)
	}
	if play.mode[1] == wire.FullDuplex {
		if !bytes.Equal(passed, play.answer) {
			t.Fatalf("of an answer of %d bytes %d were passed on", len(play.answer), len(passed))
		}
		delete(got, "*ext_procv3.ProcessingRequest_ResponseBody")
		delete(play.counts, "*ext_procv3.ProcessingRequest_ResponseBody")
	}
	if play.mode[0] == wire.FullDuplex { // the end of the request may be missing
		delete(got, "*ext_procv3.ProcessingRequest_RequestBody")
		delete(play.counts, "*ext_procv3.ProcessingRequest_RequestBody")
		held = play.counts["*ext_procv3.ProcessingRequest_RequestHeaders"] == got["*ext_procv3.ProcessingRequest_RequestHeaders"]+1
	}
	if held {
		got["*ext_procv3.ProcessingRequest_RequestHeaders"]++
	}
	if d := cmp.Diff(play.counts, got, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("messages and answers by kind (-in +out):\n%s", d)
	}
}

// protocol checks the order of answers, and returns whether one was immediate.
func protocol(t *testing.T, out []*extproc.ProcessingResponse, requestDuplex, responseDuplex bool) (immediate bool) {
	t.Helper()
	var requestEnded, responseEnded bool
	for i, m := range out {
		if immediate {
			t.Fatalf("answer %d comes after the immediate one: %v", i, m)
		}
		body := func(b *extproc.BodyResponse, duplex bool, ended *bool) {
			s := b.GetResponse().GetBodyMutation().GetStreamedResponse()
			switch {
			case duplex != (s != nil):
				t.Fatalf("answer %d is not of its mode: %v", i, m)
			case s == nil:
			case *ended:
				t.Fatalf("answer %d comes after the end: %v", i, m)
			case len(s.GetBody()) > maxChunk:
				t.Fatalf("answer %d holds %d bytes", i, len(s.GetBody()))
			case s.GetEndOfStream():
				*ended = true
			}
		}
		switch r := m.GetResponse().(type) {
		case *extproc.ProcessingResponse_RequestBody:
			body(r.RequestBody, requestDuplex, &requestEnded)
		case *extproc.ProcessingResponse_ResponseBody:
			body(r.ResponseBody, responseDuplex, &responseEnded)
		case *extproc.ProcessingResponse_ImmediateResponse:
			immediate = true
			if s := r.ImmediateResponse.GetStatus().GetCode(); s < 400 || len(r.ImmediateResponse.GetBody()) == 0 {
				t.Fatalf("answer %d is %v", i, m)
			}
		case nil:
			t.Fatalf("answer %d is empty", i)
		}
	}
	return immediate
}
