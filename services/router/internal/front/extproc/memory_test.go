package extproc

import (
	"context"
	"io"
	"strings"
	"testing"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
)

// Bodies that wait for their ends may not take more room together than they are given:
// slow clients would else use up the router's memory.
func TestBodiesTogether(t *testing.T) {
	half := chat("m", strings.Repeat("x", 60000))
	r := newRig(t, with(func(c *Config) { c.MaxRequestBytes, c.MaxBufferedBytes = 100000, 100000 }))
	holds := func(n int) {
		t.Helper()
		kittest.Eventually(t, "the bytes that are held", func() bool { return r.server.held.Load() == int64(n) })
	}
	first := r.duplex()
	first.headers("POST", "/v1/chat/completions", false)
	first.body(half, false)
	holds(len(half))

	second := r.duplex()
	second.headers("POST", "/v1/chat/completions", false)
	second.body(half, false)
	if got := second.refused(); got.Status != 503 || got.Reason != "buffers-full" {
		t.Errorf("refused with %+v", got)
	}
	r.ended("buffers-full", 1)
	holds(len(half))

	first.body("", true)
	first.to("192.168.1.1:8000")
	first.same(half)
	holds(0) // although the answer has not begun

	third := r.duplex()
	third.headers("POST", "/v1/chat/completions", false)
	third.body(half, false)
	holds(len(half))
	third.cancel()
	holds(0)
	first.finish()
}

// scripted is a stream that says how many buffers are held whenever a message is awaited.
type scripted struct {
	grpc.ServerStream
	t    *testing.T
	in   []*extproc.ProcessingRequest
	pool leakPool
	held []int
}

func (s *scripted) Context() context.Context { return s.t.Context() }

func (s *scripted) RecvMsg(m any) error {
	s.held = append(s.held, s.pool.held)
	if len(s.in) == 0 {
		return io.EOF
	}
	b, err := proto.Marshal(s.in[0])
	if err != nil {
		return err
	}
	s.in = s.in[1:]
	data := mem.BufferSlice{s.pool.hold(b)}
	defer data.Free()
	return wire.Codec().Unmarshal(data, m)
}

func (s *scripted) SendMsg(m any) error {
	data, err := wire.Codec().Marshal(m)
	data.Free()
	return err
}

// An answer may be minutes in coming: nothing of the request is held for so long.
func TestNothingIsHeldForTheAnswer(t *testing.T) {
	for _, mode := range []string{duplex, buffered, partial, streamed} {
		t.Run(mode, func(t *testing.T) {
			first := &extproc.ProcessingRequest{
				Request:        &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{Headers: headerMap([]string{":method", "POST", ":path", "/v1/chat/completions"})}},
				ProtocolConfig: protocolConfig(mode, none),
			}
			first.ProtocolConfig.SendBodyWithoutWaitingForHeaderResponse = true
			s := &scripted{t: t, in: []*extproc.ProcessingRequest{
				first,
				{Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: []byte(chat("m", strings.Repeat("x", 70000))), EndOfStream: true}}},
				{Request: &extproc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extproc.HttpHeaders{Headers: headerMap([]string{":status", "200"})}}},
			}}
			r := newRig(t)
			if err := r.server.process(s); err != nil {
				t.Fatal(err)
			}
			if req, _ := r.request(); req.Model != "m" {
				t.Errorf("it was read as %+v", req)
			}
			if len(s.held) != 4 || s.held[2] != 0 {
				t.Errorf("buffers held as messages are awaited: %v", s.held)
			}
		})
	}
}
