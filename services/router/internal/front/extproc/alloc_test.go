package extproc

import (
	"context"
	"io"
	"testing"

	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
)

// played is a stream whose messages are there already.
type played struct {
	grpc.ServerStream
	ctx  context.Context
	in   []mem.BufferSlice
	next int
	sent int // bytes
}

func (s *played) Context() context.Context { return s.ctx }

func (s *played) RecvMsg(m any) error {
	if s.next == len(s.in) {
		return io.EOF
	}
	s.next++
	return wire.Codec().Unmarshal(s.in[s.next-1], m)
}

func (s *played) SendMsg(m any) error {
	data, err := wire.Codec().Marshal(m)
	s.sent += data.Len()
	data.Free()
	return err
}

func play(b testing.TB, size int) *played {
	request, response := script(b, size)
	p := &played{ctx: context.Background()}
	for _, m := range append(request, response...) {
		p.in = append(p.in, mem.BufferSlice{mem.SliceBuffer(m)})
	}
	return p
}

// playNoWait is a proxy that sends a body of two parts without waiting.
func playNoWait(t testing.TB) *played {
	p := &played{ctx: context.Background()}
	body := func(text string, end bool) *extproc.ProcessingRequest {
		return &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: []byte(text), EndOfStream: end}}}
	}
	for _, m := range []*extproc.ProcessingRequest{
		{
			Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{
				Headers: headerMap([]string{":method", "POST", ":path", "/v1/completions", "content-type", "application/json"}),
			}},
			ProtocolConfig: &extproc.ProtocolConfiguration{
				RequestBodyMode: filter.ProcessingMode_STREAMED, SendBodyWithoutWaitingForHeaderResponse: true,
			},
		},
		body(`{"model":"m",`, false), body(`"prompt":"x"}`, true),
	} {
		out, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		p.in = append(p.in, mem.BufferSlice{mem.SliceBuffer(out)})
	}
	return p
}

// An exchange whose body came in time is used again as any other is: nothing is left
// that would decide in a hurry.
func TestExchangesThatDidNotHurryAreUsedAgain(t *testing.T) {
	s, err := instantServer()
	if err != nil {
		t.Fatal(err)
	}
	x := new(exchange)
	x.begin(s, playNoWait(t))
	if err := x.run(); err != nil {
		t.Fatal(err)
	}
	x.clean = true
	if x.decision == nil || x.basis != byBody || x.hold != nil {
		t.Errorf("decision %v by %s, to be hurried: %t", x.decision, basisNames[x.basis], x.hold != nil)
	}
	x.end()
	if x.s != nil {
		t.Error("it was not made ready for another stream")
	}
}

// BenchmarkExchange measures the front without gRPC.
func BenchmarkExchange(b *testing.B) {
	s, err := instantServer()
	if err != nil {
		b.Fatal(err)
	}
	for name, size := range map[string]int{"1KB": 1 << 10, "8KB": 8 << 10, "64KB": 64 << 10} {
		b.Run(name, func(b *testing.B) {
			p := play(b, size)
			b.ReportAllocs()
			for b.Loop() {
				p.next = 0
				if err := s.process(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAllocations keeps the front cheap: reading a chat of 8 KB, deciding, answering and
// watching the answer, without gRPC and the decision itself.
func TestAllocations(t *testing.T) {
	s, err := instantServer()
	if err != nil {
		t.Fatal(err)
	}
	p := play(t, 8<<10)
	got := testing.AllocsPerRun(200, func() {
		p.next = 0
		if err := s.process(p); err != nil {
			t.Fatal(err)
		}
	})
	if got > 30 {
		t.Errorf("%v allocations, want at most 30", got)
	}
	if p.sent == 0 {
		t.Error("nothing was sent")
	}
}
